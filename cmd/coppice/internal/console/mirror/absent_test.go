package mirror

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Deletions whose roots were never seen are the same in whatever order their objects are put, also after restarts. Each ends
// once, with its last object, and nothing of it stays.
func TestAbsentOwnerInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		m := New(func() time.Time { return now })
		uid := func(n int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", n) }
		const owners, dependents = 2, 8
		first := map[string]int{} // the owner that wins, by the uid of the dependent
		var all []Change
		for i := range dependents {
			o := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{
				Uid: uid(10 + i), Namespace: "shop", Name: fmt.Sprint("p-", i), ResourceVersion: uint64(1 + i), Finalizers: []string{"example.com/x"},
				DeletionTimestamp: timestamppb.New(now.Add(-time.Duration(i+1) * time.Second)),
			}}
			for _, owner := range rapid.Permutation([]int{0, 1}).Draw(t, "owners")[:rapid.IntRange(1, owners).Draw(t, "references")] {
				if len(o.GetMetadata().GetOwnerReferences()) == 0 {
					first[uid(10+i)] = owner
				}
				o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("c-", owner), Uid: uid(owner)})
			}
			all = append(all, Change{Op: Put, Resource: "pods", Object: o})
		}
		var follows [owners]*Follow
		for i := range follows {
			follows[i] = m.Follow(uid(i))
		}
		var began [owners]time.Time
		for _, c := range all { // the marks are from the latest to the earliest
			is := c.Object.GetMetadata()
			began[first[is.GetUid()]] = is.GetDeletionTimestamp().AsTime()
		}
		check := func() {
			if !m.Loaded() {
				return
			}
			var left [owners]int
			for _, c := range all {
				left[first[c.Object.GetMetadata().GetUid()]]++
			}
			if _, total := m.Deletions(9); total != min(left[0], 1)+min(left[1], 1) {
				t.Fatalf("%d deletions have %v objects", total, left)
			}
			for owner, f := range follows {
				p := f.Progress()
				switch n := left[owner]; {
				case n > 0:
					if p.State != view.Running || !p.Gone || int(p.Remaining) != n || p.Root.Name != fmt.Sprint("c-", owner) || !p.Began.Equal(began[owner]) {
						t.Fatalf("the deletion of owner %d has %d objects since %v, and is %+v", owner, n, began[owner], p)
					}
				case began[owner].IsZero():
				case p.State != view.Ended || p.Root.UID != uid(owner):
					t.Fatalf("the deletion of owner %d has ended, and is %+v", owner, p)
				}
			}
		}
		put := func() {
			for _, c := range rapid.Permutation(all).Draw(t, "order") {
				m.Apply(c)
				check()
			}
			m.Apply(Change{Op: Synced})
			check()
		}
		for put(); len(all) > 0; {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "removed")
			c := all[i]
			all = append(all[:i:i], all[i+1:]...)
			c.Op = Remove
			m.Apply(c)
			check()
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				m.Apply(Change{Op: Restart})
				put()
			}
		}
		if len(m.byNumber)+len(m.byRoot)+len(m.index)+len(m.lists) > 0 {
			t.Fatalf("left are deletions %v, %v, objects %v, lists %v", m.byNumber, m.byRoot, m.index, m.lists)
		}
	})
}
