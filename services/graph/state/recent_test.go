package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The cache has the rows of the newest state, however old the snapshot is that read them.
func TestRecentIsNew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newRecent()
		newest := map[uid.UID]cached{}
		for i := range 20 {
			newest[uid.MustParse(fmt.Sprint("u", i))] = cached{node: &lifecycle.Node{}}
		}
		type snapshot struct {
			generation uint64
			nodes      map[uid.UID]cached
		}
		var snapshots []snapshot
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(newest))), 1, 5, rapid.ID)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			uids := slices.Sorted(slices.Values(some.Draw(t, "uids")))
			switch rapid.SampledFrom([]string{"snapshot", "write", "add", "find"}).Draw(t, "step") {
			case "snapshot":
				snapshots = append(snapshots, snapshot{r.now(), maps.Clone(newest)})
			case "write":
				for _, u := range uids {
					newest[u] = cached{node: &lifecycle.Node{}}
				}
				r.write(uids)
			case "add":
				if len(snapshots) > 0 {
					s := rapid.SampledFrom(snapshots).Draw(t, "of")
					r.add(s.generation, uids, s.nodes)
				}
			case "find":
				asked := slices.Clone(uids)
				others := r.find(uids, func(u uid.UID, c cached) {
					if c != newest[u] {
						t.Fatalf("%s is remembered as it was", u)
					}
					asked = slices.DeleteFunc(asked, func(v uid.UID) bool { return v == u })
				})
				if !slices.Equal(others, asked) {
					t.Fatalf("others are %v, want %v", others, asked)
				}
			}
		}
	})
}

// The cache keeps rows until they are written, and is bounded.
func TestRecentIsBounded(t *testing.T) {
	t.Parallel()
	r := newRecent()
	name := func(i int) uid.UID { return uid.MustParse(fmt.Sprint("u", i)) }
	const n = 3 * nodesKept
	for i := range n {
		r.add(r.now(), []uid.UID{name(i)}, map[uid.UID]cached{name(i): {node: &lifecycle.Node{}}})
	}
	if kept := len(r.young) + len(r.old); kept > 2*nodesKept || kept < nodesKept {
		t.Errorf("%d nodes are kept", kept)
	}
	found := 0
	look := func() { r.find([]uid.UID{name(n - 1)}, func(uid.UID, cached) { found++ }) }
	look()
	r.write([]uid.UID{name(n - 1)})
	look()
	if found != 1 {
		t.Errorf("found %d times, want once: before it was written", found)
	}
}

// Nodes with many owners are large: fewer of them are remembered.
func TestRecentIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const n = 2000
	r := newRecent()
	large := &lifecycle.Node{Owners: make([]lifecycle.OwnerReference, 1000)}
	nodes := map[uid.UID]cached{}
	var uids []uid.UID
	for i := range n {
		u := uid.MustParse(fmt.Sprintf("u%05d", i))
		nodes[u] = cached{node: large}
		uids = append(uids, u)
	}
	r.add(r.now(), uids, nodes)
	kept := len(r.young) + len(r.old)
	if most := 2 * (weightKept/weigh(large) + 1); kept > most || kept < most/4 {
		t.Errorf("%d nodes of %d bytes are kept, want at most %d", kept, weigh(large), most)
	}
	others := r.find([]uid.UID{uids[n-1]}, func(uid.UID, cached) {})
	if len(others) != 0 {
		t.Error("the last of them is not")
	}
}
