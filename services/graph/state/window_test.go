package state

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// What falls out of a window is the same whether rows that come before are in it
// already, are about to be, or some of them are.
func TestWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 10
		w := newWindow[string](most)
		var all []windowRow[string]
		for i := range rapid.IntRange(1, 12).Draw(t, "rows") {
			row := windowRow[string]{sequence: uint64(2*i + 1)}
			for range rapid.IntRange(1, 6).Draw(t, "keys") {
				row.keys = append(row.keys, fmt.Sprint("key ", len(all), len(row.keys)))
			}
			all = append(all, row)
		}
		// By counting from the end: the newest row stays, others while they fit.
		first, kept := len(all)-1, len(all[len(all)-1].keys)
		for first > 0 && kept+len(all[first-1].keys) <= most {
			first--
			kept += len(all[first].keys)
		}
		in := rapid.IntRange(0, len(all)-1).Draw(t, "in the window")
		for i := range in {
			n, _ := w.surplus(all[i : i+1])
			w.update(all[i:i+1], n)
		}
		from := rapid.IntRange(0, in).Draw(t, "reported from")
		cut := rapid.IntRange(from, len(all)).Draw(t, "in two parts")
		n, since := w.surplus(all[from:cut], all[cut:])
		if since != all[first].sequence {
			t.Fatalf("the window begins with row %d, want %d", since, all[first].sequence)
		}
		for i := range n {
			if r := w.row(i, all[in:]); r.sequence >= since {
				t.Fatalf("row %d falls out, of a window that begins with %d", r.sequence, since)
			}
		}
		w.update(all[in:], n)
		for i, row := range all {
			for _, k := range row.keys {
				if at, ok := w.find(k); ok != (i >= first) || ok && at != row.sequence {
					t.Fatalf("%s of row %d is known at %d, %t", k, row.sequence, at, ok)
				}
			}
		}
	})
}
