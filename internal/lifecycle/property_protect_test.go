package lifecycle_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// No command of a client or the collector, in any order, marks or removes a
// protected object, and no terminating object is protected. While nothing else is pending for
// the dependents of an owner, none of them could be collected. When all are unprotected,
// nothing is left that only its protection kept.
func TestProtectedObjectsStay(t *testing.T) {
	t.Parallel()
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		r := lifecycletest.New()
		r.Latecomers, r.Restless, r.Containers, r.Using, r.Protecting = true, true, true, true, true
		r.OnChange = func(e *lifecycle.Event, before, after lifecycle.Object) {
			gone := after.Node == nil || after.Terminating()
			if before.Node != nil && before.Protected() && gone {
				t.Fatalf("%s was protected, and event %d deletes it", e.UID, e.Type)
			}
			if after.Node != nil && after.Protected() && after.Terminating() {
				t.Fatalf("%s is protected and terminating", e.UID)
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			r.RandomEvents(t)
			if rapid.IntRange(0, 3).Draw(t, "settle") == 0 {
				r.SettleActive()
			}
		}
		r.SettleActive()
		kept += onlyProtected(r)
		checkNoWork(t, r)
		for _, u := range r.UIDs() {
			n := r.Node(u)
			if n == nil || !n.Protected() {
				continue
			}
			out, err := lifecycle.Unprotect(r.Context(), lifecycle.KeyOf(r, n), nil)
			must.Succeed(t, err)
			r.Apply(out.Events)
		}
		r.SettleActive()
		for _, u := range r.UIDs() {
			if d := lifecycle.Evaluate(r, r.Node(u), r.Clock).Decision; d == lifecycle.CollectObject || d == lifecycle.CollectForeground || d == lifecycle.KeepProtected {
				t.Fatalf("%s is left after all objects were unprotected: %s", u, d)
			}
		}
	})
	if kept == 0 && !testing.Short() {
		t.Error("no object was kept by its protection alone")
	}
}

// onlyProtected counts the objects that only their protection keeps.
func onlyProtected(r *lifecycletest.Realm) (n int) {
	for _, u := range r.UIDs() {
		if lifecycle.Evaluate(r, r.Node(u), r.Clock).Decision == lifecycle.KeepProtected {
			n++
		}
	}
	return n
}

// checkNoWork checks that no evaluation is pending because of an owner all of whose dependents
// are terminating, or are protected and have no other owner.
func checkNoWork(t *rapid.T, r *lifecycletest.Realm) {
	for _, u := range r.Owners() {
		idle := true
		for _, d := range r.DependentsOf(u) {
			n := r.Node(d)
			one := true
			for i := range n.Owners {
				one = one && n.Owners[i].SameOwner(&n.Owners[0])
			}
			idle = idle && (n.Terminating() || n.Protected() && one)
		}
		if p := lifecycle.PendingOf(r, u, r.Node(u)); idle && p.Evaluate {
			t.Fatalf("work is pending for protected dependents of %s: %+v", u, p)
		}
	}
}
