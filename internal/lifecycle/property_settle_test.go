package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
)

// TestSettles: from any state, whatever is pending can be done in any order until
// no work is pending any more; and nothing has gone that was no garbage (invariant 7).
//
// L1: no garbage is left. L2: no object that a solid owner keeps has dangling or waiting
// references. L3: no built-in finalizer is left that waits for nothing.
func TestSettles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := history(t)
		later(r)
		may, must := garbage(r)
		bound := steps(r)
		var events []lifecycle.Event
		for waited := false; ; {
			did := r.Round(drawn(t))
			if len(did) == 0 && waited {
				break
			}
			if waited = len(did) == 0; waited { // for Pods, which a namespace that was marked meanwhile drains first (A5.8)
				r.Clock = r.Clock.Add(max(r.Settings().PodDrainTimeout, lifecycle.DefaultSettings().PodDrainTimeout))
			}
			events = append(events, did...)
			if len(events) > bound {
				t.Fatalf("%d events, and it goes on; %d would have done", len(events), bound)
			}
		}
		for _, e := range events {
			if (e.Type == lifecycle.ObjectDeleted || e.Type == lifecycle.DeletionMarked) && !may[e.UID] {
				t.Fatalf("%s was no garbage: %+v", e.UID, e)
			}
		}
		for u := range must {
			if n := r.Node(u); n != nil && !n.Terminating() {
				t.Fatalf("garbage is left: %+v", n)
			}
		}
		checkSettled(t, r)
	})
}

// drawn draws in which order pending work is done, processors' work and
// finalizers' alike.
func drawn(t *rapid.T) lifecycletest.Order {
	return func(n int) []int {
		return rapid.Permutation(lifecycletest.InOrder(n)).Draw(t, "order")
	}
}

// steps bounds how many events it can take to settle: each object is marked
// once and removed once, loses each reference and each finalizer once, and may
// get two finalizers with its mark.
func steps(r *lifecycletest.Realm) int {
	bound := 0
	for _, u := range r.UIDs() {
		n := r.Node(u)
		bound += 4 + len(n.Owners) + len(n.Finalizers)
	}
	return bound
}

// garbage says from the state alone what may be deleted, and what must be.
//
// An object may go if it is terminating, or if it has references and each is
// known not to name an owner, or names one that may go. It must go if each is
// known not to name an owner, or names one that waits, or one that must go and
// has no finalizers and no contents to stay for. Alongside that it may go, or must,
// with what it is in.
func garbage(r *lifecycletest.Realm) (may, must map[uid.UID]bool) {
	o := oracle{r}
	reference := func(gone func(*lifecycle.Node) bool) func(*lifecycle.Node, lifecycle.OwnerReference) bool {
		return func(n *lifecycle.Node, ref lifecycle.OwnerReference) bool {
			if owner := o.owner(n, ref); owner != nil {
				return !gone(owner)
			}
			if o.moved(n, ref) && !o.unresolvable(n, ref) {
				return !gone(o.Node(ref.UID))
			}
			return o.unknown(n, ref, r.Clock)
		}
	}
	closure := func(set map[uid.UID]bool, keeps func(*lifecycle.Node, lifecycle.OwnerReference) bool, drains func(*lifecycle.Node) bool) map[uid.UID]bool {
		for before := -1; before != len(set); {
			before = len(set)
			for _, u := range r.UIDs() {
				n := r.Node(u)
				if o.drained(n, drains) {
					set[u] = true
				}
				if !n.Terminating() && len(n.Owners) > 0 && !slices.ContainsFunc(n.Owners, func(ref lifecycle.OwnerReference) bool { return keeps(n, ref) }) {
					set[u] = true
				}
			}
		}
		return set
	}
	may = map[uid.UID]bool{}
	for _, u := range r.UIDs() {
		if r.Node(u).Terminating() {
			may[u] = true
		}
	}
	goes := func(n *lifecycle.Node) bool { return may[n.UID] }
	may = closure(may, reference(goes), goes)
	must = map[uid.UID]bool{}
	known := reference(func(owner *lifecycle.Node) bool {
		return waits(owner) || must[owner.UID] && len(owner.Finalizers) == 0 && o.contents(owner) == 0
	})
	must = closure(must, func(n *lifecycle.Node, ref lifecycle.OwnerReference) bool {
		kind := r.Kinds().Of(ref.Group(), ref.Kind)
		return known(n, ref) || o.moved(n, ref) && !must[ref.UID] || kind != nil && may[kind.UID] // of which nothing is known once it is withdrawn
	}, func(c *lifecycle.Node) bool { return draining(c) || must[c.UID] && !c.Terminating() })
	return may, must
}

