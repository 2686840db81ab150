package deletion

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/plan"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
)

// waiting deletes, and waits until the objects and all that is deleted because of
// them are gone. Which objects these are can be read before the deletion only. That
// is optional: without it the deletion is sent all the same, and the command waits
// for the objects that it deleted itself.
func (d *deletion) waiting(ctx context.Context, victims []victim) error {
	d.quiet = true
	below, removedByPlan := tree.NewFamily(), map[string]bool(nil)
	ok, err := d.Optional(ctx, lookup.AboutTotals, func(ctx context.Context) error {
		uids, err := d.find(ctx, victims)
		if err == nil {
			below, err = d.Below(ctx, uids)
		}
		return err
	})
	if ok && below.Truncated {
		// There are more than are resolved at once. A plan has all of them.
		removedByPlan = d.plannedRemovals(ctx, victims)
	}
	if !ok {
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			d.Missing(lookup.AboutTotals, err)
		}
		below = tree.NewFamily()
	}
	for _, v := range victims {
		if err := d.one(ctx, v); err != nil {
			return err
		}
	}
	if len(d.done) > 0 {
		goes := below.Doomed(d.done, string(d.options.Propagation))
		for _, uid := range d.done {
			goes[uid] = true
		}
		maps.Copy(goes, removedByPlan)
		truncated := (below.Truncated && removedByPlan == nil || !ok) && d.options.Propagation != client.Orphan
		if err := awaitRemoval(ctx, d.Session, slices.Sorted(maps.Keys(goes)), truncated, d.f.timeout); err != nil {
			return err
		}
	}
	return d.end()
}

// plannedRemovals returns the uids of the objects that a plan says will be removed, nil
// if there can be no plan of the victims. It is optional, and may take longer than
// other optional information, because a large plan does.
func (d *deletion) plannedRemovals(ctx context.Context, victims []victim) map[string]bool {
	r, err := requestOf(victims, d.f)
	if err != nil {
		return nil
	}
	p, err := makePlan(ctx, d.Session, r)
	if err != nil {
		return nil
	}
	return plan.Removed(p)
}

// find returns the uids of the objects that are to be deleted, and notes the uid of
// each victim that is named: another object that gets its name meanwhile is not
// deleted. If an object does not exist, the deletion reports it.
func (d *deletion) find(ctx context.Context, victims []victim) (uids []string, err error) {
	for i, v := range victims {
		objects := d.Objects(v.kind, v.namespace)
		if !v.collection {
			o, err := objects.Get(ctx, v.name, client.IncludeUninitialized(true))
			switch {
			case errors.Is(err, client.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			}
			victims[i].uid = o.GetMetadata().GetUid()
			uids = append(uids, victims[i].uid)
			continue
		}
		for o, err := range objects.List(ctx, client.LabelSelector(d.f.selector), client.IncludeUninitialized(true)) {
			if err != nil {
				return nil, err
			}
			uids = append(uids, o.GetMetadata().GetUid())
		}
	}
	return uids, nil
}
