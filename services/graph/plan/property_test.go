package plan_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// TestForest compares plans with what then happens, in any order of work, in realms where
// no object has two owners and owners wait for all their dependents. There the result does
// not depend on the order (lifecycle's TestConfluent): the plan has the outcome of every
// object, and the finalizers and agents that had to answer.
func TestForest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, func(n *lifecycle.Node) {
			if len(n.Owners) > 0 {
				n.Owners = n.Owners[:1]
				n.Owners[0].Blocking = lifecycle.True
			}
		})
		w.check(t, rapid.SampledFrom([]string{"", lifecycle.Orphan, lifecycle.Background, lifecycle.Foreground}).Draw(t, "policy"), true)
	})
}

// TestWeb is the same with any owners, without orphaning: also there the
// order shows neither in what goes nor in what stays, but in what had to be done; and
// in which references an object keeps of which an owner is unknown, as the plan says.
func TestWeb(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, func(n *lifecycle.Node) {
			n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == lifecycle.FinalizerOrphan })
		})
		w.check(t, rapid.SampledFrom([]string{lifecycle.Background, lifecycle.Foreground}).Draw(t, "policy"), false)
	})
}

// world is a realm in memory, and the state of the same commits.
type world struct {
	realm    *lifecycletest.Realm
	state    *state.State
	sequence uint64
}

