package memrealm

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Owners returns the uids because of which work may be pending: those of the live
// objects, and those of the owners that they name. They are sorted.
func (r *Realm) Owners() []uid.UID {
	set := map[uid.UID]bool{}
	for u := range r.nodes {
		set[u] = true
	}
	for u := range r.dependents {
		set[u] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// DependentsOf returns the live objects that have a reference to the uid, valid or
// not. They are sorted.
func (r *Realm) DependentsOf(owner uid.UID) []uid.UID {
	return slices.Sorted(maps.Keys(r.dependents[owner]))
}

// Job is one step of a processor, of a finalizer, or of the search for cycles.
type Job struct {
	Name string
	// Do does the step if it is still pending, and returns the events, which it
	// applies.
	Do func() []lifecycle.Event
}

// Jobs returns the steps that are pending because of one uid, those of processors and
// those of finalizers. The services do them in any order. Not each has an effect.
func (r *Realm) Jobs(u uid.UID) []Job {
	var jobs []Job
	job := func(what string, of uid.UID, decide func(n *lifecycle.Node) []lifecycle.Event) {
		jobs = append(jobs, Job{what + " " + of.String(), func() []lifecycle.Event {
			var events []lifecycle.Event
			if n := r.nodes[of]; n != nil {
				events = decide(n)
			}
			r.Apply(events)
			return events
		}})
	}
	pending := lifecycle.PendingOf(r, u, r.nodes[u])
	if pending.Evaluate && pending.EvaluateAt <= r.Clock {
		for _, d := range r.DependentsOf(u) {
			job("evaluate", d, r.evaluate)
		}
	}
	if pending.Orphan {
		for _, d := range r.DependentsOf(u) {
			job("orphan", d, func(n *lifecycle.Node) []lifecycle.Event {
				if owner := r.nodes[u]; owner != nil {
					return lifecycle.OrphanFrom(r.Context(), owner, n)
				}
				return nil
			})
		}
	}
	if pending.Drain {
		for _, d := range r.UIDs() {
			job("drain", d, func(n *lifecycle.Node) []lifecycle.Event {
				if container := r.nodes[u]; container != nil {
					return lifecycle.Drain(r.Context(), container, n)
				}
				return nil
			})
		}
	}
	// A finalizer may look too early: it is asked whenever its object is terminating.
	if n := r.nodes[u]; n != nil && n.Terminating() {
		for _, f := range n.Finalizers {
			if lifecycle.IsBuiltinFinalizer(f) {
				job("finish "+f+" of", u, func(n *lifecycle.Node) []lifecycle.Event { return r.Finish(n, f) })
			}
		}
	}
	return jobs
}

// evaluate does what the collector does with a dependent.
func (r *Realm) evaluate(n *lifecycle.Node) []lifecycle.Event {
	switch lifecycle.Evaluate(r, n, r.Clock).Decision {
	case lifecycle.CollectObject, lifecycle.CollectForeground:
		return lifecycle.Collect(r.Context(), n)
	case lifecycle.StripReferences:
		return lifecycle.Strip(r.Context(), n)
	}
	return nil
}

// Finish decides whether a finalizer is done with n, for which it examines all
// dependents. It changes nothing.
func (r *Realm) Finish(n *lifecycle.Node, finalizer string) []lifecycle.Event {
	var kept []uid.UID
	for _, d := range r.DependentsOf(n.UID) {
		if lifecycle.DelayOf(r, r.nodes[d], n, r.Clock) == lifecycle.KeptByUnknown {
			kept = append(kept, d)
		}
	}
	return lifecycle.Finish(r.Context(), n, finalizer, kept)
}

// Work does pending work because of one uid, step by step in the order of Jobs,
// and returns the events, which it applies.
func (r *Realm) Work(u uid.UID) []lifecycle.Event {
	var events []lifecycle.Event
	for _, job := range r.Jobs(u) {
		events = append(events, job.Do()...)
	}
	return events
}

// Unblock breaks a cycle of objects that wait for each other, if there is one.
func (r *Realm) Unblock() []lifecycle.Event { return r.unblock(r.UIDs()) }

// unblock is Unblock for cycles with one of these objects.
func (r *Realm) unblock(uids []uid.UID) []lifecycle.Event {
	var search func(path []*lifecycle.Node) []lifecycle.Event
	search = func(path []*lifecycle.Node) []lifecycle.Event {
		last := path[len(path)-1]
		for _, next := range r.waitingFor(last) {
			switch {
			case next == path[0]:
				events := lifecycle.Unblock(r, path)
				r.Apply(events)
				return events
			case !slices.Contains(path, next):
				if events := search(append(path, next)); events != nil {
					return events
				}
			}
		}
		return nil
	}
	for _, u := range uids {
		if n := r.nodes[u]; n != nil && lifecycle.Waits(r, n) {
			if events := search([]*lifecycle.Node{n}); events != nil {
				return events
			}
		}
	}
	return nil
}

// waitingFor returns the objects whose removal waits for n.
func (r *Realm) waitingFor(n *lifecycle.Node) (list []*lifecycle.Node) {
	add := func(of *lifecycle.Node) {
		if of != nil && !slices.Contains(list, of) && lifecycle.WaitOf(r, of, n) != lifecycle.NoWait {
			list = append(list, of)
		}
	}
	for i := range n.Owners {
		add(r.nodes[n.Owners[i].UID])
	}
	for i := range n.Uses {
		add(r.nodes[n.Uses[i].UID])
	}
	for _, c := range lifecycle.ContainersOf(r, n) {
		add(c)
	}
	return list
}

// Order draws the order in which jobs are done. It returns the places of n jobs
// in that order, each once.
type Order func(n int) []int

// InOrder does jobs in the order in which they are pending: by the uid of the owner,
// and of each owner's, processors' before finalizers'.
func InOrder(n int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	return places
}

// Shuffled draws every order, from a seed.
func Shuffled(seed uint64) Order { return rand.New(rand.NewPCG(seed, 1)).Perm }

// Round does pending work, each step once, in an order, and returns the events,
// which it applies. What the steps make pending is left to the next round. If the
// steps had no effect, a cycle of objects that wait for each other is broken.
//
// others are steps of other services, which are taken in the same order.
func (r *Realm) Round(order Order, others ...Job) []lifecycle.Event {
	jobs := others
	for _, u := range r.Owners() {
		jobs = append(jobs, r.Jobs(u)...)
	}
	var events []lifecycle.Event
	for _, i := range order(len(jobs)) {
		events = append(events, jobs[i].Do()...)
	}
	if len(events) == 0 {
		return r.Unblock()
	}
	return events
}

// Settle does pending work until nothing is left that can be done now, and
// returns the events, which it applies. Processors and finalizers go in the
// order that is given, independently of each other.
func (r *Realm) Settle(order Order) []lifecycle.Event {
	var events []lifecycle.Event
	for {
		more := r.Round(order)
		if len(more) == 0 {
			return events
		}
		events = append(events, more...)
	}
}

// SettleActive is Settle, in a fixed order, without looking at objects because of which no
// work can be pending. Work because of a uid stays pending until it is done, and is
// pending only after its object, or a dependent of it, has changed. So it is enough to look at
// the uids that have changed, and at those with work that was left: it waits for time, for
// an owner that is unknown, or for an external finalizer. It also collects unreachable cycles,
// if the realm settings say so, except for a plan.
func (r *Realm) SettleActive() {
	touched := map[uid.UID]bool{}
	r.Cover()
	for {
		before := r.Revision
		for _, u := range slices.Sorted(maps.Keys(r.active)) {
			n := r.nodes[u]
			touched[u] = true
			if lifecycle.PendingOf(r, u, n) == (lifecycle.Pending{}) && (n == nil || !n.Terminating()) {
				delete(r.active, u)
				continue
			}
			r.Work(u)
		}
		if r.Revision == before && r.unblock(slices.Sorted(maps.Keys(r.active))) == nil && !r.collectCycles(touched) {
			return
		}
	}
}
