package propagator

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// round is one look at rows. Small pieces of work share chunks.
type round struct {
	p      *Propagator
	g      *errgroup.Group
	out    outbox
	dirty  chunk
	orphan chunk
	finish map[string]*coppicev1.FinishChunk

	called  []uid.UID      // objects whose calls were admitted
	walked  int            // how many dependents a walk has come by
	expires lifecycle.Time // see sessionEnd
}

// snapshotRows is how many rows are looked at in one snapshot.
const snapshotRows = 4096

// all looks at all rows, or at those alone that an import session may have held.
func (r *round) all(ctx context.Context, held bool) error {
	after := uid.UID("")
	for {
		snap := r.p.c.State.Snapshot()
		n := 0
		var fail error
		snap.EachOwed(after, func(u uid.UID, row state.OwedRow) bool {
			after = u
			n++
			if held {
				fail = r.ended(ctx, snap, u, row)
			} else {
				fail = r.row(ctx, snap, u, row, hint{again: true})
			}
			return fail == nil && n < snapshotRows
		})
		if err := closeSnapshot(snap); fail == nil {
			fail = err
		}
		if fail != nil || n < snapshotRows {
			return fail
		}
	}
}

// hinted looks at the rows of uids, which are sorted.
func (r *round) hinted(ctx context.Context, snap *state.Snapshot, uids []uid.UID, hints map[uid.UID]hint) error {
	var due []uid.UID
	var rows []state.OwedRow
	snap.EachOwedTo(uids, func(u uid.UID, row state.OwedRow) {
		due, rows = append(due, u), append(rows, row)
	})
	snap.Prefetch(due)
	snap.PrefetchCounts(due)
	for i, u := range due {
		if err := r.row(ctx, snap, u, rows[i], hints[u]); err != nil {
			return err
		}
	}
	snap.Forget()
	return nil
}

// ended publishes what a row says is owed to dependents, and by built-in
// finalizers, if an import session has held it that may have ended.
func (r *round) ended(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.OwedRow) error {
	if !row.Judge && !row.Orphan && row.Finish == "" && row.Examine == 0 {
		return nil
	}
	n := snap.Node(u)
	if n != nil && (n.ImportSession == "" || !n.Orphaning() && !n.Waiting()) {
		return nil
	}
	fresh, due := lifecycle.OwedWhen(snap, u, n)
	return r.collector(ctx, snap, u, n, row, fresh, due, false)
}

// row publishes what a row says is owed.
func (r *round) row(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.OwedRow, h hint) error {
	n := snap.Node(u)
	// When judging is due is told anew: kinds may have been registered since.
	fresh, due := lifecycle.OwedWhen(snap, u, n)
	if fresh.Evict && lifecycle.AnyContent(snap, n) == "" {
		if err := r.finished(ctx, lifecycle.FinalizerContents, u); err != nil {
			return err
		}
	} else if fresh.Evict {
		r.p.evict(ctx, r.g, u, h.again)
	}
	if fresh.Held {
		r.p.hold(u, snap.Revision())
	}
	if err := r.collector(ctx, snap, u, n, row, fresh, due, h.same); err != nil {
		return err
	}
	if fresh.Finalize || fresh.Terminate || fresh.Evict {
		r.p.touch(u)
	}
	if n != nil {
		r.p.release(snap, n)
	}
	if fresh.Finalize || fresh.Terminate {
		return r.calls(ctx, snap, n, h.again)
	}
	return nil
}

// collector publishes what the collector and the built-in finalizers have to do
// because of u, if it is due. same says that the dependents have been looked at.
func (r *round) collector(ctx context.Context, snap *state.Snapshot, u uid.UID, n *lifecycle.Node, row state.OwedRow, fresh lifecycle.Owed, due lifecycle.Due, same bool) error {
	fresh = r.p.begun(u, fresh, due)
	fresh.Orphan = fresh.Orphan && !same
	fresh.Judge = fresh.Judge && !same && r.judgeNow(snap, u, due)
	if fresh.Judge || fresh.Orphan {
		r.p.touch(u)
		if err := r.dependents(ctx, snap, u, n, row.Revision, fresh, due); err != nil {
			return err
		}
	}
	if fresh.Examine > 0 {
		r.p.examine(u)
	}
	if fresh.Finish != "" {
		r.p.touch(u)
		return r.finished(ctx, fresh.Finish, u)
	}
	return nil
}

