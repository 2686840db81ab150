package propagator

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// publisher coalesces work into chunks, and publishes them. Each round has one, and
// each walk. It is not safe for concurrent use.
type publisher struct {
	p           *Propagator
	out         outbox
	dirty       chunk                             // dependents to evaluate
	orphan      chunk                             // dependents to orphan
	contents    chunk                             // of namespaces and kinds that are drained
	finish      map[string]*coppicev1.FinishChunk // by finalizer
	called      []uid.UID                         // objects whose calls were admitted
	most        int64                             // bytes of calls, from which on other calls wait; 0 for no limit
	calledBytes int64                             // of the calls
	refills     bool                              // calls wait that a refill is to publish
	read        int                               // how many dependents a walk has read
}

func (p *Propagator) newPublisher() *publisher {
	return &publisher{p: p, out: p.newOutbox(), finish: map[string]*coppicev1.FinishChunk{}}
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

// chunkOf returns the chunk of dependents to orphan, or of those to evaluate.
func (b *publisher) chunkOf(orphan bool) *chunk {
	if orphan {
		return &b.orphan
	}
	return &b.dirty
}

// sendFull publishes a chunk if it has as many uids, or as many bytes, as one may have.
func (b *publisher) sendFull(ctx context.Context, c *chunk) error {
	if c.n < b.chunkSize() && c.bytes < maxChunk {
		return nil
	}
	return b.send(ctx, c)
}

// send publishes a chunk, unless it is empty.
func (b *publisher) send(ctx context.Context, c *chunk) error {
	if c.n == 0 {
		return nil
	}
	groups := c.groups
	*c = chunk{}
	switch c {
	case &b.dirty:
		return b.message(ctx, bus.QueueDirty, &coppicev1.DirtyChunk{Groups: groups, Format: worker.Format}, owners(groups))
	case &b.orphan:
		return b.message(ctx, bus.QueueOrphan, &coppicev1.OrphanChunk{Groups: groups, Format: worker.Format}, owners(groups))
	default:
		return b.message(ctx, bus.QueueDrain, &coppicev1.DrainChunk{Groups: groups, Format: worker.Format}, owners(groups))
	}
}

// message publishes a chunk of work about the rows of some uids.
func (b *publisher) message(ctx context.Context, queue string, m proto.Message, about iter.Seq[uid.UID]) error {
	subject := bus.WorkSubject(b.p.c.Realm, queue)
	return b.out.send(ctx, subject, m, b.p.startSpan(subject, about))
}

// owners returns the uids of the rows that groups are about.
func owners(groups []*coppicev1.DependentsOf) iter.Seq[uid.UID] {
	return func(yield func(uid.UID) bool) {
		for _, g := range groups {
			if !yield(uid.UID(g.GetOwner())) {
				return
			}
		}
	}
}

// mayFinish publishes that a built-in finalizer may be done with an object.
func (b *publisher) mayFinish(ctx context.Context, finalizer string, u uid.UID) error {
	c := b.finish[finalizer]
	if c == nil {
		c = &coppicev1.FinishChunk{Finalizer: finalizer, Format: worker.Format}
		b.finish[finalizer] = c
	}
	c.Uids = append(c.Uids, u...)
	if len(c.Uids) < b.p.c.ChunkSize*uid.PackedUUID {
		return nil
	}
	delete(b.finish, finalizer)
	return b.message(ctx, bus.QueueFinish, c, uid.All(c.GetUids()))
}

// flush publishes the chunks that are not full, and waits until all messages are in
// their streams.
func (b *publisher) flush(ctx context.Context) error {
	for _, c := range []*chunk{&b.dirty, &b.orphan, &b.contents} {
		if err := b.send(ctx, c); err != nil {
			return err
		}
	}
	for _, c := range b.finish {
		if err := b.message(ctx, bus.QueueFinish, c, uid.All(c.GetUids())); err != nil {
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

// chunk collects dependents of one or more owners, or contents of containers.
type chunk struct {
	groups []*coppicev1.DependentsOf
	n      int
	bytes  int                  // about
	has    map[uid.UID]struct{} // dependents; nil if one may be there for several owners
}

const (
	// maxChunk bounds a chunk in bytes. Uids of imported objects may be long, and NATS
	// servers accept 1 MiB by default.
	maxChunk = 256 << 10
	// groupBytes is about how much an owner takes in a chunk in addition to its uid.
	groupBytes = 16
)

// addOnce is add for a dependent to evaluate. One that the chunk has already is evaluated once, at the revision of the
// newest row: an object may have thousands of absent owners, each with a row.
func (c *chunk) addOnce(owner uid.UID, revision uint64, dependent uid.UID) {
	if _, there := c.has[dependent]; there {
		last := c.groups[len(c.groups)-1]
		last.Revision = max(last.Revision, revision)
		return
	}
	if c.has == nil {
		c.has = map[uid.UID]struct{}{}
	}
	c.has[dependent] = struct{}{}
	c.add(owner, revision, dependent)
}

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
