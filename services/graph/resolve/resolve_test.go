package resolve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// owned is metadata with references to these objects.
func owned(r *statetest.Realm, owners ...string) *coppicev1.ObjectMeta {
	m := &coppicev1.ObjectMeta{}
	for _, o := range owners {
		m.OwnerReferences = append(m.OwnerReferences, r.Reference(o, false))
	}
	return m
}

func blocked(m *coppicev1.ObjectMeta, finalizers ...string) *coppicev1.ObjectMeta {
	m.Finalizers = finalizers
	return m
}

// decisions resolves objects, and prints what a processor makes of the reply.
func decisions(t *testing.T, r *statetest.Realm, closure int, uids ...string) string {
	t.Helper()
	var asked []uid.UID
	for _, u := range uids {
		asked = append(asked, uid.MustParse(u))
	}
	snap := r.Snapshot()
	defer snap.Close()
	reply := resolve.Resolve(snap, asked, closure, r.Clock, nil)
	if reply.GetRevision() != snap.Revision() {
		t.Errorf("resolved at %d, want %d", reply.GetRevision(), snap.Revision())
	}
	var list []string
	err := resolution.Each(reply, func(u uid.UID, traits lifecycle.Traits, classes []lifecycle.Class) {
		list = append(list, fmt.Sprintf("%s: %s", u, lifecycle.Decide(traits, classes)))
	})
	must.Succeed(t, err)
	must.Succeed(t, snap.Err())
	return strings.Join(list, ", ")
}

func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("resolved\n%s, want\n%s", got, want)
	}
}

// chain is web, a, b, c, d, each the owner of the next; web is gone.
func chain(t *testing.T, finalizerOf string) *statetest.Realm {
	t.Helper()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	owner := "deployments/web"
	for _, name := range []string{"a", "b", "c", "d"} {
		m := owned(r, owner)
		if name == finalizerOf {
			m = blocked(m, "example.com/x")
		}
		owner = "replicasets/" + name
		r.Create(owner, m)
	}
	r.Delete("deployments/web", lifecycle.Background)
	return r
}

// A deep tree costs no more round trips: the dependents that go with an object are
// resolved with it, owners first, within a budget.
func TestClosure(t *testing.T) {
	t.Parallel()
	r := chain(t, "")
	check(t, decisions(t, r, 100, "a"), "a: collect, b: collect, c: collect, d: collect")
	check(t, decisions(t, r, 2, "a"), "a: collect, b: collect, c: collect")
	check(t, decisions(t, r, 0, "a"), "a: collect")
	check(t, decisions(t, r, 100, "b"), "b: keep")
}

// An object that a finalizer blocks stays for a while, and so do its dependents.
func TestClosureEndsAtFinalizers(t *testing.T) {
	t.Parallel()
	check(t, decisions(t, chain(t, "b"), 100, "a"), "a: collect, b: collect")
	check(t, decisions(t, chain(t, "a"), 100, "a"), "a: collect")
}

// An object with several owners goes when the last of them does. An object that another
// owner keeps is not part of the closure.
func TestClosureMeetsAgain(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("deployments/api", nil)
	r.Create("replicasets/a", owned(r, "deployments/web"))
	r.Create("replicasets/b", owned(r, "deployments/web"))
	r.Create("pods/both", owned(r, "replicasets/a", "replicasets/b"))
	r.Create("pods/solid", owned(r, "replicasets/a", "deployments/api"))
	r.Create("pods/below", owned(r, "pods/both"))
	r.Delete("deployments/web", lifecycle.Background)
	check(t, decisions(t, r, 100, "a", "b"), "a: collect, b: collect, both: collect, below: collect")
	check(t, decisions(t, r, 100, "a"), "a: collect")
	// In the other order as well, and asked for twice.
	check(t, decisions(t, r, 100, "b", "a", "both"), "b: collect, a: collect, both: collect, below: collect")
}

// An absent object has no traits. Objects with unknown owners, and objects that something
// blocks, have the traits and classes of their state.
func TestDecisions(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("deployments/api", nil)
	r.Create("pods/strip", owned(r, "deployments/web", "deployments/api"))
	r.Create("pods/alone", nil)
	r.Create("pods/foreign@shop", owned(r, "deployments/api"))
	r.Import("pods/waits", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{
		{ApiVersion: "apps/v1", Kind: "Deployment", Name: "x", Uid: "x"},
	}})
	r.Delete("deployments/web", lifecycle.Background)
	check(t, decisions(t, r, 100, "strip", "absent", "alone", "foreign", "waits"),
		"strip: strip, absent: keep, alone: keep, foreign: collect, waits: wait")
	r.Clock = r.Clock.Add(lifecycle.DefaultSettings().OwnerGrace + time.Second)
	check(t, decisions(t, r, 100, "waits"), "waits: collect")
}

