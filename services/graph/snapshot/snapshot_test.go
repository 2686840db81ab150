package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// realm is a realm with n objects that have an owner.
func realm(tb testing.TB, n int) *statetest.Realm {
	tb.Helper()
	r := statetest.New(tb)
	r.Create("configmaps/owner", nil)
	for i := range n {
		r.Create(fmt.Sprintf("configmaps/c-%03d", i), &coppicev1.ObjectMeta{
			Annotations:     map[string]string{"text": strings.Repeat(string(rune('a'+i%26)), 500)},
			OwnerReferences: []*coppicev1.OwnerReference{r.Reference("configmaps/owner", true)},
		})
	}
	return r
}

func write(tb testing.TB, s *state.State) ([]byte, snapshot.Info) {
	tb.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	var b bytes.Buffer
	info, err := snapshot.Write(tb.Context(), &b, snap, snapshot.WriteOptions{})
	must.Succeed(tb, err)
	return b.Bytes(), info
}

// read reads a snapshot, and requires that it is refused.
func read(t *testing.T, what string, b []byte) error {
	t.Helper()
	_, err := snapshot.Verify(t.Context(), bytes.NewReader(b))
	if err == nil {
		t.Fatalf("%s: a damaged snapshot was accepted", what)
	}
	return err
}

// small is a snapshot, and the offsets at which its parts begin.
func small(tb testing.TB) (b []byte, parts []int64) {
	tb.Helper()
	b, _ = write(tb, realm(tb, 3).State)
	parts = []int64{0}
	for _, magic := range []string{"CROW", "CEND"} {
		at := bytes.Index(b, []byte(magic))
		if at < 0 {
			tb.Fatalf("no part %s", magic)
		}
		parts = append(parts, int64(at))
	}
	return b, parts
}

// Every changed byte is detected, and the error has the offset of the part that contains it.
func TestEveryByteFlipped(t *testing.T) {
	t.Parallel()
	good, parts := small(t)
	for at := range good {
		for _, flip := range []byte{0x01, 0x80} {
			b := slices.Clone(good)
			b[at] ^= flip
			err := read(t, fmt.Sprintf("byte %d", at), b)
			var damaged *snapshot.DamagedError
			if !errors.As(err, &damaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
			begin := int64(0)
			for _, p := range parts {
				if p <= int64(at) {
					begin = p
				}
			}
			if damaged.Offset != begin && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("byte %d: damaged at %d, want %d: %v", at, damaged.Offset, begin, err)
			}
			if at < 8 != errors.Is(err, snapshot.ErrForeign) {
				t.Errorf("byte %d: %v", at, err)
			}
		}
	}
}

// A snapshot that is cut anywhere, or continued, is refused at its end.
func TestEveryTruncation(t *testing.T) {
	t.Parallel()
	good, _ := small(t)
	for length := range good {
		err := read(t, fmt.Sprintf("length %d", length), good[:length])
		var damaged *snapshot.DamagedError
		if !errors.As(err, &damaged) || damaged.Offset != int64(length) {
			t.Errorf("length %d: %v", length, err)
		}
	}
	var damaged *snapshot.DamagedError
	if err := read(t, "continued", append(slices.Clone(good), 0)); !errors.As(err, &damaged) || damaged.Offset != int64(len(good)) {
		t.Errorf("continued: %v", err)
	}
}

// newer returns a snapshot whose header has another number at an offset, with a right checksum.
func newer(good []byte, offset int, v uint32) []byte {
	const header = 8 + 4 + state.ManifestSize
	b := slices.Clone(good)
	binary.LittleEndian.PutUint32(b[offset:], v)
	binary.LittleEndian.PutUint32(b[header:], crc32.ChecksumIEEE(b[:header]))
	return b
}

// Build builds the state of a good snapshot of the expected realm, and of no other file.
func TestBuildOfAGoodSnapshotOnly(t *testing.T) {
	t.Parallel()
	config := state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20}
	build := func(in io.Reader, s snapshot.Stream) (dir string, err error) {
		dir = filepath.Join(t.TempDir(), "main")
		_, err = snapshot.Build(t.Context(), in, dir, s, config)
		return dir, err
	}
	good, info := write(t, realm(t, 300).State)
	dir, err := build(bytes.NewReader(good), snapshot.Stream{RealmID: make([]byte, 16)})
	must.Succeed(t, err)
	s, err := state.Open(dir, config)
	must.Succeed(t, err)
	defer s.Close()
	if _, built := write(t, s); built.Hash != info.Hash {
		t.Error("the state is another one")
	}
	failure := errors.New("connection reset")
	var damaged *snapshot.DamagedError
	var version *snapshot.VersionError
	flipped := slices.Clone(good)
	flipped[len(good)/2] ^= 1
	for what, c := range map[string]struct {
		in    io.Reader
		realm []byte
		is    func(error) bool
	}{
		"another realm": {bytes.NewReader(good), bytes.Repeat([]byte{7}, 16), func(err error) bool { return errors.Is(err, snapshot.ErrForeign) }},
		"no snapshot":   {bytes.NewReader([]byte("apiVersion: v1\n")), nil, func(err error) bool { return errors.Is(err, snapshot.ErrForeign) }},
		"flipped":       {bytes.NewReader(flipped), nil, func(err error) bool { return errors.As(err, &damaged) }},
		"cut":           {bytes.NewReader(good[:len(good)-1]), nil, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"cut by the storage": {
			io.MultiReader(bytes.NewReader(good[:len(good)/2]), iotest.ErrReader(failure)), nil,
			func(err error) bool { return errors.Is(err, failure) && !errors.As(err, &damaged) },
		},
		"newer format": {bytes.NewReader(newer(good, 8, snapshot.Version+1)), nil, func(err error) bool { return errors.As(err, &version) }},
		"newer layout": {bytes.NewReader(newer(good, 12, state.Schema+1)), nil, func(err error) bool { return errors.As(err, &version) }},
	} {
		damaged, version = nil, nil
		if _, err := build(c.in, snapshot.Stream{RealmID: c.realm}); err == nil || !c.is(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The caller's pace is asked before each chunk is written, and its error ends the write.
func TestPace(t *testing.T) {
	t.Parallel()
	snap := realm(t, 10).Snapshot()
	defer snap.Close()
	var sum int
	refuse := error(nil)
	o := snapshot.WriteOptions{Pace: func(_ context.Context, n int) error {
		sum += n
		return refuse
	}}
	info, err := snapshot.Write(t.Context(), io.Discard, snap, o)
	if err != nil || int64(sum)+state.ManifestSize != info.Content {
		t.Fatalf("paced %d bytes of %d: %v", sum, info.Content, err)
	}
	refuse = errors.New("enough")
	if _, err := snapshot.Write(t.Context(), io.Discard, snap, o); !errors.Is(err, refuse) {
		t.Errorf("%v", err)
	}
}

// A content of several chunks is written and read.
func TestManyChunks(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	for i := range 40 {
		r.Create(fmt.Sprintf("configmaps/c-%03d", i), &coppicev1.ObjectMeta{Annotations: map[string]string{"text": strings.Repeat("x", 100_000)}})
	}
	b, wrote := write(t, r.State)
	if n := bytes.Count(b, []byte("CROW")); n < 3 {
		t.Fatalf("%d chunks", n)
	}
	read, err := snapshot.Verify(t.Context(), bytes.NewReader(b))
	if err != nil || read.Hash != wrote.Hash || read.Content != wrote.Content || !slices.Equal(read.Counts, wrote.Counts) {
		t.Errorf("read %+v, wrote %+v: %v", read, wrote, err)
	}
}
