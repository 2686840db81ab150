package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The filter has all keys that came with the last bytes, and few others.
func TestWritten(t *testing.T) {
	t.Parallel()
	const batch, perHalf = 100, 1000
	w := newNameFilter(perHalf)
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

// smallState is a new state, of which little is in memory.
func smallState(t *testing.T, fs vfs.FS) *State {
	t.Helper()
	s, err := Open("state", Config{FS: fs, MemTableSize: 64 << 10, CacheSize: 1 << 20})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A name is found where it is, in a memtable or in a table, also when it has
// passed from one object to another, or to a uid that had another name before.
func TestNamesAreFoundEverywhere(t *testing.T) {
	t.Parallel()
	s := smallState(t, vfs.NewMem())
	kinds := lifecycle.NewKinds()
	kind := kinds.Of(lifecycle.Group, "Kind")
	random := rand.New(rand.NewPCG(1, 2))
	const names = 300
	has := map[string]uid.UID{}
	node := map[uid.UID]*lifecycle.Node{}
	revision := uint64(0)
	commits := 4000
	if testing.Short() {
		commits = 1500
	}
	for commit := range commits {
		if commit%2 == 0 {
			s.Forget()
		}
		tx := s.Begin()
		t.Cleanup(tx.Drop) // where it fails; before s is closed
		for range 5 {
			name := fmt.Sprintf("name-%d", random.IntN(names))
			if got := tx.Lookup(kind, "", name); got != has[name] {
				t.Fatalf("commit %d: %s is %q, want %q; the filter has it: %t", commit, name, got, has[name], s.nameFilter.may(nameKey(nil, kind.Resource(), "", name)))
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
			must.Succeed(t, err)
			apply(t, tx, &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: u, Object: lifecycle.Object{Node: n}}, revision, enc)
			has[name], node[u] = u, n
		}
		tx.EndCommit(Commit{Sequence: uint64(commit) + 1, Time: 1})
		if _, err := tx.Apply(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Metrics().Flush.Count; n < 5 {
		t.Errorf("%d flushes: nothing was found in tables", n)
	}
}

func apply(t *testing.T, tx *Tx, e *lifecycle.Event, revision uint64, body []byte) {
	t.Helper()
	if _, err := tx.Add(e, revision, body); err != nil {
		t.Fatal(err)
	}
}
