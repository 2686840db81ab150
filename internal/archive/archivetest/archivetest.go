// Package archivetest has the test that every implementation of [archive.Store] passes, and stores that fail as a test wants.
package archivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Run tests an implementation. open opens a store that is empty; the function that it returns opens the
// same store again, as another process does.
func Run(t *testing.T, open func(t *testing.T) (store archive.Store, again func() archive.Store)) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, archive.Store, func() archive.Store){
		"put and read":     putAndRead,
		"ranges":           ranges,
		"put if absent":    putIfAbsent,
		"concurrent puts":  concurrentPuts,
		"failing content":  failingContent,
		"canceled context": canceled,
		"list":             list,
		"many entries":     manyEntries,
		"delete":           deleting,
		"names":            names,
		"segment":          segments,
		"limited": func(t *testing.T, s archive.Store, again func() archive.Store) {
			t.Helper()
			ranges(t, archive.Limit(s, testkit.Timeout), again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, again := open(t)
			test(t, store, again)
		})
	}
}

// content is the content of an entry, determined by its size.
func content(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(b)
	return b
}

func put(t *testing.T, s archive.Store, name string, b []byte) {
	t.Helper()
	must.Succeed(t, s.Put(testkit.Context(t), name, bytes.NewReader(b), int64(len(b))))
}

// read reads a range. It reads again if NATS has not answered in time.
func read(ctx context.Context, s archive.Store, name string, offset, length int64) ([]byte, error) {
	for {
		in, err := s.Open(ctx, name, offset, length)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(in)
		err = errors.Join(err, in.Close())
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return b, err
		}
	}
}