// newWorld draws a realm with a past, changes each of its objects, and does all pending
// work, that of external finalizers and agents too.
func newWorld(t *rapid.T, change func(*lifecycle.Node)) *world {
	s, err := state.Open("state", state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	w := &world{realm: lifecycletest.New(), state: s}
	var first []lifecycle.Event
	for _, u := range w.realm.UIDs() {
		n := w.realm.Node(u)
		first = append(first, lifecycle.Event{Type: lifecycle.ObjectCreated, UID: u, Object: lifecycle.Object{Node: n, Body: w.realm.Body(n)}})
	}
	slices.SortFunc(first, func(a, b lifecycle.Event) int { return int(a.Object.Revision) - int(b.Object.Revision) })
	w.fold(t, first, 1)
	for range rapid.IntRange(5, 60).Draw(t, "commands") {
		revision := w.realm.Revision + 1
		w.fold(t, w.realm.RandomEvents(t), revision)
	}
	w.realm.Clock = w.realm.Clock.Add(10 * w.realm.Settings().OwnerGrace)
	for _, u := range w.objects() {
		n := *w.realm.Node(u)
		n.Owners, n.Finalizers = slices.Clone(n.Owners), slices.Clone(n.Finalizers)
		if n.Kind == "Pod" && !n.Terminating() && rapid.IntRange(0, 3).Draw(t, "agent") == 0 {
			grace := int64(30)
			n.Grace = &grace
		}
		change(&n)
		w.apply(t, []lifecycle.Event{{Type: lifecycle.ObjectUpdated, UID: u, Object: lifecycle.Object{Node: &n}}})
	}
	for _, e := range quiesce(w.realm.Clone(), func(uids []uid.UID) []uid.UID { return uids }, map[string]bool{}) {
		w.apply(t, []lifecycle.Event{e})
	}
	return w
}

// objects are the uids of all but the registrations of kinds.
func (w *world) objects() []uid.UID {
	return slices.DeleteFunc(w.realm.UIDs(), func(u uid.UID) bool { return lifecycle.IsRegistration(w.realm.Node(u)) })
}

func (w *world) apply(t *rapid.T, events []lifecycle.Event) {
	revision := w.realm.Revision + 1
	w.realm.Apply(events)
	w.fold(t, events, revision)
}

func (w *world) fold(t *rapid.T, events []lifecycle.Event, revision uint64) {
	tx := w.state.Begin()
	for i := range events {
		body, err := state.Encode(events[i].Object.Body)
		must.Succeed(t, err)
		if _, err := tx.Add(&events[i], revision+uint64(i), body); err != nil {
			t.Fatal(err)
		}
	}
	w.sequence++
	tx.EndCommit(state.Commit{Sequence: w.sequence, Epoch: 1, Time: w.realm.Clock, Checksum: w.sequence})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
}

// check plans the deletion of an object, and then deletes it in the realm.
func (w *world) check(t *rapid.T, policy string, exactly bool) {
	all := w.objects()
	if len(all) == 0 {
		return
	}
	root := w.realm.Node(rapid.SampledFrom(all).Draw(t, "root"))
	at := lifecycle.KeyOf(w.realm, root)
	options := &coppicev1.DeleteOptions{PropagationPolicy: policy}
	snap := w.state.Snapshot()
	defer snap.Close()
	p, refusal := plan.Compute(context.Background(), snap, plan.Deletion{
		Resource: at.Kind.Resource(), Namespace: at.Namespace,
		DeleteRequest: &coppicev1.DeleteRequest{Names: []string{at.Name}, Options: options},
	}, w.realm.Clock, 1000)
	must.Succeed(t, refusal)

	after := w.realm.Clone()
	out, refusal := lifecycle.Delete(after.Context(), at, "", options)
	must.Succeed(t, refusal)
	after.Apply(out.Events)
	order := func(uids []uid.UID) []uid.UID { return rapid.Permutation(uids).Draw(t, "order") }
	if exactly {
		atOnce := after.Clone()
		settle(atOnce, order)
		for _, o := range p.Objects {
			if gone := atOnce.Node(o.Node.UID) == nil; gone != (o.Outcome == plan.Removed) {
				t.Fatalf("gone at once: %t, and the plan says:\n%s", gone, describe(p))
			}
		}
	}
	answered := map[string]bool{}
	quiesce(after, order, answered)
	if !exactly && slices.ContainsFunc(p.Objects, func(o *plan.Object) bool { return o.DependsOnOrder }) {
		return // see TestFamilies
	}
	w.compare(t, p, after)
	if !exactly {
		return
	}
	said := map[string]bool{}
	for _, o := range p.Objects {
		for _, h := range o.Blockers {
			if h.Type == coppicev1.PlanBlocker_TYPE_FINALIZER || h.Type == coppicev1.PlanBlocker_TYPE_AGENT {
				said[o.Node.UID.String()+" "+blocker(h)] = true
			}
		}
	}
	if !maps.Equal(said, answered) {
		t.Fatalf("answered were %v, and the plan says:\n%s", slices.Sorted(maps.Keys(answered)), describe(p))
	}
}

// compare compares the outcome of every object with the plan.
func (w *world) compare(t *rapid.T, p *plan.Plan, after *lifecycletest.Realm) {
	planned := map[uid.UID]*plan.Object{}
	for _, o := range p.Objects {
		planned[o.Node.UID] = o
	}
	for _, u := range w.objects() {
		before, n, o := w.realm.Node(u), after.Node(u), planned[u]
		want := plan.Outcome(0)
		lost := 0
		switch {
		case n == nil:
			want = plan.Removed
		case n.Terminating() && o != nil:
			want = plan.Blocked
		case n.Terminating() != before.Terminating():
			want = plan.Blocked // and not in the plan
		default:
			if lost = len(before.Owners) - len(n.Owners); lost > 0 {
				want = plan.Stripped
			}
		}
		got := plan.Outcome(0)
		if o != nil {
			switch got = o.Outcome; got {
			case plan.RemovedLater:
				got = plan.Removed
			case plan.Orphaned:
				got = plan.Stripped
			case plan.Kept:
				got = 0
			}
		}
		if got != want {
			t.Fatalf("%s is %s, want %s; the plan says:\n%s", u, outcome(got), outcome(want), describe(p))
		}
		if want != plan.Stripped {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(before.Owners), func(r lifecycle.OwnerReference) bool {
			return slices.ContainsFunc(o.Lost, func(gone lifecycle.OwnerReference) bool { return r.SameOwner(&gone) })
		})
		if fmt.Sprint(left) != fmt.Sprint(n.Owners) && len(left)+len(n.Owners) > 0 {
			t.Fatalf("%s is left with %v; the plan says:\n%s", u, n.Owners, describe(p))
		}
	}
}

// settle does pending work, in an order that is drawn again each time.
func settle(r *lifecycletest.Realm, order func([]uid.UID) []uid.UID) (events []lifecycle.Event) {
	for done := false; !done; {
		done = true
		for _, u := range order(r.Owners()) {
			more := r.Work(u)
			events, done = append(events, more...), done && len(more) == 0
		}
		if done {
			more := r.Unblock()
			events, done = append(events, more...), len(more) == 0
		}
	}
	return events
}

// quiesce does pending work and lets external blockers do their part, until nothing changes
// any more. It adds the blockers that did something to answered.
func quiesce(r *lifecycletest.Realm, order func([]uid.UID) []uid.UID, answered map[string]bool) (events []lifecycle.Event) {
	for done := false; !done; {
		done = true
		for _, u := range order(r.Owners()) {
			more := append(r.Work(u), answer(r, u, answered)...)
			events, done = append(events, more...), done && len(more) == 0
		}
		if done {
			more := r.Unblock()
			events, done = append(events, more...), len(more) == 0
		}
	}
	return events
}

// answer lets the external blockers of an object that is being deleted do their part.
func answer(r *lifecycletest.Realm, u uid.UID, answered map[string]bool) (events []lifecycle.Event) {
	act := func(blocker string, out *lifecycle.Outcome, err *lifecycle.Error) {
		if err != nil {
			panic(err)
		}
		answered[u.String()+" "+blocker] = true
		r.Apply(out.Events)
		events = append(events, out.Events...)
	}
	if n := r.Node(u); n != nil && n.Ending() {
		none := int64(0)
		out, err := lifecycle.Delete(r.Context(), lifecycle.KeyOf(r, n), "", &coppicev1.DeleteOptions{GracePeriodSeconds: &none})
		act("agent", out, err)
	}
	for _, f := range []string{"example.com/one", "example.com/two"} {
		if n := r.Node(u); n != nil && n.Terminating() && n.HasFinalizer(f) {
			out, err := lifecycle.RemoveFinalizer(r.Context(), lifecycle.KeyOf(r, n), f, nil)
			act("finalizer "+f, out, err)
		}
	}
	return events
}
