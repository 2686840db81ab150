package propagator

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// publisher coalesces work into chunks, and publishes them. A round has one, and each
// walk. It is not safe for concurrent use.
type publisher struct {
	p      *Propagator
	out    outbox
	dirty  chunk
	orphan chunk
	finish map[string]*coppicev1.FinishChunk // by finalizer
	called []uid.UID                         // objects whose calls were admitted
	read   int                               // dependents, by a walk
}

func (p *Propagator) newPublisher() *publisher {
	return &publisher{p: p, out: p.newOutbox()}
}

// longWalk is after how many chunks a walk publishes chunks that are as many times
// larger: by then all processors have work, and larger chunks cost less for each uid.
const longWalk = 4

// chunkSize is how many uids a chunk has now.
func (b *publisher) chunkSize() int {
	if b.read > longWalk*b.p.c.ChunkSize {
		return longWalk * b.p.c.ChunkSize
	}
	return b.p.c.ChunkSize
}

// dependentsOf is the chunk of dependents for processors, or of those to be orphaned.
func (b *publisher) dependentsOf(orphan bool) *chunk {
	if orphan {
		return &b.orphan
	}
	return &b.dirty
}

// sendFull publishes the chunks that are full.
func (b *publisher) sendFull(ctx context.Context) error {
	if b.dirty.full(b.chunkSize()) {
		if err := b.sendDirty(ctx); err != nil {
			return err
		}
	}
	if b.orphan.full(b.chunkSize()) {
		return b.sendOrphan(ctx)
	}
	return nil
}

func (b *publisher) sendDirty(ctx context.Context) error {
	return b.out.send(ctx, bus.WorkSubject(b.p.c.Realm, bus.QueueDirty), &coppicev1.DirtyChunk{Groups: b.dirty.take()})
}

func (b *publisher) sendOrphan(ctx context.Context) error {
	return b.out.send(ctx, bus.WorkSubject(b.p.c.Realm, bus.QueueOrphan), &coppicev1.OrphanChunk{Groups: b.orphan.take()})
}

// finished publishes that a built-in finalizer may be done with an object.
func (b *publisher) finished(ctx context.Context, finalizer string, u uid.UID) error {
	if b.finish == nil {
		b.finish = map[string]*coppicev1.FinishChunk{}
	}
	c := b.finish[finalizer]
	if c == nil {
		c = &coppicev1.FinishChunk{Finalizer: finalizer}
		b.finish[finalizer] = c
	}
	c.Uids = append(c.Uids, u...)
	if len(c.Uids) < b.p.c.ChunkSize*uid.PackedUUID {
		return nil
	}
	delete(b.finish, finalizer)
	return b.out.send(ctx, bus.WorkSubject(b.p.c.Realm, bus.QueueFinish), c)
}

// flush publishes the chunks that are not full, and waits until all messages are in
// their streams.
func (b *publisher) flush(ctx context.Context) error {
	if b.dirty.n > 0 {
		if err := b.sendDirty(ctx); err != nil {
			return err
		}
	}
	if b.orphan.n > 0 {
		if err := b.sendOrphan(ctx); err != nil {
			return err
		}
	}
	for _, c := range b.finish {
		if err := b.out.send(ctx, bus.WorkSubject(b.p.c.Realm, bus.QueueFinish), c); err != nil {
			return err
		}
	}
	published := len(b.out.pending) > 0
	if err := b.out.flush(ctx); err != nil {
		return err
	}
	if published {
		b.p.c.Failpoint(FailPublished)
	}
	return b.settleCalls()
}

// chunk collects dependents of one or more owners.
type chunk struct {
	groups []*coppicev1.DependentsOf
	n      int
	bytes  int // about
}

// maxChunk bounds a chunk in bytes. Uids of imported objects may be long, and NATS
// servers accept 1 MiB by default.
const maxChunk = 256 << 10

// groupBytes is about how much an owner takes in a chunk in addition to its uid.
const groupBytes = 16

// full reports whether a chunk has as many dependents, or as many bytes, as one may
// have.
func (c *chunk) full(most int) bool { return c.n >= most || c.bytes >= maxChunk }

// add adds a dependent of an owner whose row was written at a revision.
func (c *chunk) add(owner uid.UID, revision uint64, dependent uid.UID) {
	last := len(c.groups) - 1
	if last < 0 || string(c.groups[last].Owner) != string(owner) {
		c.groups = append(c.groups, &coppicev1.DependentsOf{Owner: []byte(owner), Revision: revision})
		last++
		c.bytes += len(owner) + groupBytes
	}
	c.groups[last].Dependents = append(c.groups[last].Dependents, dependent...)
	c.n++
	c.bytes += len(dependent)
}

// take returns what was collected.
func (c *chunk) take() []*coppicev1.DependentsOf {
	groups := c.groups
	*c = chunk{}
	return groups
}
