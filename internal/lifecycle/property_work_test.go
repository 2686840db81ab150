package lifecycle_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
)

// TestProposals: the collector's commands act exactly where the rules say so,
// whatever was proposed (invariants 3, 5 and 6).
//
// S1, S2: exactly those are collected of whose owners each is known to be absent, or waits.
// S7: foregroundDeletion goes exactly when no dependent with a valid, blocking reference is left,
// and none with a valid one that the collector has still to collect or to strip.
// S8: references that are not valid count neither for it nor for the orphan finalizer.
// S9: what is parted from an owner is not garbage thereby.
// S12: what was done is not done twice.
func TestProposals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := history(t)
		before := freeze(r)
		defer before.check(t, "a proposal")
		for _, u := range r.UIDs() {
			n := r.Node(u)
			o := oracle{r}
			checkEvaluated(t, r, n)
			if acted := len(lifecycle.Collect(r.Context(), n)) > 0; acted != o.collectable(n, r.Clock) {
				t.Fatalf("S1: %+v is collected: %t", n, acted)
			}
			checkStrip(t, r, n)
			for _, owner := range owners(n) {
				if owner := r.Node(owner); owner != nil {
					checkOrphan(t, r, owner, n)
				}
			}
			checkFinish(t, r, n)
			checkDrain(t, r, n)
		}
	})
}

// checkEvaluated: there is one decision table (A12): processors propose by Decide,
// the writer evaluates.
func checkEvaluated(t *rapid.T, r *lifecycletest.Realm, n *lifecycle.Node) {
	j := lifecycle.Evaluate(r, n, r.Clock)
	var classes []lifecycle.Class
	until := lifecycle.Time(0)
	for i := range n.Owners {
		c := lifecycle.Classify(r, n, &n.Owners[i], r.Clock)
		classes = append(classes, c.Class)
		if c.Until != 0 && (until == 0 || c.Until < until) {
			until = c.Until
		}
	}
	if want := lifecycle.Decide(lifecycle.TraitsOf(r, n), classes); j.Decision != want {
		t.Fatalf("%+v is evaluated %s, decided %s", n, j.Decision, want)
	}
	if j.Until != until {
		t.Fatalf("%+v is evaluated until %d, want %d", n, j.Until, until)
	}
	if lifecycle.TraitsOf(r, n)&lifecycle.GoesAtOnce != 0 {
		if events := lifecycle.Collect(r.Context(), n); j.Decision == lifecycle.CollectObject && events[0].Type != lifecycle.ObjectDeleted {
			t.Fatalf("%+v was to go at once: %+v", n, events)
		}
	}
}

// applied returns a realm in which the events have happened.
func applied(r *lifecycletest.Realm, events []lifecycle.Event) *lifecycletest.Realm {
	next := r.Clone()
	next.Apply(events)
	return next
}

// checkStrip: exactly the dangling and waiting references of an object with a solid owner
// are removed (A12.7).
func checkStrip(t *rapid.T, r *lifecycletest.Realm, n *lifecycle.Node) {
	o := oracle{r}
	solid := slices.ContainsFunc(n.Owners, func(ref lifecycle.OwnerReference) bool { return o.solid(n, ref) })
	loose := func(ref lifecycle.OwnerReference) bool { return !o.solid(n, ref) && !o.unknown(n, ref, r.Clock) }
	events := lifecycle.Strip(r.Context(), n)
	if want := !n.Terminating() && solid && slices.ContainsFunc(n.Owners, loose); (len(events) > 0) != want {
		t.Fatalf("A12.7: %+v is stripped: %t", n, !want)
	}
	if len(events) == 0 {
		return
	}
	after := applied(r, events)
	is := after.Node(n.UID)
	for _, ref := range n.Owners {
		if slices.Contains(is.Owners, ref) == loose(ref) {
			t.Fatalf("A12.7: %+v is stripped to %+v", n, is)
		}
	}
	if again := lifecycle.Strip(after.Context(), is); len(again) > 0 {
		t.Fatalf("S12: %+v is stripped twice: %+v", is, again)
	}
}

