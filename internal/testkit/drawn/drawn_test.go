package drawn_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/testkit/drawn"
)

// The same numbers draw the same, and others something else, also at the same time.
func TestCheck(t *testing.T) { //nolint:tparallel // what the subtests draw is compared after them
	t.Parallel()
	const numbers = 8
	var mu sync.Mutex
	got := map[string][][]uint64{}
	t.Run("checks", func(t *testing.T) {
		for _, run := range []string{"first", "second"} {
			for i := range uint64(numbers) {
				t.Run(fmt.Sprint(run, " ", i), func(t *testing.T) {
					t.Parallel()
					var values []uint64
					drawn.Check(t, i, func(t *rapid.T) { values = append(values, rapid.Uint64().Draw(t, "value")) })
					mu.Lock()
					defer mu.Unlock()
					got[run] = append(got[run], values)
				})
			}
		}
	})
	for _, list := range got {
		slices.SortFunc(list, slices.Compare)
		if len(slices.CompactFunc(slices.Clone(list), slices.Equal)) != numbers {
			t.Error("two numbers draw the same values")
		}
	}
	if !slices.EqualFunc(got["first"], got["second"], slices.Equal) {
		t.Errorf("the second run draws other values")
	}
}
