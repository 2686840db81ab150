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

// round evaluates one batch of rows, and publishes what they need. Owners with few
// dependents share chunks; what takes long is added to the walks.
type round struct {
	*publisher
	at      lifecycle.Time // when the rows of this snapshot are evaluated
	expires lifecycle.Time // see sessionEnd
}

// roundCalls is how many bytes of calls a round publishes; the work of other rows does not wait for more. A refill
// publishes the others meanwhile.
const roundCalls = 512 << 10

// snapshotRows is how many rows are read from one snapshot.
const snapshotRows = 4096

// publishRows evaluates rows until ctx ends.
func (p *Propagator) publishRows(ctx context.Context) error {
	for {
		b, err := p.rows.Get(ctx, 0)
		if err != nil {
			return err
		}
		err = p.round(ctx, b)
		p.rows.Done(b)
		if err := p.outcome(ctx, err); err != nil {
			return err
		}
	}
}

func (p *Propagator) round(ctx context.Context, b queue.Batch[uid.UID]) (err error) {
	r := &round{publisher: p.newPublisher()}
	r.most = roundCalls
	defer func() { err = errors.Join(err, r.settleCalls()) }() // also if it failed
	switch {
	case b.All && b.AllFlags&everything == everything:
		err = r.all(ctx, r.everything)
	case b.All:
		if err = r.all(ctx, r.sessionClosed); err == nil {
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

// all evaluates all rows.
func (r *round) all(ctx context.Context, evaluate func(context.Context, *state.Snapshot, uid.UID, state.WorkRow) error) error {
	after := uid.UID("")
	return r.p.pages(func(snap *state.Snapshot) (more bool, err error) {
		n := 0
		r.at = r.p.now()
		snap.EachWorkRow(after, func(u uid.UID, row state.WorkRow) bool {
			after = u
			n++
			err = evaluate(ctx, snap, u, row)
			return err == nil && n < snapshotRows
		})
		return n == snapshotRows, err
	})
}

func (r *round) everything(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.WorkRow) error {
	return r.row(ctx, snap, u, row, everything)
}

// batch evaluates the rows of some items.
func (r *round) batch(ctx context.Context, items []queue.Item[uid.UID]) error {
	slices.SortFunc(items, func(a, b queue.Item[uid.UID]) int { return cmp.Compare(a.Key, b.Key) })
	return r.p.pages(func(snap *state.Snapshot) (more bool, err error) {
		for _, i := range items {
			if i.Flags&solid != 0 {
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

// rows evaluates those rows of items, sorted by uid, that still exist.
func (r *round) rows(ctx context.Context, snap *state.Snapshot, items []queue.Item[uid.UID]) error {
	uids := make([]uid.UID, 0, len(items))
	for i := range items {
		if items[i].Flags&changed != 0 {
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
	w := evaluate(snap, u, row, r.at)
	if n := w.node; n != nil && !n.AwaitsSession() && !w.due.Imported {
		return nil
	}
	if w.Drain {
		if err := r.contents(ctx, snap, &w, lost); err != nil {
			return err
		}
	}
	return r.collector(ctx, snap, w)
}

// row publishes what a row needs.
func (r *round) row(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.WorkRow, f queue.Flags) error {
	w := evaluate(snap, u, row, r.at)
	if w.Drain {
		if err := r.contents(ctx, snap, &w, f); err != nil {
			return err
		}
	}
	if w.Blocked {
		r.p.blocked.Add(u, snap.Revision())
	}
	collector := w
	if f&dependents == 0 {
		collector.Evaluate, collector.Orphan = false, false
	}
	if err := r.collector(ctx, snap, collector); err != nil {
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

// contents has the contents of a container drained, unless an import session delays it. Then it adds
// the row for the end of the session.
func (r *round) contents(ctx context.Context, snap *state.Snapshot, w *work, f queue.Flags) error {
	if w.due.Begins > w.at {
		r.p.addAt(w.uid, changed, w.due.Begins)
		return nil
	}
	return r.drained(ctx, snap, w.node, f)
}

// collector publishes the work of processors and built-in finalizers that is due.
func (r *round) collector(ctx context.Context, snap *state.Snapshot, w work) error {
	r.p.delay(&w)
	w.Evaluate = w.Evaluate && r.dueNow(snap, &w)
	if w.Evaluate || w.Orphan {
		r.p.touch(w.uid, w.at)
		if err := r.allDependents(ctx, snap, &w); err != nil {
			return err
		}
	}
	if w.Protected && !w.Evaluate && r.p.c.Protected != nil {
		r.protected(snap, &w)
	}
	if w.Examine > 0 {
		r.p.examiner.add(w.uid)
	}
	if w.Finish != "" {
		r.p.touch(w.uid, w.at)
		return r.finished(ctx, w.Finish, w.uid)
	}
	return nil
}

// maxProtected is the maximum number of dependents that are read to report protected ones.
const maxProtected = 256

// protected reports the dependents that stay only because they are protected, and the owner
// that waits for them. Nothing is published for them: work is pending again when they are
// unprotected.
func (r *round) protected(snap *state.Snapshot, w *work) {
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

// allDependents publishes an owner's dependents: here if they are few, in a walk if they
// are more than a chunk.
func (r *round) allDependents(ctx context.Context, snap *state.Snapshot, w *work) error {
	long := walk{ofDependents, w.uid}
	if r.p.walks.Pending(long) {
		r.p.addWalk(long) // again: dependents may have been added behind its cursor
		return nil
	}
	few, many := r.few(snap, w.uid, w.filter(snap))
	partly := w.partly()
	if many {
		if !partly {
			r.p.walks.Forget(long, 0) // it need not rest
		}
		r.p.addWalk(long)
		return nil
	}
	if partly {
		few = r.p.ripe(snap, w.uid, few, w.at)
	}
	if !w.Orphan {
		few = r.p.unbraked(snap, few)
	}
	into := r.dependents(w.Orphan)
	add := into.add
	if !w.Orphan {
		add = into.addOnce
	}
	for _, d := range few {
		add(w.uid, w.revision, d)
		if into.bytes >= maxChunk {
			if err := r.send(ctx, into); err != nil {
				return err
			}
		}
	}
	return r.sendFull(ctx, into)
}

// few returns an owner's dependents, or reports that they are more than a chunk.
func (r *round) few(snap *state.Snapshot, u uid.UID, f state.ClaimFilter) (few []uid.UID, many bool) {
	snap.Dependents(u, f, state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		few = append(few, d)
		many = len(few) > r.p.c.ChunkSize
		return !many
	})
	return few, many
}
