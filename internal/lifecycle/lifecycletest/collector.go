package lifecycletest

import (
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Owners are the uids because of which something may be owed: those of the
// live objects, and those that they say they are owned by. They are sorted.
func (r *Realm) Owners() []uid.UID {
	set := map[uid.UID]bool{}
	for u, n := range r.nodes {
		set[u] = true
		for i := range n.Owners {
			set[n.Owners[i].UID] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// DependentsOf are the live objects that have a reference to the uid, true or
// not. They are sorted.
func (r *Realm) DependentsOf(owner uid.UID) []uid.UID {
	return slices.DeleteFunc(r.UIDs(), func(u uid.UID) bool {
		return !slices.ContainsFunc(r.nodes[u].Owners, func(o lifecycle.OwnerReference) bool { return o.UID == owner })
	})
}

// Work does what is owed because of one uid, as the collector and the built-in
// finalizers do it, and returns the events, which it applies.
func (r *Realm) Work(u uid.UID) []lifecycle.Event {
	var events []lifecycle.Event
	act := func(more []lifecycle.Event) {
		r.Apply(more)
		events = append(events, more...)
	}
	owed := lifecycle.OwedBy(r, u, r.nodes[u])
	if owed.Judge && owed.JudgeAt <= r.Clock {
		for _, d := range r.DependentsOf(u) {
			ctx, n := r.Context(), r.nodes[d]
			switch lifecycle.Judge(r, n, r.Clock).Verdict {
			case lifecycle.CollectObject, lifecycle.CollectForeground:
				act(lifecycle.Collect(ctx, n))
			case lifecycle.StripReferences:
				act(lifecycle.Strip(ctx, n))
			}
		}
	}
	if owed.Orphan {
		for _, d := range r.DependentsOf(u) {
			act(lifecycle.OrphanFrom(r.Context(), r.nodes[u], r.nodes[d]))
		}
	}
	if owed.Finish != "" {
		act(lifecycle.Finish(r.Context(), r.nodes[u], owed.Finish))
	}
	if container := r.nodes[u]; owed.Evict && container != nil {
		for _, d := range r.UIDs() {
			act(lifecycle.Evict(r.Context(), container, r.nodes[d]))
		}
		act(lifecycle.Finish(r.Context(), container, lifecycle.FinalizerContents))
	}
	return events
}

// Unblock breaks a circle of objects that wait for each other, if there is one.
func (r *Realm) Unblock() []lifecycle.Event {
	var search func(path []*lifecycle.Node) []lifecycle.Event
	search = func(path []*lifecycle.Node) []lifecycle.Event {
		last := path[len(path)-1]
		for _, o := range last.Owners {
			owner := r.nodes[o.UID]
			switch {
			case owner == nil || !lifecycle.Holds(last, owner):
			case owner == path[0]:
				events := lifecycle.Unblock(path)
				r.Apply(events)
				return events
			case !slices.Contains(path, owner):
				if events := search(append(path, owner)); events != nil {
					return events
				}
			}
		}
		return nil
	}
	for _, u := range r.UIDs() {
		if n := r.nodes[u]; n.Waiting() {
			if events := search([]*lifecycle.Node{n}); events != nil {
				return events
			}
		}
	}
	return nil
}

// Settle does what is owed until nothing is left that can be done now, and
// returns the events, which it applies.
func (r *Realm) Settle() []lifecycle.Event {
	var events []lifecycle.Event
	for {
		before := len(events)
		for _, u := range r.Owners() {
			events = append(events, r.Work(u)...)
		}
		if len(events) == before {
			events = append(events, r.Unblock()...)
		}
		if len(events) == before {
			return events
		}
	}
}