// expect requires that an entry has a content.
func expect(t *testing.T, s archive.Store, name string, want []byte) {
	t.Helper()
	got, err := read(testkit.Context(t), s, name, 0, int64(len(want)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("entry %s: %d bytes, equal: %v, %v; want %d bytes", name, len(got), bytes.Equal(got, want), err, len(want))
	}
}

// entries lists a store.
func entries(t *testing.T, s archive.Store, prefix string) (list []archive.Entry) {
	t.Helper()
	for e, err := range s.List(testkit.Context(t), prefix) {
		must.Succeed(t, err)
		list = append(list, e)
	}
	return list
}

// expectNames requires that a store has the entries, in this order.
func expectNames(t *testing.T, s archive.Store, prefix string, want ...string) {
	t.Helper()
	var got []string
	for _, e := range entries(t, s, prefix) {
		got = append(got, e.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries with prefix %q: %q, want %q", prefix, got, want)
	}
}

func putAndRead(t *testing.T, s archive.Store, again func() archive.Store) {
	t.Helper()
	sizes := []int{1, 1000, 128 << 10, 128<<10 + 1, 20 << 20}
	for _, size := range sizes {
		put(t, s, fmt.Sprintf("a/size-%08d", size), content(size))
	}
	for _, s := range []archive.Store{s, again()} {
		for i, e := range entries(t, s, "") {
			if want := (archive.Entry{Name: fmt.Sprintf("a/size-%08d", sizes[i]), Size: int64(sizes[i])}); e != want {
				t.Errorf("entry %+v, want %+v", e, want)
			}
			expect(t, s, e.Name, content(int(e.Size)))
		}
	}
	if s.String() != again().String() || strings.Contains(s.String(), "secret") {
		t.Errorf("store %s", s)
	}
	for _, name := range []string{"a/none", "none", "a"} {
		if _, err := read(testkit.Context(t), s, name, 0, 1); !errors.Is(err, archive.ErrNotFound) || !strings.Contains(err.Error(), name) {
			t.Errorf("entry %s: %v", name, err)
		}
	}
}

func ranges(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	const chunk = 128 << 10 // of object stores
	size := int64(3*chunk + 100)
	b := content(int(size))
	put(t, s, "a/b", b)
	for _, offset := range []int64{0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk, size - 1} {
		for _, length := range []int64{1, 2, chunk - 1, chunk, chunk + 1, 3 * chunk, size} {
			got, err := read(testkit.Context(t), s, "a/b", offset, length)
			switch {
			case offset+length > size:
				if !errors.Is(err, archive.ErrRange) {
					t.Errorf("%d bytes at %d: %d bytes, %v", length, offset, len(got), err)
				}
			case err != nil || !bytes.Equal(got, b[offset:offset+length]):
				t.Errorf("%d bytes at %d: %d bytes, %v", length, offset, len(got), err)
			}
		}
	}
	for _, r := range [][2]int64{{size, 1}, {size + chunk, 1}, {-1, 1}, {0, 0}, {0, -1}} {
		if got, err := read(testkit.Context(t), s, "a/b", r[0], r[1]); !errors.Is(err, archive.ErrRange) {
			t.Errorf("%d bytes at %d: %d bytes, %v", r[1], r[0], len(got), err)
		}
	}
	in, err := s.Open(testkit.Context(t), "a/b", 0, size) // a reader may close without reading
	must.Succeed(t, err)
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func putIfAbsent(t *testing.T, s archive.Store, again func() archive.Store) {
	t.Helper()
	put(t, s, "a/b", []byte("first"))
	for _, other := range []archive.Store{s, again()} {
		for _, b := range []string{"second, longer", "first"} {
			if err := other.Put(testkit.Context(t), "a/b", strings.NewReader(b), int64(len(b))); !errors.Is(err, archive.ErrExists) {
				t.Errorf("a second put: %v", err)
			}
		}
	}
	expect(t, s, "a/b", []byte("first"))
}

func concurrentPuts(t *testing.T, s archive.Store, again func() archive.Store) {
	t.Helper()
	const callers = 6
	stores := []archive.Store{s, again()}
	var stored atomic.Int64
	var winner atomic.Int64
	var callersDone sync.WaitGroup
	for i := range callers {
		callersDone.Go(func() {
			size := 300<<10 + i
			switch err := stores[i%2].Put(testkit.Context(t), "a/b", bytes.NewReader(content(size)), int64(size)); {
			case err == nil:
				stored.Add(1)
				winner.Store(int64(size))
			case !errors.Is(err, archive.ErrExists):
				// The outcome is unknown: a second call says which.
				if err := stores[i%2].Put(testkit.Context(t), "a/b", bytes.NewReader(content(size)), int64(size)); err == nil {
					stored.Add(1)
					winner.Store(int64(size))
				} else if !errors.Is(err, archive.ErrExists) {
					t.Error(err)
				}
			}
		})
	}
	callersDone.Wait()
	if stored.Load() != 1 {
		t.Fatalf("%d of %d puts succeeded", stored.Load(), callers)
	}
	expect(t, s, "a/b", content(int(winner.Load())))
	expectNames(t, s, "", "a/b")
}

func failingContent(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	failure := errors.New("read error")
	half := content(200 << 10)
	for name, in := range map[string]io.Reader{
		"fails at once":   iotest.ErrReader(failure),
		"fails half-way":  io.MultiReader(bytes.NewReader(half), iotest.ErrReader(failure)),
		"ends early":      bytes.NewReader(half),
		"ends at once":    bytes.NewReader(nil),
		"slow and failed": iotest.OneByteReader(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(failure))),
	} {
		err := s.Put(testkit.Context(t), "a/b", in, 400<<10)
		if want := strings.HasPrefix(name, "ends"); want != errors.Is(err, io.ErrUnexpectedEOF) || want == errors.Is(err, failure) {
			t.Errorf("content that %s: %v", name, err)
		}
		expectNames(t, s, "")
	}
	for _, size := range []int64{0, -1} {
		if err := s.Put(testkit.Context(t), "a/b", bytes.NewReader(half), size); err == nil {
			t.Errorf("size %d was accepted", size)
		}
	}
	long := io.MultiReader(bytes.NewReader(half), iotest.ErrReader(failure)) // it is read up to the size
	if err := s.Put(testkit.Context(t), "a/b", long, int64(len(half))); err != nil {
		t.Error(err)
	}
	expect(t, s, "a/b", half)
}

func canceled(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	put(t, s, "a/b", []byte("x"))
	ctx, cancel := context.WithCancel(testkit.Context(t))
	cancel()
	if err := s.Put(ctx, "a/c", strings.NewReader("x"), 1); err == nil {
		t.Error("put")
	}
	failed := false
	for _, err := range s.List(ctx, "") {
		failed = err != nil
	}
	if !failed {
		t.Error("list")
	}
	expectNames(t, s, "", "a/b")
}

func list(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	expectNames(t, s, "")
	expectNames(t, s, "a/")
	all := []string{"a/1", "a/10", "a/2/x", "a/2/y", "a-b/1", "a.b/1", "b/c/d/e", "c"}
	slices.Sort(all)
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(all)) {
		put(t, s, all[i], []byte(all[i]))
	}
	for _, prefix := range []string{"", "a", "a/", "a/1", "a/2/", "a-", "b/c", "c", "d", "a/2/x", "a/2/x/"} {
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		expectNames(t, s, prefix, want...)
	}
	n := 0
	for _, err := range s.List(testkit.Context(t), "") { // a caller may stop
		if n++; n == 2 || err != nil {
			break
		}
	}
}

// manyEntries has more entries than a server returns at once.
func manyEntries(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	const n = 1100
	var want []string
	work := make(chan string)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for name := range work {
				if err := s.Put(testkit.Context(t), name, strings.NewReader(name), int64(len(name))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		want = append(want, fmt.Sprintf("a/%04d", i))
		work <- want[i]
	}
	close(work)
	workers.Wait()
	expectNames(t, s, "a/", want...)
}

func deleting(t *testing.T, s archive.Store, again func() archive.Store) {
	t.Helper()
	put(t, s, "a/b", content(300<<10))
	put(t, s, "a/c", []byte("stays"))
	for range 2 {
		if err := s.Delete(testkit.Context(t), "a/b"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"a/none", "none/none", "a"} {
		if err := s.Delete(testkit.Context(t), name); err != nil {
			t.Errorf("entry %s: %v", name, err)
		}
	}
	if _, err := read(testkit.Context(t), s, "a/b", 0, 1); !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("a deleted entry: %v", err)
	}
	expectNames(t, again(), "", "a/c")
	put(t, s, "a/b", []byte("put again"))
	expect(t, again(), "a/b", []byte("put again"))
	expect(t, s, "a/c", []byte("stays"))
}

func names(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	for _, name := range []string{"", "/", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".a", "a b", "A", "a\\b", "a\x00", "ä", "a/*", strings.Repeat("a", archive.MaxName+1)} {
		if err := s.Put(testkit.Context(t), name, strings.NewReader("x"), 1); err == nil {
			t.Errorf("put %q was accepted", name)
		}
		if _, err := s.Open(testkit.Context(t), name, 0, 1); err == nil {
			t.Errorf("open %q was accepted", name)
		}
		if err := s.Delete(testkit.Context(t), name); err == nil {
			t.Errorf("delete %q was accepted", name)
		}
	}
	expectNames(t, s, "")
	longest := strings.Repeat("a/", archive.MaxName/2-1) + "bc"
	put(t, s, longest, []byte("x"))
	expectNames(t, s, "a", longest)
}

// segments requires that a segment is read from the store by ranges.
func segments(t *testing.T, s archive.Store, _ func() archive.Store) {
	t.Helper()
	log := segmenttest.New(50)
	b, info := segmenttest.Write(t, log.Messages, 5)
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}.String()
	put(t, s, name, b)
	for _, e := range entries(t, s, archive.RealmPrefix(info.RealmID)) {
		r, err := archive.OpenSegment(testkit.Context(t), s, e)
		must.Succeed(t, err)
		if r.Info() != info {
			t.Errorf("%+v, want %+v", r.Info(), info)
		}
		n := 0
		for c, err := range r.Commits(20) {
			must.Succeed(t, err)
			if want := log.Messages[c.Sequence-1]; !bytes.Equal(c.Message, want.Data) {
				t.Errorf("commit %d differs", c.Sequence)
			}
			n++
		}
		if n != 31 {
			t.Errorf("%d commits", n)
		}
	}
}
