package plan_test

import (
	"context"
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

// familyOrders is how many orders are tried, at most, to find one that reaches what
// a plan says.
const familyOrders = 500

// TestFamilies holds plans against what then happens, whatever the order in which
// processors and finalizers take their steps, where nothing else happens.
//
// R1: where the plan does not say that something depends on the order, the outcome
// is what it says; elsewhere some order reaches what it says, and what differs in
// another is marked, or below something that is.
//
// For 10,000 families: go test ./services/graph/plan -run TestFamilies -rapid.checks=10000
func TestFamilies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := family{lifecycletest.DrawFamily(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") })}
		realm, uids, past := f.Play()
		p := planFamily(t, f, realm, uids, past)
		said, marked := f.said(p, realm, uids)
		after := realm.Clone()
		f.Delete(after, uids)
		got := f.Finish(after, uids, func(n int) []int { return rapid.Permutation(lifecycletest.InOrder(n)).Draw(t, "order") }, rapid.Bool().Draw(t, "late"))
		if maps.Equal(got, said) {
			return
		}
		for name, left := range got {
			if left != said[name] && !marked[name] {
				t.Fatalf("%s: %q is left, the plan of %+v says %q, and not that it depends on the order:\n%s\nleft are %q", name, left, f.Family, said[name], describe(p), got)
			}
		}
		for seed := range uint64(familyOrders) {
			other := realm.Clone()
			f.Delete(other, uids)
			if maps.Equal(f.Finish(other, uids, lifecycletest.Shuffled(seed), seed%2 == 0), said) {
				return
			}
		}
		t.Fatalf("no order was found that reaches what the plan of %+v says:\n%s\nleft are %q", f.Family, describe(p), got)
	})
}

type family struct{ lifecycletest.Family }

// planFamily plans the deletion of the root, at a state with the same events.
func planFamily(t *rapid.T, f family, realm *lifecycletest.Realm, uids []string, past []lifecycle.Event) *plan.Plan {
	s, err := state.Open("state", state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20})
	must.Succeed(t, err)
	defer s.Close()
	w := &world{realm: realm, state: s}
	w.fold(t, past, 1)
	snap := s.Snapshot()
	defer snap.Close()
	root := realm.Node(uid.MustParse(uids[f.Root]))
	p, refusal := plan.Compute(context.Background(), snap, plan.Deletion{
		Resource: f.Members[f.Root].Resource, Namespace: root.Namespace,
		DeleteRequest: &coppicev1.DeleteRequest{Names: []string{root.Name}, Options: &coppicev1.DeleteOptions{PropagationPolicy: f.Policy}},
	}, realm.Clock, 1000)
	must.Succeed(t, refusal)
	return p
}

// said is what is left of each member by a plan, and for which of them that depends
// on the order, by the plan or because they depend on such a one.
func (f family) said(p *plan.Plan, realm *lifecycletest.Realm, uids []string) (left lifecycletest.Settled, marked map[string]bool) {
	left, marked = lifecycletest.Settled{}, map[string]bool{}
	for _, u := range uids {
		n := realm.Node(uid.MustParse(u))
		left[n.Name] = lifecycletest.LeftOf(lifecycle.Object{Node: n}.API().GetMetadata())
	}
	for _, o := range p.Objects {
		marked[o.Node.Name] = o.DependsOnOrder
		switch o.Outcome {
		case plan.Removed, plan.RemovedLater:
			left[o.Node.Name] = ""
		case plan.Blocked:
			left[o.Node.Name] = "terminating"
		default:
			n := *o.Node
			n.Owners = slices.DeleteFunc(slices.Clone(n.Owners), func(r lifecycle.OwnerReference) bool {
				return slices.ContainsFunc(o.Lost, func(gone lifecycle.OwnerReference) bool { return r.SameOwner(&gone) })
			})
			left[n.Name] = lifecycletest.LeftOf(lifecycle.Object{Node: &n}.API().GetMetadata())
		}
	}
	for again := true; again; {
		again = false
		for _, m := range f.Members {
			for _, b := range m.Owners {
				if b.To != lifecycletest.Unheard && marked[f.Members[b.To].Name] && !marked[m.Name] {
					marked[m.Name], again = true, true
				}
			}
		}
	}
	return left, marked
}
