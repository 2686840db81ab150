package propagator

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// round reads one batch of rows, and publishes what they need. Owners with few
// dependents share chunks; what takes long is added to the walks.
type round struct {
	*publisher
	at      lifecycle.Time // when the rows of this snapshot are read
	expires lifecycle.Time // see sessionEnd
}

// roundCalls is how many bytes of calls a round publishes; the work of other rows does not wait for more. A refill
// publishes the others meanwhile.
const roundCalls = 512 << 10

// snapshotRows is how many rows are read from one snapshot.
const snapshotRows = 4096

// publishRows reads rows, and publishes their work, until ctx ends.
func (p *Propagator) publishRows(ctx context.Context) error {
	for {
		b, err := p.rows.Get(ctx, 0)
		if err != nil {
			return err
		}
		err = p.runRound(ctx, b)
		p.rows.Done(b)
		if err := p.outcome(ctx, err); err != nil {
			return err
		}
	}
}

// runRound publishes what one batch of rows needs.
func (p *Propagator) runRound(ctx context.Context, b queue.Batch[uid.UID]) (err error) {
	r := &round{publisher: p.newPublisher()}
	r.most = roundCalls
	defer func() { err = errors.Join(err, r.settleCalls()) }() // also if it failed
	switch {
	case b.All && b.AllFlags&publishAgain == publishAgain:
		err = r.eachRow(ctx, r.rowAgain)
	case b.All:
		if err = r.eachRow(ctx, r.sessionClosed); err == nil {
			err = r.batch(ctx, b.Items)
		}
	default:
		err = r.batch(ctx, b.Items)
	}
	if err != nil {
		return err
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.refills {
		r.p.wantRefill()
	}
	return nil
}

// eachRow calls publish for all rows.
func (r *round) eachRow(ctx context.Context, publish func(context.Context, *state.Snapshot, uid.UID, state.WorkRow) error) error {
	after := uid.UID("")
	return r.p.pages(func(snap *state.Snapshot) (more bool, err error) {
		n := 0
		r.at = r.p.now()
		snap.EachWorkRow(after, func(u uid.UID, row state.WorkRow) bool {
			after = u
			n++
			err = publish(ctx, snap, u, row)
			return err == nil && n < snapshotRows
		})
		return n == snapshotRows, err
	})
}

// rowAgain is row for a row whose work is published again.
func (r *round) rowAgain(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.WorkRow) error {
	return r.row(ctx, snap, u, row, publishAgain)
}

// batch publishes what the rows of some items need.
func (r *round) batch(ctx context.Context, items []queue.Item[uid.UID]) error {
	slices.SortFunc(items, func(a, b queue.Item[uid.UID]) int { return cmp.Compare(a.Key, b.Key) })
	return r.p.pages(func(snap *state.Snapshot) (more bool, err error) {
		for _, i := range items {
			if i.Flags&nowSolid != 0 {
				if err := r.becameSolid(ctx, snap, i.Key); err != nil {
					return false, err
				}
			}
		}
		for part := range slices.Chunk(items, snapshotRows) {
			if err := r.rows(ctx, snap, part); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}

// rows publishes what those rows of items, sorted by uid, need that still exist.
func (r *round) rows(ctx context.Context, snap *state.Snapshot, items []queue.Item[uid.UID]) error {
	uids := make([]uid.UID, 0, len(items))
	for i := range items {
		if items[i].Flags&rowChanged != 0 {
			uids = append(uids, items[i].Key)
		}
	}
	type found struct {
		row   state.WorkRow
		flags queue.Flags
	}
	var rows []found
	var keys []uid.UID
	next := 0
	snap.EachWorkRowOf(uids, func(u uid.UID, row state.WorkRow) {
		for items[next].Key != u {
			next++
		}
		keys, rows = append(keys, u), append(rows, found{row, items[next].Flags})
	})
	snap.Prefetch(keys)
	snap.PrefetchCounts(keys)
	r.at = r.p.now()
	for i, u := range keys {
		if err := r.row(ctx, snap, u, rows[i].row, rows[i].flags); err != nil {
			return err
		}
	}
	snap.Forget()
	return nil
}

// sessionClosed publishes what a row needs if an import session may have delayed it.
func (r *round) sessionClosed(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.WorkRow) error {
	if !row.Evaluate && !row.Orphan && row.Finish == "" && row.Examine == 0 && !row.Drain {
		return nil
	}
	w := workOf(snap, u, row, r.at)
	if n := w.node; n != nil && !n.AwaitsSession() && !w.due.Imported {
		return nil
	}
	if w.Drain {
		if err := r.drainContents(ctx, snap, &w, lost); err != nil {
			return err
		}
	}
	return r.collectorWork(ctx, snap, w)
}

// row publishes what a row needs.
func (r *round) row(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.WorkRow, f queue.Flags) error {
	w := workOf(snap, u, row, r.at)
	if w.Drain {
		if err := r.drainContents(ctx, snap, &w, f); err != nil {
			return err
		}
	}
	if w.Blocked {
		r.p.blocked.Add(u, snap.Revision())
	}
	collector := w
	if f&dependentsChanged == 0 {
		collector.Evaluate, collector.Orphan = false, false
	}
	if err := r.collectorWork(ctx, snap, collector); err != nil {
		return err
	}
	if w.Finalize || w.Terminate || w.Drain {
		r.p.touch(u, w.at)
	}
	if w.node != nil {
		r.p.releaseCalls(snap, w.node)
	}
	if w.Finalize || w.Terminate {
		return r.calls(ctx, snap, w.node, f)
	}
	return nil
}

// drainContents has the contents of a container drained, unless an import session delays it. Then it adds
// the row for the end of the session.
func (r *round) drainContents(ctx context.Context, snap *state.Snapshot, w *work, f queue.Flags) error {
	if w.due.Begins > w.at {
		r.p.addAt(w.uid, rowChanged, w.due.Begins)
		return nil
	}
	return r.drained(ctx, snap, w.node, f)
}

// collectorWork publishes the work of processors and built-in finalizers that is due.
func (r *round) collectorWork(ctx context.Context, snap *state.Snapshot, w work) error {
	r.p.delay(&w)
	w.Evaluate = w.Evaluate && r.dueNow(snap, &w)
	if w.Evaluate || w.Orphan {
		r.p.touch(w.uid, w.at)
		if err := r.publishDependents(ctx, snap, &w); err != nil {
			return err
		}
	}
	if w.Protected && !w.Evaluate && r.p.c.Protected != nil {
		r.reportProtected(snap, &w)
	}
	if w.Examine > 0 {
		r.p.examiner.add(w.uid)
	}
	if w.Finish != "" {
		r.p.touch(w.uid, w.at)
		return r.mayFinish(ctx, w.Finish, w.uid)
	}
	return nil
}

// maxProtected is the maximum number of dependents that are read to report protected ones.
const maxProtected = 256

// reportProtected reports the dependents that stay only because they are protected, and the owner
// that waits for them. Nothing is published for them: work is pending again when they are
// unprotected.
func (r *round) reportProtected(snap *state.Snapshot, w *work) {
	r.p.touch(w.uid, w.at)
	if w.node != nil && w.node.Waiting() {
		r.p.c.Protected(snap, w.node)
	}
	var found []uid.UID
	snap.Dependents(w.uid, state.ClaimFilter{}, state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		found = append(found, d)
		return len(found) < maxProtected
	})
	snap.Prefetch(found)
	for _, d := range found {
		if n := snap.Node(d); n != nil && lifecycle.Evaluate(snap, n, w.at).Decision == lifecycle.KeepProtected {
			r.p.c.Protected(snap, n)
		}
	}
}

// publishDependents publishes an owner's dependents: here if they are few, in a walk if they
// are more than a chunk.
func (r *round) publishDependents(ctx context.Context, snap *state.Snapshot, w *work) error {
	long := walk{ofDependents, w.uid}
	if r.p.walks.Pending(long) {
		r.p.addWalk(long) // again: dependents may have been added before its cursor
		return nil
	}
	list, tooMany := r.upToChunk(snap, w.uid, w.filter(snap))
	someNotDue := w.someNotDue()
	if tooMany {
		if !someNotDue {
			r.p.walks.Forget(long, 0) // it need not rest
		}
		r.p.addWalk(long)
		return nil
	}
	if someNotDue {
		list = r.p.dueDependents(snap, w.uid, list, w.at)
	}
	if !w.Orphan {
		list = r.p.unbraked(snap, list)
	}
	into := r.chunkOf(w.Orphan)
	add := into.add
	if !w.Orphan {
		add = into.addOnce
	}
	for _, d := range list {
		add(w.uid, w.revision, d)
		if into.bytes >= maxChunk {
			if err := r.send(ctx, into); err != nil {
				return err
			}
		}
	}
	return r.sendFull(ctx, into)
}

// upToChunk returns an owner's dependents, or reports that they are too many for one chunk.
func (r *round) upToChunk(snap *state.Snapshot, u uid.UID, f state.ClaimFilter) (list []uid.UID, tooMany bool) {
	snap.Dependents(u, f, state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		list = append(list, d)
		tooMany = len(list) > r.p.c.ChunkSize
		return !tooMany
	})
	return list, tooMany
}
