package state

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// What is read many at once is what is read one by one, also of objects that are
// not there, next to each other and far apart.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	s := smallState(t, vfs.NewMem())
	kind := lifecycle.NewKinds().Of(lifecycle.Group, "Kind")
	name := func(i int) uid.UID { return uid.MustParse(fmt.Sprintf("u-%03d", i)) }
	const n = 200
	tx := s.Begin()
	for i := range n {
		if i%7 == 0 || i > 50 && i < 80 {
			continue // is not there
		}
		node := &lifecycle.Node{UID: name(i), APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: fmt.Sprint("n-", i), Generation: 1, ImportTime: 1}
		apply(t, tx, &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: node.UID, Object: lifecycle.Object{Node: node}}, uint64(i)+1, []byte{})
	}
	tx.EndCommit(Commit{Sequence: 1, Time: 1})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, n).Draw(t, "from")
		picked := rapid.SliceOfN(rapid.IntRange(from, from+rapid.IntRange(0, n).Draw(t, "width")), 1, 50).Draw(t, "picked")
		var uids []uid.UID
		for _, i := range picked {
			uids = append(uids, name(i))
		}
		s.Forget()
		snap, alone, tx := s.Snapshot(), s.Snapshot(), s.Begin()
		defer snap.Close()
		defer alone.Close()
		snap.Prefetch(uids)
		tx.Prefetch(uids)
		for _, u := range uids {
			want := alone.Node(u)
			if got := snap.nodes[u].node; (got == nil) != (want == nil) || got != nil && got.UID != u {
				t.Fatalf("a snapshot has read %s as %v, want %v", u, got, want)
			}
			if got := tx.objects[u].now; (got == nil) != (want == nil) || got != nil && got.UID != u {
				t.Fatalf("a tx has read %s as %v, want %v", u, got, want)
			}
		}
	})
}
