package replay

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/uid"
)

// A search finds exactly the objects that were added, wherever the previous search ended.
func TestCandidates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.Custom(func(t *rapid.T) uid.UID {
			return uid.MustParse(fmt.Sprintf("00000000-0000-7000-800%d-%012x",
				rapid.IntRange(0, 1).Draw(t, "high"), rapid.IntRange(0, 300).Draw(t, "low")))
		})
		var f candidates
		want := map[uid.UID]bool{}
		for _, u := range rapid.SliceOf(some).Draw(t, "added") {
			k, ok := candidateKeyOf(u)
			if !ok {
				t.Fatalf("%s is a UUID", u)
			}
			f.add(k)
			want[u] = true
		}
		f.sort()
		if len(f.of) != len(want) {
			t.Fatalf("%d objects, want %d", len(f.of), len(want))
		}
		sorted := slices.Sorted(maps.Keys(want))
		var at cursor
		for _, u := range append(rapid.SliceOf(some).Draw(t, "looked for"), sorted...) {
			place := f.find(u, &at)
			if i, found := slices.BinarySearch(sorted, u); found != (place != none) || found && int32(i) != place {
				t.Fatalf("%s is at %d, want %d, %t", u, place, i, found)
			}
		}
		if place := f.find(uid.MustParse("imported"), &at); place != none {
			t.Fatalf("what is no UUID is at %d", place)
		}
	})
}
