package state

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// A cursor is where a search leads, whatever it has read before, and knows when
// it came there from the row before.
func TestCursor(t *testing.T) {
	t.Parallel()
	const n = 60
	key := func(i int) []byte { return fmt.Appendf([]byte{tableNode}, "%03d", i) }
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), FormatMajorVersion: pebble.FormatNewest, Logger: newFailures()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for i := range n {
		if err := db.Set(key(i), nil, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := map[int]bool{}
		for i := range n {
			rows[i] = true
		}
		b := db.NewIndexedBatch()
		defer func() { _ = b.Close() }()
		for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, "deleted") {
			if err := b.Delete(key(i), nil); err != nil {
				t.Fatal(err)
			}
			delete(rows, i)
		}
		first := func(from, limit int) int {
			for i := from; i < limit; i++ {
				if rows[i] {
					return i
				}
			}
			return -1
		}
		r := reader{db: b, idle: map[byte]*cursor{}}
		c, err := r.cursor(tableNode, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		at, limit := -1, 0 // the row that it is on
		t.Repeat(map[string]func(*rapid.T){
			"seek": func(t *rapid.T) {
				from := rapid.IntRange(0, n).Draw(t, "from")
				limit = from + rapid.IntRange(1, 10).Draw(t, "limit")
				stepped := c.seek(key(from), key(limit), rapid.Bool().Draw(t, "try"))
				found := first(from, limit)
				if before := at; stepped && found >= 0 && (before < 0 || first(before+1, found) >= 0) {
					t.Fatalf("row %d is said to come directly behind %d", found, before)
				}
				at = found
			},
			"next": func(t *rapid.T) {
				if at < 0 {
					return // it is on no row
				}
				limit = at + rapid.IntRange(1, 10).Draw(t, "limit")
				c.next(key(limit))
				at = first(at+1, limit)
			},
			"get": func(t *rapid.T) {
				i := rapid.IntRange(0, n).Draw(t, "row")
				if got := c.get(key(i)); got != rows[i] {
					t.Fatalf("there is a row %d: %t, want %t", i, got, rows[i])
				}
				at = -1
			},
			"": func(t *rapid.T) {
				switch {
				case c.Error() != nil:
					t.Fatal(c.Error())
				case at < 0 && c.at == pebble.IterValid:
					t.Fatalf("it is on %q, want none before %d", c.Key(), limit)
				case at >= 0 && (c.at != pebble.IterValid || !bytes.Equal(c.Key(), key(at))):
					t.Fatalf("it is not on row %d", at)
				}
			},
		})
	})
}
