package bench

import (
	"slices"
	"testing"
	"time"
)

// A family of each shape is a tree: owners precede their dependents, no owner is a
// survivor, and survivors returns their number.
func TestFamily(t *testing.T) {
	t.Parallel()
	for _, shape := range Shapes {
		for _, n := range []int{1, 2, 100, 101, 1000, 4321, 500_000} {
			f := newFamily(shape, n)
			if shape != "tree" && f.n != n {
				t.Errorf("%s of %d has %d members", shape, n, f.n)
			}
			survivors := 0
			for i := 1; i <= f.n; i++ {
				o := f.owner(i)
				if o < 0 || o >= i || o > 0 && survivor(o) {
					t.Fatalf("%s of %d: %d belongs to %d", shape, n, i, o)
				}
				if survivor(i) {
					survivors++
				}
				if g := f.generations; g != nil && generation(g, o) >= generation(g, i) {
					t.Fatalf("%s of %d: %d and its owner %d are of one generation", shape, n, i, o)
				}
			}
			if survivors != f.survivors() {
				t.Errorf("%s of %d: %d survive, not %d", shape, n, survivors, f.survivors())
			}
		}
	}
}

// generation returns the generation of a member; that of the root is before all.
func generation(begins []int, i int) int {
	at, found := slices.BinarySearch(begins, i)
	if found {
		at++
	}
	return at
}

func TestTreeHasThreeLevels(t *testing.T) {
	t.Parallel()
	f := newFamily("tree", 1_000_000)
	if want := 100 + 100*100 + 100*100*100; f.n != want {
		t.Errorf("%d members, want %d", f.n, want)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var list []time.Duration
	for i := range 200 {
		list = append(list, time.Duration(200-i))
	}
	for p, want := range map[int]time.Duration{50: 100, 99: 198, 100: 200} {
		if got := Percentile(list, p); got != want {
			t.Errorf("percentile %d of 1 to 200 is %d, want %d", p, got, want)
		}
	}
	if got := Percentile([]time.Duration{7}, 99); got != 7 {
		t.Errorf("percentile of one is %d", got)
	}
	if got := Percentile(nil, 50); got != 0 {
		t.Errorf("percentile of none is %d", got)
	}
}
