package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The filter has all keys that came with the last bytes, and few others.
func TestWritten(t *testing.T) {
	t.Parallel()
	const batch, perHalf = 100, 1000
	w := newWritten(perHalf)
	key := func(i int) []byte { return fmt.Appendf(nil, "nconfigmaps\x00default\x00name-%d", i) }
	const n = 5000
	for i := range n {
		w.add([]uint64{hash(key(i))}, batch)
		for back := range min(i+1, perHalf/batch) {
			if !w.may(key(i - back)) {
				t.Fatalf("key %d is not there after %d more", i-back, back)
			}
		}
	}
	others := 0
	for i := range n {
		if w.may(key(n + i)) {
			others++
		}
	}
	if w.may(key(0)) || others > n/100 {
		t.Errorf("of %d keys that never came it has %d; the first, which came long ago: %t", n, others, w.may(key(0)))
	}
}

// A name is found where it is, in a memtable or in a table, also when it has
// passed from one object to another, or to a uid that had another name before.
func TestNamesAreFoundEverywhere(t *testing.T) {
	t.Parallel()
	s, err := Open("state", Config{FS: vfs.NewMem(), MemTableSize: 64 << 10, CacheSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	kinds := lifecycle.NewKinds()
	kind := kinds.Of(lifecycle.Group, "Kind")
	random := rand.New(rand.NewPCG(1, 2))
	const names = 300
	has := map[string]uid.UID{}
	node := map[uid.UID]*lifecycle.Node{}
	revision := uint64(0)
	for commit := range 4000 {
		tx := s.Begin()
		t.Cleanup(tx.Drop) // where it fails; before s is closed
		for range 5 {
			name := fmt.Sprintf("name-%d", random.IntN(names))
			if got := tx.Lookup(kind, "", name); got != has[name] {
				t.Fatalf("commit %d: %s is %q, want %q; the filter has it: %t", commit, name, got, has[name], s.written.may(nameKey(nil, kind.Resource(), "", name)))
			}
			revision++
			if u := has[name]; u != "" {
				apply(t, tx, &lifecycle.Event{Type: lifecycle.ObjectDeleted, UID: u}, revision, nil)
				delete(has, name)
				continue
			}
			u := uid.MustParse(fmt.Sprintf("u-%d", random.IntN(2*names)))
			if n := node[u]; n != nil && has[n.Name] == u {
				continue
			}
			n := &lifecycle.Node{UID: u, APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: name, Generation: 1, ImportTime: 1}
			body := &coppicev1.Body{Extra: make([]byte, 2000)}
			enc, err := Encode(body)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, tx, &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: u, Object: lifecycle.Object{Node: n}}, revision, enc)
			has[name], node[u] = u, n
		}
		tx.EndCommit(Commit{Sequence: uint64(commit) + 1, Time: 1})
		if _, err := tx.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Metrics().Flush.Count; n < 5 {
		t.Errorf("%d flushes: nothing was found in tables", n)
	}
}

func apply(t *testing.T, tx *Tx, e *lifecycle.Event, revision uint64, body []byte) {
	t.Helper()
	if _, err := tx.Apply(e, revision, body); err != nil {
		t.Fatal(err)
	}
}

// What is read by names many at once, ahead or not, is what Names visits, from
// any place on; also when it is closed while something is read ahead.
func TestNameReader(t *testing.T) {
	t.Parallel()
	s, err := Open("state", Config{FS: vfs.NewMem(), MemTableSize: 64 << 10, CacheSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	kind := lifecycle.NewKinds().Of(lifecycle.Group, "Kind")
	for _, n := range []int{0, 1, nameChunk - 1, 1, 3*nameChunk + 7} {
		tx := s.Begin()
		t.Cleanup(tx.Drop) // where it fails; before s is closed
		revision := s.Checkpoint().GetRevision()
		for range n {
			revision++
			node := &lifecycle.Node{UID: uid.New(), APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: fmt.Sprint("n-", revision), Generation: 1, ImportTime: 1}
			apply(t, tx, &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: node.UID, Object: lifecycle.Object{Node: node}}, revision, []byte{})
		}
		tx.EndCommit(Commit{Sequence: s.Checkpoint().GetSequence() + 1, Time: 1})
		if _, err := tx.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, ahead := range []func(chunk int) bool{
			func(int) bool { return false }, func(int) bool { return true }, func(chunk int) bool { return chunk%2 == 1 },
		} {
			snap := s.Snapshot()
			var all []Name
			snap.Names(kind, "", NameCursor{}, func(ns, name string, u uid.UID) bool {
				all = append(all, Name{NameCursor{ns, name}, u})
				return true
			})
			for from := 0; from <= len(all); from += 100 {
				after := NameCursor{}
				if from > 0 {
					after = all[from-1].NameCursor
				}
				read := snap.NameReader(kind, "", after)
				var found []Name
				for chunk := 0; ; chunk++ {
					names, last := read.Next()
					if found = append(found, names...); last {
						break
					}
					if ahead(chunk) {
						read.Ahead()
					}
				}
				read.Close()
				if !slices.Equal(found, all[from:]) {
					t.Fatalf("from %d of %d on: has read %d names, or others", from, len(all), len(found))
				}
			}
			closed := snap.NameReader(kind, "", NameCursor{})
			closed.Ahead()
			closed.Close()
			if err := errors.Join(snap.Err(), snap.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
