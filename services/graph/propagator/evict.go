package propagator

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// A namespace or a kind that is being deleted is walked once for what is in it:
// nothing new comes. Its objects go by themselves from then on, without a word
// to its own row; so whether it is empty is looked at again and again.

// emptyPause is how often, emptyShares how much more rarely where a look takes long.
const (
	emptyPause  = time.Second
	emptyShares = 20
)

// evict hands out what is in a container, beside the rounds, and remembers to
// look whether it is empty. It does so once, or again where that may have been
// lost. Where there are too many containers, the row is looked at again later.
func (p *Propagator) evict(ctx context.Context, g *errgroup.Group, container uid.UID, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	walking, known := p.evicting[container]
	switch {
	case walking, known && !again:
		return
	case len(p.evicting) >= maxHints:
		p.schedule(container, lifecycle.TimeOf(p.c.Now()).Add(emptyPause))
		return
	}
	p.evicting[container] = true
	p.walkBeside(ctx, g, func() error {
		err := p.walkContents(ctx, container)
		p.mu.Lock()
		if p.evicting[container] {
			p.evicting[container] = false
		}
		p.mu.Unlock()
		return p.outcome(ctx, err)
	})
}

// emptied looks for containers that have become empty, until ctx ends.
func (p *Propagator) emptied(ctx context.Context) error {
	pause := emptyPause
	for {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		start := time.Now()
		if err := p.hintEmpty(); err != nil {
			return err
		}
		pause = max(emptyPause, emptyShares*time.Since(start))
	}
}

// hintEmpty has the rows of containers looked at that are empty: the next round
// says that their finalizer is done.
func (p *Propagator) hintEmpty() error {
	p.mu.Lock()
	containers := make([]uid.UID, 0, len(p.evicting))
	for u := range p.evicting {
		containers = append(containers, u)
	}
	p.mu.Unlock()
	if len(containers) == 0 {
		return nil
	}
	snap := p.c.State.Snapshot()
	containers = slices.DeleteFunc(containers, func(u uid.UID) bool {
		n := snap.Node(u)
		return n != nil && n.Evicting() && lifecycle.AnyContent(snap, n) != ""
	})
	if err := closeSnapshot(snap); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range containers {
		delete(p.evicting, u)
		p.hint(u, hint{again: true})
	}
	if len(containers) > 0 {
		p.poke()
	}
	return nil
}

// walkContents hands out all objects in a container that are not being deleted.
func (p *Propagator) walkContents(ctx context.Context, container uid.UID) error {
	out := p.newOutbox()
	var at state.Content
	for {
		found, revision, more, err := p.contentsPage(container, &at)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(found, p.c.ChunkSize) {
			var c chunk
			for _, u := range part {
				c.add(container, revision, u)
			}
			if err := out.send(ctx, bus.WorkSubject(p.c.Realm, bus.QueueEvict), &coppicev1.EvictChunk{Groups: c.take()}); err != nil {
				return err
			}
		}
		if !more {
			return out.flush(ctx)
		}
		p.touch(container)
		p.c.Failpoint(FailScan)
	}
}

// contentsPage reads some objects of a container, from one snapshot.
func (p *Propagator) contentsPage(container uid.UID, at *state.Content) (found []uid.UID, revision uint64, more bool, err error) {
	snap := p.c.State.Snapshot()
	row, ok := snap.Owed(container)
	if !ok || !row.Evict {
		return nil, 0, false, closeSnapshot(snap)
	}
	snap.Contents(snap.Node(container), *at, func(place state.Content, u uid.UID) bool {
		*at = place
		found = append(found, u)
		more = len(found) == p.page()
		return !more
	})
	snap.Prefetch(found)
	found = slices.DeleteFunc(found, func(u uid.UID) bool {
		n := snap.Node(u)
		return n == nil || n.Terminating()
	})
	return found, row.Revision, more, closeSnapshot(snap)
}
