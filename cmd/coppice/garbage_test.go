package main

import "testing"

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, longest},
		{1 << 20, longest},
		{64 << 20, longest},
		{128 << 20, 200},
		{garbage, 100},
		{1 << 40, 100},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d MiB: %d, want %d", c.live>>20, got, c.want)
		}
	}
}
