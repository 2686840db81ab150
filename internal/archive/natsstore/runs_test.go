package natsstore

import "testing"

func TestRuns(t *testing.T) {
	t.Parallel()
	var r runs
	sequences := []uint64{5, 6, 7, 9, 12, 13}
	for _, s := range sequences {
		r.add(s)
	}
	if r.String() != "5+3,9+1,12+2" {
		t.Errorf("runs %s", r)
	}
	again, ok := parseRuns(r.String())
	if !ok || again.String() != r.String() {
		t.Errorf("runs %s, %v", again, ok)
	}
	for i, want := range sequences {
		if got, count := again.from(uint64(i)); got != want || count == 0 {
			t.Errorf("chunk %d has sequence %d, %d; want %d", i, got, count, want)
		}
	}
	if _, count := r.from(1); count != 2 {
		t.Errorf("%d chunks follow each other", count)
	}
	if got, count := r.from(6); got != 0 || count != 0 {
		t.Errorf("a chunk that does not exist has sequence %d, %d", got, count)
	}
	for _, bad := range []string{"", "5", "5+", "0+1", "5+0", "5+1,", "a+1", "5+1+1"} {
		if r, ok := parseRuns(bad); ok {
			t.Errorf("%q is read as %s", bad, r)
		}
	}
}
