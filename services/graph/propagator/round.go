package propagator

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/propagator/queue"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// round evaluates one batch of rows, and publishes what they need. Owners with few
// dependents share chunks; what takes long is added to the walks.
type round struct {
	*publisher
	expires lifecycle.Time // see sessionEnd
}

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
	return r.flush(ctx)
}

// all evaluates all rows.
func (r *round) all(ctx context.Context, evaluate func(context.Context, *state.Snapshot, uid.UID, state.OwedRow) error) error {
	after := uid.UID("")
	return r.p.pages(func(snap *state.Snapshot) (more bool, err error) {
		n := 0
		snap.EachOwed(after, func(u uid.UID, row state.OwedRow) bool {
			after = u
			n++
			err = evaluate(ctx, snap, u, row)
			return err == nil && n < snapshotRows
		})
		return n == snapshotRows, err
	})
}

func (r *round) everything(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.OwedRow) error {
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
		if items[i].Flags != solid {
			uids = append(uids, items[i].Key)
		}
	}
	type found struct {
		row   state.OwedRow
		flags queue.Flags
	}
	var rows []found
	var keys []uid.UID
	next := 0
	snap.EachOwedTo(uids, func(u uid.UID, row state.OwedRow) {
		for items[next].Key != u {
			next++
		}
		keys, rows = append(keys, u), append(rows, found{row, items[next].Flags})
	})
	snap.Prefetch(keys)
	snap.PrefetchCounts(keys)
	for i, u := range keys {
		if err := r.row(ctx, snap, u, rows[i].row, rows[i].flags); err != nil {
			return err
		}
	}
	snap.Forget()
	return nil
}

// sessionClosed publishes what a row needs if an import session may have delayed it.
func (r *round) sessionClosed(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.OwedRow) error {
	if !row.Judge && !row.Orphan && row.Finish == "" && row.Examine == 0 {
		return nil
	}
	n := snap.Node(u)
	if n != nil && (n.ImportSession == "" || !n.Orphaning() && !n.Waiting()) {
		return nil
	}
	pending, due := lifecycle.OwedWhen(snap, u, n)
	return r.collector(ctx, snap, u, n, row, pending, due)
}

// row publishes what a row needs. It does not rely on the row for what is due: kinds
// may have been registered since it was written.
func (r *round) row(ctx context.Context, snap *state.Snapshot, u uid.UID, row state.OwedRow, f queue.Flags) error {
	n := snap.Node(u)
	pending, due := lifecycle.OwedWhen(snap, u, n)
	if pending.Evict {
		if err := r.contents(ctx, snap, n, f); err != nil {
			return err
		}
	}
	if pending.Held {
		r.p.cycles.add(u, snap.Revision())
	}
	collector := pending
	if f&dependents == 0 {
		collector.Judge, collector.Orphan = false, false
	}
	if err := r.collector(ctx, snap, u, n, row, collector, due); err != nil {
		return err
	}
	if pending.Finalize || pending.Terminate || pending.Evict {
		r.p.touch(u)
	}
	if n != nil {
		r.p.releaseCalls(snap, n)
	}
	if pending.Finalize || pending.Terminate {
		return r.calls(ctx, snap, n, f)
	}
	return nil
}

// collector publishes the work of processors and built-in finalizers because of u
// that is due.
func (r *round) collector(ctx context.Context, snap *state.Snapshot, u uid.UID, n *lifecycle.Node, row state.OwedRow, pending lifecycle.Owed, due lifecycle.Due) error {
	pending = r.p.begun(u, pending, due)
	pending.Judge = pending.Judge && r.dueNow(snap, u, due)
	if pending.Judge || pending.Orphan {
		r.p.touch(u)
		if err := r.dependents(ctx, snap, u, n, row.Revision, pending, due); err != nil {
			return err
		}
	}
	if pending.Examine > 0 {
		r.p.examiner.add(u)
	}
	if pending.Finish != "" {
		r.p.touch(u)
		return r.finished(ctx, pending.Finish, u)
	}
	return nil
}

// dependents publishes an owner's dependents: here if they are few, in a walk if
// they are more than a chunk.
func (r *round) dependents(ctx context.Context, snap *state.Snapshot, u uid.UID, n *lifecycle.Node, revision uint64, pending lifecycle.Owed, due lifecycle.Due) error {
	w := walk{ofDependents, u}
	if r.p.walks.Pending(w) {
		r.p.addWalk(w) // again: dependents may have been added behind its cursor
		return nil
	}
	few, many := r.few(snap, u, filter(snap, n, pending.Orphan))
	partly := pending.Judge && due.Last > r.p.now()
	if many {
		if !partly {
			r.p.walks.Forget(w, 0) // it need not rest
		}
		r.p.addWalk(w)
		return nil
	}
	if partly {
		few = r.p.ripe(snap, u, few)
	}
	into := r.dependentsOf(pending.Orphan)
	for _, d := range few {
		into.add(u, revision, d)
		if into.bytes >= maxChunk {
			if err := r.sendFull(ctx); err != nil {
				return err
			}
		}
	}
	return r.sendFull(ctx)
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
