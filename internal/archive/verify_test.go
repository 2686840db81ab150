package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func newStore(t *testing.T) archive.Store {
	t.Helper()
	s, err := dirstore.Create(filepath.Join(t.TempDir(), "archive"))
	must.Succeed(t, err)
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
	must.Succeed(t, s.Put(t.Context(), name, bytes.NewReader(b), int64(len(b))))
	return name
}

func list(t *testing.T, s archive.Store) (entries []archive.Entry) {
	t.Helper()
	for e, err := range s.List(t.Context(), "") {
		must.Succeed(t, err)
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
			must.Succeed(t, s.Put(t.Context(), "others/1", strings.NewReader("x"), 1))
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
	must.Succeed(t, s.Put(t.Context(), name.String(), bytes.NewReader(b), int64(len(b))))
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
	must.Succeed(t, src.Put(t.Context(), archive.RealmPrefix(segmenttest.Realm)+"others/1", strings.NewReader("of a later version"), 18))
	var read int64
	progress := func(n int64) { read += n }
	entries := list(t, src)
	for _, other := range []string{"coppice.secret", "graph/default/000001.sst", "c0/segment/1"} {
		must.Succeed(t, src.Put(t.Context(), other, strings.NewReader("no entry"), 8))
	}
	all := list(t, src)
	done, err := archive.Copy(t.Context(), dst, src, all, nil, progress)
	if err != nil || done.Copied != 2 || done.Present != 1 || done.Others != 3 || read != size(entries) {
		t.Errorf("%+v, %v; progress was reported for %d bytes of %d", done, err, read, size(entries))
	}
	if !slices.Equal(list(t, dst), entries) {
		t.Errorf("entries %v, want %v", list(t, dst), entries)
	}
	if done, err := archive.Copy(t.Context(), dst, src, entries, nil, progress); err != nil || done.Copied != 0 || done.Present != 3 {
		t.Errorf("the second time: %+v, %v", done, err)
	}
}

// A damaged segment is left out of a copy, whichever byte it is, and what follows it is copied.
func TestCopyDamaged(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(20)
	for _, at := range []int{0, 100, -1} {
		src, dst := newStore(t), newStore(t)
		name := put(t, src, log, 1, 10, func(b []byte) { b[(at+len(b))%len(b)] ^= 1 })
		follows := put(t, src, log, 11, 20, nil)
		done, err := archive.Copy(t.Context(), dst, src, list(t, src), nil, func(int64) {})
		if err != nil || done.Copied != 1 || len(done.Problems) != 1 {
			t.Fatalf("byte %d: %+v, %v", at, done, err)
		}
		var damaged *segment.DamagedError
		if p := done.Problems[0]; p.Name != name || p.Kind != archive.ProblemDamaged || !errors.As(p.Err, &damaged) {
			t.Errorf("byte %d: %+v", at, p)
		}
		if copies := list(t, dst); len(copies) != 1 || copies[0].Name != follows {
			t.Errorf("byte %d: %v", at, copies)
		}
	}
}

// The record of a snapshot that is left out, and a damaged record, are left out too.
func TestCopySnapshots(t *testing.T) {
	t.Parallel()
	src, dst := newStore(t), newStore(t)
	for sequence := range uint64(4) {
		name := archive.SnapshotName(segmenttest.Realm, sequence+1)
		if sequence < 3 {
			must.Succeed(t, src.Put(t.Context(), name.String(), strings.NewReader("content"), 7))
		}
		if sequence == 2 {
			must.Succeed(t, src.Put(t.Context(), archive.VerifiedName(segmenttest.Realm, 3).String(), strings.NewReader("damaged"), 7))
		} else if err := archive.PutVerification(t.Context(), src, segmenttest.Realm, archive.Verification{Sequence: sequence + 1}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(_ context.Context, in io.Reader, name archive.Name) (hash [32]byte, err error) {
		if name.Last == 1 {
			return hash, errors.New("damaged snapshot")
		}
		_, err = io.Copy(io.Discard, in)
		return hash, err
	}
	done, err := archive.Copy(t.Context(), dst, src, list(t, src), check, func(int64) {})
	if err != nil || done.Copied != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	problems := map[string]archive.Problem{}
	for _, p := range done.Problems {
		problems[p.Name] = p
	}
	for name, want := range map[archive.Name]struct {
		kind archive.ProblemKind
		text string
	}{
		archive.SnapshotName(segmenttest.Realm, 1): {archive.ProblemDamaged, "damaged snapshot"},
		archive.VerifiedName(segmenttest.Realm, 1): {archive.ProblemDamaged, "its snapshot was not copied: damaged snapshot"},
		archive.VerifiedName(segmenttest.Realm, 3): {archive.ProblemDamaged, "its checksum is wrong"},
		archive.VerifiedName(segmenttest.Realm, 4): {archive.ProblemGone, "of a snapshot that the archive does not have"},
	} {
		if got := problems[name.String()]; got.Kind != want.kind || !strings.Contains(fmt.Sprint(got.Err), want.text) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if len(problems) != 4 {
		t.Errorf("problems %v", problems)
	}
}

// unread returns a store that fails to read some entries.
func unread(s archive.Store, names ...string) archive.Store {
	return &archivetest.Hooked{Store: s, Reading: func(c archivetest.Call, in io.ReadCloser) io.ReadCloser {
		if slices.Contains(names, c.Name) {
			return &endsEarly{in}
		}
		return in
	}}
}

// endsEarly is the reader of an entry whose disk fails behind some bytes.
type endsEarly struct{ io.ReadCloser }

func (r *endsEarly) Read(b []byte) (int, error) {
	n, _ := r.ReadCloser.Read(b[:min(len(b), 10)])
	return n, errors.New("input/output error")
}

// An entry that the store cannot read is left out, and is not said to be damaged. A store that fails at many entries in
// a row, or at all of them, ends the work.
func TestUnread(t *testing.T) {
	t.Parallel()
	log, src := segmenttest.New(150), newStore(t)
	var names []string
	for first := 1; first < 150; first += 10 {
		names = append(names, put(t, src, log, first, first+9, nil))
	}
	for what, test := range map[string]struct {
		names  []string
		unread int
		fails  bool
	}{
		"one":                {names[1:2], 1, false},
		"nine":               {names[1:10], 9, false},
		"twelve, not a row":  {append(slices.Clone(names[:7]), names[8:13]...), 12, false},
		"ten in a row":       {names[1:11], 9, true},
		"every one":          {names, 9, true},
		"one, and no others": {names[14:], 1, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dst, s := newStore(t), unread(src, test.names...)
			done, err := archive.Copy(t.Context(), dst, s, list(t, src), nil, func(int64) {})
			reports, failed := archive.Verify(t.Context(), s, list(t, src), nil, func(int64) {})
			if (err != nil) != test.fails || (failed != nil) != test.fails || len(reports) != 1 {
				t.Fatalf("copy: %v; verify: %v", err, failed)
			}
			for how, problems := range map[string][]archive.Problem{"copy": done.Problems, "verify": reports[0].Problems} {
				n := 0
				for _, p := range problems {
					switch p.Kind {
					case archive.ProblemUnread:
						n++
					case archive.ProblemMissing:
					default:
						t.Errorf("%s: %+v", how, p)
					}
				}
				if n != test.unread {
					t.Errorf("%s: %v", how, problems)
				}
			}
			if !test.fails && (done.Copied != len(names)-test.unread || len(list(t, dst)) != done.Copied) {
				t.Errorf("%+v, %v", done, list(t, dst))
			}
		})
	}
	if _, err := archive.Copy(t.Context(), newStore(t), unread(src, names[0]), list(t, src)[:1], nil, func(int64) {}); err == nil {
		t.Error("the only entry was not read, and the copy succeeded")
	}
}

// The record of a snapshot that could not be read is not said to be damaged, and entries of which only the name counts
// are not read: an error at the one before them is not theirs.
func TestUnreadSnapshot(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, second := segmenttest.Realm, segmenttest.Realm
	first[0], second[0] = 1, 2
	snapshot, record := archive.SnapshotName(first, 7).String(), archive.VerifiedName(first, 7).String()
	damaged, pruned := archive.VerifiedName(first, 8).String(), archive.Name{Realm: second, Kind: archive.Pruned, First: 5, Last: 5}.String()
	for name, content := range map[string]string{snapshot: "content", damaged: "damaged", pruned: "{}", archive.SnapshotName(first, 8).String(): "content"} {
		must.Succeed(t, s.Put(t.Context(), name, strings.NewReader(content), int64(len(content))))
	}
	must.Succeed(t, archive.PutVerification(t.Context(), s, first, archive.Verification{Sequence: 7}))
	put(t, s, segmenttest.New(5), 1, 5, nil)
	check := func(_ context.Context, in io.Reader, _ archive.Name) (hash [32]byte, err error) {
		_, err = io.Copy(io.Discard, in)
		return hash, err
	}
	want := map[string]archive.ProblemKind{snapshot: archive.ProblemUnread, record: archive.ProblemUnread, damaged: archive.ProblemDamaged}
	for how, problems := range map[string]func(archive.Store, []archive.Entry) ([]archive.Problem, error){
		"verify": func(s archive.Store, entries []archive.Entry) (all []archive.Problem, err error) {
			reports, err := archive.Verify(t.Context(), s, entries, check, func(int64) {})
			for _, r := range reports {
				all = append(all, r.Problems...)
			}
			return all, err
		},
		"copy": func(s archive.Store, entries []archive.Entry) ([]archive.Problem, error) {
			done, err := archive.Copy(t.Context(), newStore(t), s, entries, check, func(int64) {})
			return done.Problems, err
		},
	} {
		found, err := problems(unread(s, snapshot), list(t, s))
		got := map[string]archive.ProblemKind{}
		for _, p := range found {
			got[p.Name] = p.Kind
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want kinds %v", how, found, err, want)
		}
	}
}

// Entries that are deleted since they were listed, that are of a newer version, or that are empty are distinguished from each other.
func TestProblems(t *testing.T) {
	t.Parallel()
	s, log := newStore(t), segmenttest.New(40)
	gone := put(t, s, log, 1, 10, nil)
	newer := put(t, s, log, 11, 20, func(b []byte) { b[8], b[20] = 2, b[20]^1 })
	put(t, s, log, 21, 30, nil)
	entries := list(t, s)
	must.Succeed(t, s.Delete(t.Context(), gone))
	empty := archive.Name{Realm: segmenttest.Realm, Kind: archive.Segment, First: 31, Last: 40}.String()
	want := map[string]archive.ProblemKind{gone: archive.ProblemGone, newer: archive.ProblemVersion, empty: archive.ProblemDamaged}
	entries = append(entries, archive.Entry{Name: empty})
	done, err := archive.Copy(t.Context(), newStore(t), s, entries, nil, func(int64) {})
	reports, failed := archive.Verify(t.Context(), s, entries, nil, func(int64) {})
	must.Succeed(t, errors.Join(err, failed))
	for how, problems := range map[string][]archive.Problem{"copy": done.Problems, "verify": reports[0].Problems} {
		got := map[string]archive.ProblemKind{}
		for _, p := range problems {
			got[p.Name] = p.Kind
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want kinds %v", how, problems, want)
		}
	}
}

// An entry of another size is left out and reported: entries of one name are equal.
func TestCopyConflict(t *testing.T) {
	t.Parallel()
	src, dst := newStore(t), newStore(t)
	log := segmenttest.New(20)
	name := put(t, src, log, 1, 10, nil)
	put(t, src, log, 11, 20, nil)
	must.Succeed(t, dst.Put(t.Context(), name, strings.NewReader("x"), 1))
	done, err := archive.Copy(t.Context(), dst, src, list(t, src), nil, func(int64) {})
	if err != nil || done.Copied != 1 || len(done.Problems) != 1 || done.Problems[0].Name != name || !strings.Contains(done.Problems[0].Err.Error(), "verify both archives") {
		t.Errorf("%+v, %v", done, err)
	}
}