// Cycles are followed once: the reply has each object once.
func TestClosureOfACycle(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	for name, owner := range map[string]string{"a": "b", "b": "a"} {
		m := owned(r, "deployments/web")
		m.Uid = name
		m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "Pod", Name: owner, Uid: owner})
		r.Import("pods/"+name, m)
	}
	r.Delete("deployments/web", lifecycle.Background)
	// Each holds the other: they lose only the reference to what is gone.
	check(t, decisions(t, r, 100, "a", "b"), "a: strip, b: strip")
}

// What is resolved at once is bounded by references of wide objects: the last objects are left out, and dependents
// are not followed.
func TestPartOfWideObjects(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	wide := func() *coppicev1.ObjectMeta {
		m := &coppicev1.ObjectMeta{}
		for i := range 999 {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/f%d", i))
		}
		return m
	}
	var asked []uid.UID
	for i := range 20 {
		name := fmt.Sprintf("w%d", i)
		r.Create("pods/"+name, wide())
		asked = append(asked, uid.MustParse(name))
	}
	snap := r.Snapshot()
	defer snap.Close()
	objects := func(reply *coppicev1.ResolveReply) (n int) {
		t.Helper()
		must.Succeed(t, resolution.Each(reply, func(uid.UID, lifecycle.Traits, []lifecycle.Class) { n++ }))
		return n
	}
	reply, left := resolve.Part(snap, asked, 0, r.Clock, nil)
	if n := objects(reply); n == 0 || n > 10 || n+left != len(asked) {
		t.Errorf("resolved %d of %d objects, and left %d", n, len(asked), left)
	}
	if reply, left = resolve.Part(snap, asked[:1], 0, r.Clock, nil); objects(reply) != 1 || left != 0 {
		t.Errorf("resolved %d objects of one, and left %d", objects(reply), left)
	}
	if n := objects(resolve.Resolve(snap, asked, 0, r.Clock, nil)); n != len(asked) {
		t.Errorf("resolved %d objects of a request that is not partial", n)
	}
}

// The dependents of an object are not followed when the objects before them are wide.
func TestClosureOfWideObjects(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("replicasets/root", owned(r, "deployments/web"))
	for i := range 20 {
		m := owned(r, "replicasets/root")
		for k := range 999 {
			u := fmt.Sprintf("absent-%d", k)
			m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: u, Uid: u})
		}
		r.Create(fmt.Sprintf("pods/w%d", i), m)
	}
	r.Delete("deployments/web", lifecycle.Background)
	r.Clock += lifecycle.Time(24 * time.Hour / time.Microsecond) // the absent owners are not awaited any longer
	snap := r.Snapshot()
	defer snap.Close()
	reply, _ := resolve.Part(snap, []uid.UID{uid.MustParse("root")}, 100, r.Clock, nil)
	n := 0
	must.Succeed(t, resolution.Each(reply, func(uid.UID, lifecycle.Traits, []lifecycle.Class) { n++ }))
	if n < 2 || n > 10 {
		t.Errorf("resolved %d objects, of an owner and 20 dependents", n)
	}
}

// What a part costs depends on what it resolves, and not on how many objects it leaves out. Not parallel: it counts
// allocations.
func TestPartReadsLittleAhead(t *testing.T) {
	r := statetest.New(t)
	var asked []uid.UID
	for i := range 160 {
		m := &coppicev1.ObjectMeta{}
		for k := range 999 {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/f%d", k))
		}
		name := fmt.Sprintf("w%d", i)
		r.Create("pods/"+name, m)
		asked = append(asked, uid.MustParse(name))
	}
	allocations := func(uids []uid.UID) float64 {
		return testing.AllocsPerRun(5, func() {
			snap := r.Snapshot()
			defer snap.Close()
			if _, left := resolve.Part(snap, uids, 0, r.Clock, nil); left == 0 {
				t.Fatal("it leaves out nothing")
			}
		})
	}
	few, many := allocations(asked[:16]), allocations(asked)
	if many > 2*few {
		t.Errorf("a part of %d objects makes %.0f allocations, and one of 16 makes %.0f", len(asked), many, few)
	}
}