// filter selects which dependents of u are owed something: all of one that is
// gone; the valid ones of one that is to orphan them, or waits for them; otherwise
// those with invalid references, also while the owner waits, however long.
func filter(snap *state.Snapshot, n *lifecycle.Node, orphan bool) state.ClaimFilter {
	switch {
	case n == nil:
		return state.ClaimFilter{}
	case orphan:
		return snap.ValidClaims(n, true)
	case !n.Waiting():
		return snap.ValidClaims(n, false)
	}
	all, valid := snap.Count(n.UID, lifecycle.Claims{}), lifecycle.Dependents(snap, n)
	switch {
	case valid.Pending() == 0:
		return snap.ValidClaims(n, false)
	case all.Pending() > valid.Pending():
		return state.ClaimFilter{}
	}
	return snap.ValidClaims(n, true)
}

// dependents publishes an owner's dependents: here if they are few, by a walk
// beside if they are many.
func (r *round) dependents(ctx context.Context, snap *state.Snapshot, u uid.UID, n *lifecycle.Node, revision uint64, owed lifecycle.Owed, due lifecycle.Due) error {
	if r.p.walkOnceMore(u) {
		return nil // what is before the cursor has been read, and may be gone
	}
	into := &r.dirty
	if owed.Orphan {
		into = &r.orphan
	}
	var few []uid.UID
	many := false
	snap.Dependents(u, filter(snap, n, owed.Orphan), state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		few = append(few, d)
		many = len(few) > r.p.c.ChunkSize
		return !many
	})
	some := owed.Judge && due.Last > lifecycle.TimeOf(r.p.c.Now())
	if many {
		r.p.walk(ctx, r.g, u, some)
		return nil
	}
	if some {
		few = r.p.ripe(snap, u, few)
	}
	for _, d := range few {
		into.add(u, revision, d)
		if into.bytes >= maxChunk {
			if err := r.flushFull(ctx); err != nil {
				return err
			}
		}
	}
	return r.flushFull(ctx)
}

// longWalk is after how many chunks a walk makes chunks that are as many times
// larger: by then there is work for everybody, and larger chunks cost less each.
const longWalk = 4

// chunkSize is how many uids a chunk has now.
func (r *round) chunkSize() int {
	if r.walked > longWalk*r.p.c.ChunkSize {
		return longWalk * r.p.c.ChunkSize
	}
	return r.p.c.ChunkSize
}

func (r *round) flushFull(ctx context.Context) error {
	if r.dirty.full(r.chunkSize()) {
		if err := r.sendDirty(ctx); err != nil {
			return err
		}
	}
	if r.orphan.full(r.chunkSize()) {
		return r.sendOrphan(ctx)
	}
	return nil
}

func (r *round) sendDirty(ctx context.Context) error {
	return r.out.send(ctx, bus.WorkSubject(r.p.c.Realm, bus.QueueDirty), &coppicev1.DirtyChunk{Groups: r.dirty.take()})
}

func (r *round) sendOrphan(ctx context.Context) error {
	return r.out.send(ctx, bus.WorkSubject(r.p.c.Realm, bus.QueueOrphan), &coppicev1.OrphanChunk{Groups: r.orphan.take()})
}

// finished publishes that a built-in finalizer may be done with an object.
func (r *round) finished(ctx context.Context, finalizer string, u uid.UID) error {
	if r.finish == nil {
		r.finish = map[string]*coppicev1.FinishChunk{}
	}
	c := r.finish[finalizer]
	if c == nil {
		c = &coppicev1.FinishChunk{Finalizer: finalizer}
		r.finish[finalizer] = c
	}
	c.Uids = append(c.Uids, u...)
	if len(c.Uids) < r.p.c.ChunkSize*uid.PackedUUID {
		return nil
	}
	delete(r.finish, finalizer)
	return r.out.send(ctx, bus.WorkSubject(r.p.c.Realm, bus.QueueFinish), c)
}

// flush publishes what is left, and waits until everything is in its stream.
func (r *round) flush(ctx context.Context) error {
	if r.dirty.n > 0 {
		if err := r.sendDirty(ctx); err != nil {
			return err
		}
	}
	if r.orphan.n > 0 {
		if err := r.sendOrphan(ctx); err != nil {
			return err
		}
	}
	for _, c := range r.finish {
		if err := r.out.send(ctx, bus.WorkSubject(r.p.c.Realm, bus.QueueFinish), c); err != nil {
			return err
		}
	}
	published := len(r.out.pending) > 0
	if err := r.out.flush(ctx); err != nil {
		return err
	}
	if published {
		r.p.c.Failpoint(FailPublished)
	}
	return r.settleCalls()
}