// checkSettled checks a realm in which nothing is left to do.
func checkSettled(t *rapid.T, r *lifecycletest.Realm) {
	o := oracle{r}
	for _, u := range r.UIDs() {
		n := r.Node(u)
		_, blocking := o.dependents(n)
		external := slices.ContainsFunc(n.Finalizers, func(f string) bool { return !lifecycle.IsBuiltinFinalizer(f) })
		contents := o.contents(n)
		switch {
		case draining(n) && contents == 0:
			t.Fatalf("A5.7: nothing is left in %+v", n)
		case !n.Terminating() && o.drained(n, draining):
			t.Fatalf("A5.7: %+v is left in what is being deleted", n)
		case n.Terminating() && n.HasFinalizer("orphan"):
			t.Fatalf("L3: an orphan finalizer was not answered: %+v", n)
		case n.Terminating() && !external && blocking == 0 && contents == 0:
			t.Fatalf("L3: nothing holds %+v", n)
		case n.Terminating() && waits(n) && o.delaying(n) == 0:
			t.Fatalf("L3: nothing blocks %+v", n)
		case o.collectable(n, r.Clock):
			t.Fatalf("L1: garbage is left: %+v", n)
		case n.Terminating():
			continue
		}
		solid := slices.ContainsFunc(n.Owners, func(ref lifecycle.OwnerReference) bool { return o.solid(n, ref) })
		loose := slices.ContainsFunc(n.Owners, func(ref lifecycle.OwnerReference) bool {
			return !o.solid(n, ref) && !o.unknown(n, ref, r.Clock)
		})
		if solid && loose {
			t.Fatalf("L2: a reference was not stripped: %+v", n)
		}
	}
	for _, u := range r.Owners() {
		pending := lifecycle.PendingOf(r, u, r.Node(u))
		if pending.Orphan || pending.Finish != "" {
			t.Fatalf("%s still has pending %+v", u, pending)
		}
	}
}

// TestConfluent is about a forest, where no object has two owners.
//
// R1: in it the order in which things are done does not show in what is left.
//
// With two owners of which one orphans, or waits, and the other becomes garbage it
// does, as it does in Kubernetes; and so it does where a kind is withdrawn, of which
// nothing is known from then on. Uses of objects with dependents are left out: see unused.
func TestConfluent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := lifecycletest.New()
		r.Latecomers, r.Restless, r.Using = true, true, true
		lived(t, r)
		later(r)
		for _, u := range r.UIDs() {
			single(r, u)
		}
		unused(r)
		other := r.Clone()
		for _, realm := range []*lifecycletest.Realm{r, other} {
			realm.Settle(drawn(t))
			for _, u := range realm.UIDs() {
				checkKeepsNoUser(t, realm, realm.Node(u))
			}
		}
		a, b := left(r), left(other)
		if !maps.Equal(a, b) {
			t.Fatalf("left are\n%v\nor\n%v", a, b)
		}
	})
}

// checkKeepsNoUser: what waits for its users is not a solid owner of what could be one (B3.2).
func checkKeepsNoUser(t *rapid.T, r *lifecycletest.Realm, n *lifecycle.Node) {
	if !n.InUse() || r.Users(n).All == 0 || n.HasFinalizer("foregroundDeletion") || n.HasFinalizer("orphan") {
		return
	}
	for _, u := range r.DependentsOf(n.UID) {
		d := r.Node(u)
		if !d.Terminating() && slices.ContainsFunc(d.Owners, func(ref lifecycle.OwnerReference) bool { return (oracle{r}).owner(d, ref) == n }) {
			t.Fatalf("B3.2: %+v waits for its users, and keeps %+v", n, d)
		}
	}
}

// single leaves an object one owner. What the realm itself goes by stays: with its
// end the rules change.
func single(r *lifecycletest.Realm, u uid.UID) {
	n := *r.Node(u)
	switch {
	case lifecycle.Governs(&n):
		n.Owners, n.Finalizers, n.DeletionTime, n.GracePeriod = nil, nil, 0, nil
	case len(n.Owners) == 0:
		return
	default:
		n.Owners = slices.Clone(n.Owners[:1])
	}
	r.Apply([]lifecycle.Event{{Type: lifecycle.ObjectUpdated, UID: u, Object: lifecycle.Object{Node: &n}}})
}

// unused leaves out the uses of objects that have dependents and do not wait for them. B3.2
// deletes such an object in the foreground if a user is left when it is marked, and in the
// background otherwise; and one that is being deleted, if a user is left when in-use is examined.
func unused(r *lifecycletest.Realm) {
	for _, u := range r.UIDs() {
		n := *r.Node(u)
		n.Uses = slices.DeleteFunc(slices.Clone(n.Uses), func(use lifecycle.Use) bool {
			used := r.Node(use.UID)
			return used != nil && !used.Waiting() && lifecycle.Dependents(r, used).All > 0
		})
		if len(n.Uses) == len(r.Node(u).Uses) {
			continue
		}
		if len(n.Uses) == 0 {
			n.Uses = nil
		}
		r.Apply([]lifecycle.Event{{Type: lifecycle.ObjectUpdated, UID: u, Object: lifecycle.Object{Node: &n}}})
	}
}

// left is what is left, without revisions.
func left(r *lifecycletest.Realm) map[string]string {
	all := map[string]string{}
	for _, u := range r.UIDs() {
		n := r.Node(u)
		if !lifecycle.IsRegistration(n) {
			all[u.String()] = references(n.Owners) + list(n.Finalizers) + fmt.Sprint(n.Terminating())
		}
	}
	return all
}