// checkOrphan: an object with a valid reference to an owner that orphans, or with one that names
// a registered group from which the owner has moved, loses that reference. Other owners that kept the object still keep it; if none is left, the object
// is not deleted because of that owner (S8, S9, A15).
func checkOrphan(t *rapid.T, r *lifecycletest.Realm, owner, n *lifecycle.Node) {
	o := oracle{r}
	mine := func(ref lifecycle.OwnerReference) bool { return o.owner(n, ref) == owner || o.movedFrom(n, ref, owner) }
	events := lifecycle.OrphanFrom(r.Context(), owner, n)
	orphans := owner.Terminating() && owner.HasFinalizer("orphan") && !o.importing(owner, r.Clock) // R2
	if want := orphans && slices.ContainsFunc(n.Owners, mine); (len(events) > 0) != want {
		t.Fatalf("A15: %+v is parted from %+v: %t", n, owner, !want)
	}
	if len(events) == 0 {
		return
	}
	after := applied(r, events)
	is := after.Node(n.UID)
	for _, ref := range n.Owners {
		stays := slices.Contains(is.Owners, ref)
		switch {
		case mine(ref) && stays, !mine(ref) && o.solid(n, ref) && !stays:
			t.Fatalf("A15: %+v is parted from %+v: %+v", n, owner, is)
		}
	}
	if oracle := (oracle{after}); oracle.collectable(is, after.Clock) {
		t.Fatalf("S9: %+v is collectable when it is orphaned: %+v", n, is)
	}
	if again := lifecycle.OrphanFrom(after.Context(), owner, is); len(again) > 0 {
		t.Fatalf("S12: %+v is parted twice: %+v", is, again)
	}
}

// podsFirst reports whether n, in the container c, has to wait for a Pod of the namespace
// (A5.8).
func podsFirst(r *lifecycletest.Realm, c, n *lifecycle.Node) bool {
	late := r.Clock >= c.DeletionTime.Add(r.Settings().PodDrainTimeout)
	if c.Kind != "Namespace" || n.Kind == "Pod" || late {
		return false
	}
	for _, use := range n.Uses {
		if used := r.Node(use.UID); used != nil && used.InUse() && lifecycle.Uses(n, used) {
			return false
		}
	}
	return slices.ContainsFunc(r.UIDs(), func(u uid.UID) bool { return r.Node(u).Kind == "Pod" && r.Node(u).Namespace == c.Name })
}

// checkDrain: what is in a namespace or of a kind that is being deleted is
// deleted, and nothing else (A5.7), Pods first (A5.8).
func checkDrain(t *rapid.T, r *lifecycletest.Realm, n *lifecycle.Node) {
	o := oracle{r}
	for _, u := range r.UIDs() {
		c := r.Node(u)
		events := lifecycle.Drain(r.Context(), c, n)
		if want := draining(c) && !o.importing(c, r.Clock) && o.contains(c, n) && !n.Terminating() && !podsFirst(r, c, n); (len(events) > 0) != want {
			t.Fatalf("A5.7: %+v is deleted with %+v: %t", n, c, !want)
		}
		if len(events) == 0 {
			continue
		}
		after := applied(r, events)
		is := after.Node(n.UID)
		if is == nil && slices.ContainsFunc(n.Finalizers, func(f string) bool { return !lifecycle.IsBuiltinFinalizer(f) }) {
			t.Fatalf("S3: %+v is removed with %+v", n, c)
		}
		if is != nil && len(lifecycle.Drain(after.Context(), c, is)) > 0 {
			t.Fatalf("S12: %+v is deleted twice", is)
		}
	}
}

// checkFinish: a built-in finalizer is done when no dependent that counts is
// left (invariant 5); false references do not count (S8, invariant 6).
func checkFinish(t *rapid.T, r *lifecycletest.Realm, n *lifecycle.Node) {
	o := oracle{r}
	all, blocking := o.dependents(n)
	for f, left := range map[string]int{"orphan": all + o.movedDependents(n), "foregroundDeletion": o.delaying(n), "coppice.dev/contents": o.contents(n), custom: 0} {
		events := r.Finish(n, f)
		want := n.Terminating() && n.HasFinalizer(f) && lifecycle.IsBuiltinFinalizer(f) && left == 0 && !o.importing(n, r.Clock) // R2
		if (len(events) > 0) != want {
			t.Fatalf("invariant 5: %s of %+v with %d dependents, %d blocking and %d that count, is done: %t", f, n, all, blocking, left, !want)
		}
		if !want {
			continue
		}
		after := applied(r, events)
		if is := after.Node(n.UID); is != nil && (is.HasFinalizer(f) || len(after.Finish(is, f)) > 0) {
			t.Fatalf("S12: %s of %+v is done twice", f, n)
		}
	}
}

