package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// A cursor is at the row that a search finds, whatever it has read before, and reports
// whether it stepped there from the row before.
func TestCursor(t *testing.T) {
	t.Parallel()
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		testCursor(t, func(i int) []byte { return keyOfUID(tableNode, uid.MustParse(fmt.Sprintf("pod-%03d", i))) })
	})
	// Some drawn as fast as it goes, some milliseconds and some seconds apart.
	t.Run("UUIDv7", func(t *testing.T) {
		t.Parallel()
		testCursor(t, func(i int) []byte {
			return drawn(uint64(i)*3 + uint64(i/7)*40 + uint64(i/13)<<16 + uint64(i/29)<<30)
		})
	})
}

// drawn is the key of the node of an object whose uid was drawn so late.
func drawn(late uint64) []byte {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:], 0x0199_ffff_0000_7000+late)
	return keyOfUID(tableNode, uid.FromUUID(u))
}

func testCursor(t *testing.T, key func(int) []byte) {
	t.Helper()
	const n = 60
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), FormatMajorVersion: pebble.FormatNewest, Logger: newFailures()})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for i := range n {
		must.Succeed(t, db.Set(key(i), nil, pebble.NoSync))
	}
	must.Succeed(t, db.Flush())
	rapid.Check(t, func(t *rapid.T) {
		rows := map[int]bool{}
		for i := range n {
			rows[i] = true
		}
		b := db.NewIndexedBatch()
		defer func() { _ = b.Close() }()
		for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, "deleted") {
			must.Succeed(t, b.Delete(key(i), nil))
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
		must.Succeed(t, err)
		defer func() { _ = c.Close() }()
		at, limit := -1, 0 // the row that it is on
		t.Repeat(map[string]func(*rapid.T){
			"seek": func(t *rapid.T) {
				from := rapid.IntRange(0, n).Draw(t, "from")
				limit = from + rapid.IntRange(1, 10).Draw(t, "limit")
				stepped := c.seek(key(from), key(limit), rapid.Bool().Draw(t, "many"))
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

// cursorOver is a cursor over the nodes of objects that were drawn at these places, of
// which those are deleted that deleted says.
func cursorOver(t *testing.T, places []uint64, deleted func(i int) bool) *cursor {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), FormatMajorVersion: pebble.FormatNewest, Logger: newFailures()})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for i, p := range places {
		if err = db.Set(drawn(p), nil, pebble.NoSync); err == nil && deleted(i) {
			err = db.Delete(drawn(p), pebble.NoSync)
		}
		must.Succeed(t, err)
	}
	r := reader{db: db, idle: map[byte]*cursor{}}
	c, err := r.cursor(tableNode, nil, nil)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// On the way to a row a cursor does not come by all rows that are deleted before it,
// however close together they were drawn, and however long nothing was drawn before.
func TestCursorGivesUp(t *testing.T) {
	t.Parallel()
	for _, at := range []struct{ first, apart uint64 }{{1, 1}, {1000, 40}, {1 << 20, 40}, {1 << 30, 40}} {
		places := []uint64{0}
		for i := range uint64(5000) {
			places = append(places, at.first+i*at.apart)
		}
		sought := []int{0, 3000, 3500, 4000, 4500, 5000}
		c := cursorOver(t, places, func(i int) bool { return !slices.Contains(sought, i) })
		for _, i := range sought {
			key := drawn(places[i])
			if c.seek(key, append(key, nul), false); c.at != pebble.IterValid || !bytes.Equal(c.Key(), key) {
				t.Errorf("row %d is not found", i)
			}
		}
		if got := c.Stats().InternalStats.PointCount; got > 512 {
			t.Errorf("came by %d entries, to find %d rows, where others begin at %d", got, len(sought), at.first)
		}
	}
}

// A cursor learns how far apart the rows are, and then steps from one to the other. It
// searches for some before that.
func TestCursorReaches(t *testing.T) {
	t.Parallel()
	var places []uint64
	for i := range uint64(200) {
		places = append(places, i*1000<<16) // a second apart
	}
	c := cursorOver(t, places, func(int) bool { return false })
	steps := 0
	for _, p := range places {
		key := drawn(p)
		if c.seek(key, append(key, nul), false) {
			steps++
		}
	}
	if steps < len(places)-20 {
		t.Errorf("stepped to %d of %d rows", steps, len(places))
	}
}

// A row that could not be read is not reported as absent, even if the next can be read.
func TestCursorFails(t *testing.T) {
	t.Parallel()
	var reads, fails atomic.Int64 // of tables; the one that fails
	fails.Store(-1)
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") && reads.Add(1) == fails.Load() {
			return errorfs.ErrInjected
		}
		return nil
	}))
	cache := pebble.NewCache(1)
	defer cache.Unref()
	db, err := pebble.Open("", &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: newFailures(), Cache: cache,
		Levels: [7]pebble.LevelOptions{{BlockSize: 64}},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = db.Close() })
	var uids []uid.UID
	for i := range uint64(10) {
		key := drawn(i * 1000 << 16)
		uids = append(uids, uid.UID(key[1:]))
		err = errors.Join(err, db.Set(key, appendNodeValue(nil, &lifecycle.Node{UID: uids[i]}, kin{}), nil))
		err = errors.Join(err, db.Set(keyOfUID(tableWork, uids[i]), nil, nil))
	}
	must.Succeed(t, errors.Join(err, db.Flush()))
	for name, read := range map[string]func(r *reader, visit func(uid.UID, bool)){
		"nodes": func(r *reader, visit func(uid.UID, bool)) {
			r.prefetch(uids, func(u uid.UID, c cached) { visit(u, c.node != nil) })
		},
		"rows": func(r *reader, visit func(uid.UID, bool)) {
			r.prefetchRows("pending", tableWork, uids, 1, func(u uid.UID, rows []stored, _ bool) { visit(u, len(rows) > 0) })
		},
	} {
		failed := 0
		for n := range int64(100) { // 0 fails none
			reads.Store(0)
			fails.Store(n)
			r := &reader{db: db, idle: map[byte]*cursor{}}
			visited := 0
			read(r, func(u uid.UID, there bool) {
				visited++
				if !there {
					t.Errorf("%s, read %d fails: %s is said to be absent", name, n, u)
				}
			})
			fails.Store(-1)
			if (visited < len(uids)) != (r.failure != nil) {
				t.Errorf("%s, read %d fails: %d of %d were read, and the failure is %v", name, n, visited, len(uids), r.failure)
			}
			if r.failure != nil {
				failed++
			}
			_ = r.close() // it says again what has failed
		}
		if failed == 0 {
			t.Errorf("%s: no read has failed", name)
		}
	}
}
