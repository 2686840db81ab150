package archive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/archive"
)

// sized has segments of ten commits each with these sizes in bytes; a size of zero leaves a gap.
func sized(sizes ...int64) (segments []archive.Item) {
	for i, size := range sizes {
		first := uint64(10*i + 1)
		if size > 0 {
			n := archive.Name{Kind: archive.Segment, First: first, Last: first + 9}
			segments = append(segments, archive.Item{Name: n, Entry: archive.Entry{Name: n.String(), Size: size}})
		}
	}
	return segments
}

// of repeats a size.
func of(n int, size int64) (sizes []int64) {
	for range n {
		sizes = append(sizes, size)
	}
	return sizes
}

// Runs of small segments become one, unless that would be too large, or there are few of them. Others stay as they are.
func TestMergeable(t *testing.T) {
	t.Parallel()
	const complete, small, large = 12800, 50, 100 // small is below 1/128 of complete, and 32 of them are 1/8
	join := func(sizes ...[]int64) (all []int64) {
		for _, s := range sizes {
			all = append(all, s...)
		}
		return all
	}
	for name, c := range map[string]struct {
		sizes []int64
		until uint64
		want  string // the first and the last commit of the run
	}{
		"none":                               {nil, 1000, ""},
		"too few":                            {of(15, small), 1000, ""},
		"just enough":                        {of(16, small), 1000, "1-160"},
		"as many as fit":                     {of(40, small), 1000, "1-320"},
		"some are not covered by a snapshot": {of(40, small), 175, "1-170"},
		"too few are covered":                {of(40, small), 159, ""},
		"large ones":                         {of(40, large), 1000, ""},
		"a large one among them":             {join(of(15, small), of(1, large), of(16, small)), 1000, "161-320"},
		"a gap among them":                   {join(of(15, small), of(1, 0), of(16, small)), 1000, "161-320"},
		"enough before a large one":          {join(of(17, small), of(1, large), of(20, small)), 1000, "1-170"},
	} {
		run := archive.Mergeable(sized(c.sizes...), c.until, complete, func(archive.Item) bool { return false })
		got := ""
		if len(run) > 0 {
			got = fmt.Sprintf("%d-%d", run[0].First, run[len(run)-1].Last)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	skip := func(s archive.Item) bool { return s.First == 11 }
	if run := archive.Mergeable(sized(of(40, small)...), 1000, complete, skip); len(run) == 0 || run[0].First != 21 {
		t.Errorf("behind a segment that is left out: %v", run)
	}
}

// A year of segments that are put every 10 minutes becomes a few thousand entries at most, if each is small.
func TestMergedYear(t *testing.T) {
	t.Parallel()
	const complete = 64 << 20
	for _, size := range []int64{2 << 10, 20 << 10} {
		var segments []archive.Item
		written, puts := int64(0), 365*24*6
		for i := range puts {
			n := archive.Name{Kind: archive.Segment, First: uint64(i) + 1, Last: uint64(i) + 1}
			segments = append(segments, archive.Item{Name: n, Entry: archive.Entry{Name: n.String(), Size: size}})
			if i%6 > 0 { // once an hour
				continue
			}
			tail := max(0, len(segments)-100)
			run := archive.Mergeable(segments[tail:], ^uint64(0), complete, func(archive.Item) bool { return false })
			if run == nil {
				continue
			}
			merged := archive.Name{Kind: archive.Segment, First: run[0].First, Last: run[len(run)-1].Last}
			bytes := int64(0)
			for _, s := range run {
				bytes += s.Entry.Size
			}
			written += bytes
			segments = append(segments[:len(segments)-len(run)], archive.Item{Name: merged, Entry: archive.Entry{Name: merged.String(), Size: bytes}})
		}
		if total := int64(puts) * size; len(segments) > 3000 || written > 20*total {
			t.Errorf("segments of %d bytes: %d entries, and %d times as many bytes were written as they have", size, len(segments), written/total)
		}
	}
}

// Segments whose commits one larger segment has are found with that.
func TestCovered(t *testing.T) {
	t.Parallel()
	segments := sized(of(5, 10)...)
	merged := archive.Name{Kind: archive.Segment, First: 11, Last: 30}
	segments = append(segments[:2:2], append([]archive.Item{{Name: merged}}, segments[2:]...)...)
	var got []string
	for part, whole := range archive.Covered(segments) {
		if whole.Name != merged {
			t.Errorf("%v is covered by %v", part.Name, whole.Name)
		}
		got = append(got, fmt.Sprint(part.First))
	}
	if strings.Join(got, " ") != "11 21" && strings.Join(got, " ") != "21 11" {
		t.Errorf("covered are %v", got)
	}
}