// TestPending: whatever is pending can be done, and whatever can be done is pending.
func TestPending(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := history(t)
		if rapid.Bool().Draw(t, "later") {
			later(r)
		}
		before := freeze(r)
		defer before.check(t, "a question")
		for _, u := range r.Owners() {
			checkPending(t, r, u)
		}
		for _, u := range r.UIDs() {
			checkAsked(t, r, r.Node(u))
		}
	})
}

// checkPending: acting on pending work because of u has an effect, unless nothing
// is known.
func checkPending(t *rapid.T, r *lifecycletest.Realm, u uid.UID) {
	o := oracle{r}
	n := r.Node(u)
	pending := lifecycle.PendingOf(r, u, n)
	if pending.EvaluateAt != 0 && !pending.Evaluate {
		t.Fatalf("%s has pending %+v", u, pending)
	}
	acts, knows := false, true
	for _, d := range r.DependentsOf(u) {
		d := r.Node(d)
		acts = acts || len(lifecycle.Collect(r.Context(), d))+len(lifecycle.Strip(r.Context(), d)) > 0
		for _, ref := range d.Owners {
			knows = knows && (d.Terminating() || !o.unknown(d, ref, r.Clock))
		}
	}
	if pending.Evaluate && pending.EvaluateAt <= r.Clock && !acts && knows {
		t.Fatalf("%s has pending %+v, and nothing can be done", u, pending)
	}
	importing := n != nil && o.importing(n, r.Clock)
	if pending.Orphan && !importing && !slices.ContainsFunc(r.DependentsOf(u), func(d uid.UID) bool {
		return len(lifecycle.OrphanFrom(r.Context(), n, r.Node(d))) > 0
	}) {
		t.Fatalf("%s has pending %+v, but no dependent can be orphaned", u, pending)
	}
	if pending.Drain != (n != nil && draining(n)) {
		t.Fatalf("%s has pending %+v, and is %+v", u, pending, n)
	}
	if pending.Finish != "" && !importing && len(lifecycle.Finish(r.Context(), n, pending.Finish, nil)) == 0 {
		t.Fatalf("%s has pending %+v, and it is not done", u, pending)
	}
	if pending.Examine > 0 && pending.Finish == lifecycle.FinalizerForeground {
		t.Fatalf("%s has pending %+v: the counters answer, or they do not", u, pending)
	}
	external := n != nil && n.Terminating() && slices.ContainsFunc(n.Finalizers, func(f string) bool { return !lifecycle.IsBuiltinFinalizer(f) })
	if pending.Finalize != external {
		t.Fatalf("%s has pending %+v, and is %+v", u, pending, n)
	}
}

// checkAsked: what can be done about n is pending by one of its owners, or by n.
func checkAsked(t *rapid.T, r *lifecycletest.Realm, n *lifecycle.Node) {
	at := lifecycle.Never
	for _, u := range owners(n) {
		pending := lifecycle.PendingOf(r, u, r.Node(u))
		if pending.Evaluate {
			at = min(at, pending.EvaluateAt)
		}
		if owner := r.Node(u); owner != nil && len(lifecycle.OrphanFrom(r.Context(), owner, n)) > 0 && !pending.Orphan {
			t.Fatalf("A15: %+v can be parted from %s, which has pending %+v", n, u, pending)
		}
	}
	if len(lifecycle.Collect(r.Context(), n))+len(lifecycle.Strip(r.Context(), n)) > 0 && at > r.Clock {
		t.Fatalf("%+v is to be collected or stripped, and is without pending work before %s", n, since(at))
	}
	for _, f := range []string{"orphan", "foregroundDeletion"} {
		pending := lifecycle.PendingOf(r, n.UID, n)
		if len(r.Finish(n, f)) > 0 && pending.Finish != f && (pending.Examine == 0 || f != lifecycle.FinalizerForeground) {
			t.Fatalf("%s of %+v is done, and is not pending: %+v", f, n, pending)
		}
	}
}
