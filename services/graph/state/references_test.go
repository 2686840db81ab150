package state_test

import (
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// manyOwners returns the event of an object that is created with n references: two
// to each owner, of which the second blocks. The rules accept no more than 1,000,
// but a log may have more.
func manyOwners(name string, n int) lifecycle.Event {
	node := &lifecycle.Node{UID: uid.MustParse(name), APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name, Generation: 1, CreationTime: 1}
	for i := range n {
		node.Owners = append(node.Owners, lifecycle.OwnerReference{
			APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint("o", i/2), UID: uid.MustParse(fmt.Sprint("o", i/2)), Blocking: lifecycle.Ternary(1 + i%2),
		})
	}
	return lifecycle.Event{Type: lifecycle.ObjectCreated, UID: node.UID, Object: lifecycle.Object{Node: node, Body: &coppicev1.Body{}}}
}

func commit(r *statetest.Realm, events ...lifecycle.Event) {
	r.Must(func(*lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return &lifecycle.Outcome{Events: events}, nil
	})
}

// TestManyReferences: an object with many references counts for each owner once, as
// one with few does, and until the reference goes.
func TestManyReferences(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	n := 20_000
	if testing.Short() {
		n = 2_000
	}
	created := manyOwners("many", n)
	commit(r, created)
	count := func(i int) lifecycle.Counts {
		snap := r.Snapshot()
		defer snap.Close()
		return snap.Count(uid.MustParse(fmt.Sprint("o", i)), lifecycle.Claims{})
	}
	for _, i := range []int{0, 1, n/4 - 1, n / 4, n/2 - 1} {
		if got := count(i); got.All != 1 || got.Blocking != 1 {
			t.Errorf("on owner %d: %+v, want one that blocks", i, got)
		}
	}
	commit(r, lifecycle.Event{Type: lifecycle.OwnerReferencesRemoved, UID: created.UID, References: created.Object.Owners[:n/2]})
	for i, want := range map[int]uint64{0: 0, n/4 - 1: 0, n / 4: 1, n/2 - 1: 1} {
		if got := count(i); got.All != want || got.Blocking != want {
			t.Errorf("on owner %d: %+v, want %d", i, got, want)
		}
	}
	commit(r, lifecycle.Event{Type: lifecycle.ObjectDeleted, UID: created.UID})
	if got := count(n/2 - 1); got != (lifecycle.Counts{}) {
		t.Errorf("after the removal: %+v", got)
	}
}

// BenchmarkManyReferences shows that creating and removing an object is linear in its
// references: ns/reference is about the same for 10,000 and 20,000. Fewer fit into
// the small caches of the test.
func BenchmarkManyReferences(b *testing.B) {
	for _, n := range []int{10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := statetest.New(b)
			created := manyOwners("many", n)
			for b.Loop() {
				commit(r, created)
				commit(r, lifecycle.Event{Type: lifecycle.ObjectDeleted, UID: created.UID})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/reference")
		})
	}
}
