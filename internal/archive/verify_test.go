package archive_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
)

func newStore(t *testing.T) archive.Store {
	t.Helper()
	s, err := dirstore.Create(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put puts a segment with the commits from first to last of a log. damage may change it.
func put(t *testing.T, s archive.Store, log *segmenttest.Log, first, last int, damage func([]byte)) string {
	t.Helper()
	b, info := segmenttest.Write(t, log.Messages[first-1:last], 3)
	if damage != nil {
		damage(b)
	}
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: uint64(first), Last: uint64(last)}.String()
	if err := s.Put(t.Context(), name, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	return name
}

func list(t *testing.T, s archive.Store) (entries []archive.Entry) {
	t.Helper()
	for e, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

func size(entries []archive.Entry) (n int64) {
	for _, e := range entries {
		n += e.Size
	}
	return n
}

func TestVerify(t *testing.T) {
	t.Parallel()
	log, fork, lossy := segmenttest.New(30), segmenttest.New(9), segmenttest.New(10)
	lossy.Lose(1 << 24) // its revisions leap behind commit 10
	lossy.Add(1, "after the loss")
	lossy.Add(2, "and more")
	for range 21 {
		fork.Add(1, "another history")
	}
	flip := func(b []byte) { b[len(b)/2] ^= 1 }
	type part struct {
		log         *segmenttest.Log
		first, last int
		damage      func([]byte)
	}
	for name, tc := range map[string]struct {
		parts []part
		last  uint64
		want  []string // of the problems
	}{
		"whole":         {[]part{{log, 1, 10, nil}, {log, 11, 20, nil}, {log, 21, 30, nil}}, 30, nil},
		"begins later":  {[]part{{log, 11, 20, nil}, {log, 21, 30, nil}}, 30, nil},
		"overlap":       {[]part{{log, 1, 15, nil}, {log, 5, 12, nil}, {log, 10, 30, nil}}, 30, nil},
		"gap":           {[]part{{log, 1, 10, nil}, {log, 13, 30, nil}}, 30, []string{"commits 11 to 12 before it"}},
		"damaged":       {[]part{{log, 1, 10, nil}, {log, 11, 20, flip}, {log, 21, 30, nil}}, 30, []string{"damaged segment: byte", "to 20 before it"}},
		"damaged twice": {[]part{{log, 1, 20, nil}, {log, 11, 20, flip}, {log, 21, 30, nil}}, 30, []string{"damaged segment: byte"}},
		"fork":          {[]part{{log, 1, 12, nil}, {fork, 13, 30, nil}}, 30, []string{"commit 12 has checksum"}},
		"forked within": {[]part{{log, 1, 12, nil}, {fork, 5, 20, nil}}, 20, []string{"commit 12 has checksum"}},
		"accepted loss": {[]part{{lossy, 1, 10, nil}, {lossy, 11, 12, nil}, {lossy, 5, 12, nil}}, 12, nil},
		"newer":         {[]part{{log, 1, 10, func(b []byte) { b[8], b[20] = 2, b[20]^1 }}, {log, 11, 20, nil}}, 20, []string{"format version 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			for _, p := range tc.parts {
				put(t, s, p.log, p.first, p.last, p.damage)
			}
			if err := s.Put(t.Context(), "others/1", strings.NewReader("x"), 1); err != nil {
				t.Fatal(err)
			}
			var read int64
			reports, err := archive.Verify(t.Context(), s, list(t, s), nil, func(n int64) { read += n })
			if err != nil || len(reports) != 1 {
				t.Fatalf("%+v, %v", reports, err)
			}
			r := reports[0]
			if r.Realm != segmenttest.Realm || r.Segments != len(tc.parts) || r.Last.Sequence != tc.last || r.Size != size(list(t, s))-1 {
				t.Errorf("%+v", r)
			}
			var problems []string
			for _, p := range r.Problems {
				problems = append(problems, p.Err.Error())
			}
			if !slices.EqualFunc(problems, tc.want, strings.Contains) {
				t.Errorf("problems %q, want %q", problems, tc.want)
			}
			if tc.want == nil && read != r.Size {
				t.Errorf("progress was reported for %d bytes of %d", read, r.Size)
			}
		})
	}
}

// An entry that has another name than its content is reported.
func TestVerifyNames(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b, info := segmenttest.Write(t, segmenttest.New(5).Messages, 0)
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: 1, Last: 6}
	if err := s.Put(t.Context(), name.String(), bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	reports, err := archive.Verify(t.Context(), s, list(t, s), nil, func(int64) {})
	if err != nil || len(reports) != 1 || len(reports[0].Problems) != 1 || !strings.Contains(reports[0].Problems[0].Err.Error(), "its content is that of entry") {
		t.Errorf("%+v, %v", reports, err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	src, dst := newStore(t), newStore(t)
	log := segmenttest.New(30)
	put(t, src, log, 1, 10, nil)
	put(t, src, log, 11, 20, nil)
	put(t, dst, log, 11, 20, nil)
	if err := src.Put(t.Context(), "others/1", strings.NewReader("of a later version"), 18); err != nil {
		t.Fatal(err)
	}
	var read int64
	progress := func(n int64) { read += n }
	entries := list(t, src)
	done, err := archive.Copy(t.Context(), dst, src, entries, nil, progress)
	if err != nil || done.Copied != 2 || done.Present != 1 || read != size(entries) {
		t.Errorf("%+v, %v; progress was reported for %d bytes of %d", done, err, read, size(entries))
	}
	if !slices.Equal(list(t, dst), entries) {
		t.Errorf("entries %v, want %v", list(t, dst), entries)
	}
	if done, err := archive.Copy(t.Context(), dst, src, entries, nil, progress); err != nil || done.Copied != 0 || done.Present != 3 {
		t.Errorf("the second time: %+v, %v", done, err)
	}
}

// A damaged segment is not copied, whichever byte it is.
func TestCopyDamaged(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(10)
	for _, at := range []int{0, 100, -1} {
		src, dst := newStore(t), newStore(t)
		put(t, src, log, 1, 10, func(b []byte) { b[(at+len(b))%len(b)] ^= 1 })
		var damaged *segment.DamagedError
		if _, err := archive.Copy(t.Context(), dst, src, list(t, src), nil, func(int64) {}); !errors.As(err, &damaged) {
			t.Errorf("byte %d: %v", at, err)
		}
		if copies := list(t, dst); len(copies) > 0 {
			t.Errorf("byte %d: %v", at, copies)
		}
	}
}

// An entry of another size is an error: entries of one name are equal.
func TestCopyConflict(t *testing.T) {
	t.Parallel()
	src, dst := newStore(t), newStore(t)
	name := put(t, src, segmenttest.New(10), 1, 10, nil)
	if err := dst.Put(t.Context(), name, strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Copy(t.Context(), dst, src, list(t, src), nil, func(int64) {}); err == nil || !strings.Contains(err.Error(), "verify both archives") {
		t.Error(err)
	}
}
