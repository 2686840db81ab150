package archivestate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/state"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// setup is an archive in a directory. Its log is what Load has reported.
type setup struct {
	*archivestate.Archive
	t    *testing.T
	root string
	log  bytes.Buffer
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	s := &setup{t: t, root: t.TempDir()}
	store, err := dirstore.Open(s.root)
	must.Succeed(t, err)
	s.Archive = &archivestate.Archive{Store: store, Realm: segmenttest.Realm, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	return s
}

var config = state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20}

// snapshot stores a snapshot of a state without objects after a commit.
func (s *setup) snapshot(sequence uint64) (name string) {
	s.t.Helper()
	st, err := state.Open(s.t.TempDir(), config)
	must.Succeed(s.t, err)
	defer st.Close()
	tx := st.Begin()
	tx.EndCommit(state.Commit{Sequence: sequence, Position: sequence, Epoch: 1, Time: 1, Checksum: sequence, RealmID: s.Realm[:]})
	if _, err := tx.Apply(); err != nil {
		s.t.Fatal(err)
	}
	snap := st.Snapshot()
	defer snap.Close()
	if _, err := archivestate.PutSnapshot(s.t.Context(), s.Store, snap, "", "test", time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return archive.SnapshotName(s.Realm, sequence).String()
}

// damage changes a byte in the middle of an entry.
func (s *setup) damage(name string) {
	s.t.Helper()
	file := filepath.Join(s.root, filepath.FromSlash(name))
	b, err := os.ReadFile(file)
	if err == nil {
		b[len(b)/2] ^= 1
		err = errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, b, 0o600))
	}
	must.Succeed(s.t, err)
}

// newer changes a snapshot into one of the next layout.
func (s *setup) newer(name string) {
	s.t.Helper()
	file := filepath.Join(s.root, filepath.FromSlash(name))
	b, err := os.ReadFile(file)
	if err == nil {
		const layout, crc = 8 + 4, 8 + 4 + state.ManifestSize
		binary.LittleEndian.PutUint32(b[layout:], state.Schema+1)
		binary.LittleEndian.PutUint32(b[crc:], crc32.ChecksumIEEE(b[:crc]))
		err = errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, b, 0o600))
	}
	must.Succeed(s.t, err)
}

// Load takes the newest verified snapshot that is not after the wanted commit, and passes over
// those that cannot be used, with a line that names each. Without one, it leaves no directory.
func TestLoad(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	var dir string // of the last call
	load := func(last uint64) (uint64, error) {
		dir = filepath.Join(t.TempDir(), "state")
		info, err := s.Load(t.Context(), dir, 5, last, config)
		if _, none := os.Stat(dir); err != nil && !errors.Is(none, os.ErrNotExist) {
			t.Errorf("after %v the directory has %v", err, none)
		}
		return info.Checkpoint.GetSequence(), err
	}
	if _, err := load(math.MaxUint64); !errors.Is(err, archivestate.ErrNoSnapshot) {
		t.Errorf("an empty archive: %v", err)
	}
	names := map[uint64]string{}
	for _, at := range []uint64{10, 20, 30, 40} {
		names[at] = s.snapshot(at)
	}
	unverified := archive.VerifiedName(s.Realm, 40).String()
	must.Succeed(t, s.Store.Delete(t.Context(), unverified))
	for last, want := range map[uint64]uint64{math.MaxUint64: 30, 30: 30, 29: 20, 10: 10} {
		if got, err := load(last); got != want || err != nil {
			t.Errorf("up to commit %d: snapshot %d, %v; want %d", last, got, err, want)
		}
	}
	// A snapshot of other content than its record names is passed over, as a damaged record is.
	v, err := archive.ReadVerification(t.Context(), s.Store, s.Realm, 30)
	must.Succeed(t, err)
	record := archive.VerifiedName(s.Realm, 30).String()
	other := v
	other.Hash[0] ^= 1
	replace := func(v archive.Verification) {
		t.Helper()
		must.Succeed(t, errors.Join(s.Store.Delete(t.Context(), record), archive.PutVerification(t.Context(), s.Store, s.Realm, v)))
	}
	replace(other)
	if got, err := load(math.MaxUint64); got != 20 || err != nil || !strings.Contains(s.log.String(), "is expected") {
		t.Errorf("with the record of another snapshot: %d, %v; logged %s", got, err, s.log.String())
	}
	s.damage(record)
	if got, err := load(math.MaxUint64); got != 20 || err != nil || !strings.Contains(s.log.String(), "its checksum is wrong") {
		t.Errorf("with a damaged record: %d, %v; logged %s", got, err, s.log.String())
	}
	replace(v)
	if got, err := load(math.MaxUint64); got != 30 || err != nil {
		t.Errorf("with the record again: %d, %v", got, err)
	}
	// So is one that alone the store cannot read, or its record.
	whole := s.Store
	for _, unreadable := range []string{names[30], record} {
		s.Store = &archivetest.Hooked{Store: whole, Before: archivetest.Unreadable(unreadable)}
		if got, err := load(math.MaxUint64); got != 20 || err != nil || !strings.Contains(s.log.String(), unreadable+": input/output error") {
			t.Errorf("without %s: %d, %v; logged %s", unreadable, got, err, s.log.String())
		}
	}
	// If the store gives no other one, there may be some.
	s.Store = &archivetest.Hooked{Store: whole, Before: archivetest.Unreadable(names[10], names[20], names[30])}
	for _, last := range []uint64{math.MaxUint64, 10} {
		if _, err := load(last); !errors.Is(err, syscall.EIO) || errors.Is(err, archivestate.ErrNoSnapshot) {
			t.Errorf("up to commit %d of a disk that fails: %v", last, err)
		}
	}
	s.Store = whole
	s.damage(names[30])
	if got, err := load(math.MaxUint64); got != 20 || err != nil || !strings.Contains(s.log.String(), names[30]) {
		t.Errorf("with a damaged snapshot: %d, %v; logged %s", got, err, s.log.String())
	}
	loaded := dir
	if _, err := load(9); !errors.Is(err, archivestate.ErrNoSnapshot) {
		t.Errorf("up to commit 9: %v", err)
	}
	// If all need another version of Coppice, the error says so.
	only := s.snapshot(5)
	s.newer(only)
	if _, err := load(9); !errors.Is(err, archivestate.ErrNoSnapshot) || !strings.Contains(err.Error(), fmt.Sprintf(
		"%s: the snapshot has version %d of the layout, and this program reads versions 6 to %d: use the version of Coppice that wrote it, or a later one", only, state.Schema+1, state.Schema)) {
		t.Errorf("with a snapshot of a newer layout: %v", err)
	}
	foreign := *s.Archive
	foreign.Realm[0] ^= 1
	if _, err := foreign.Load(t.Context(), dir, 5, math.MaxUint64, config); !errors.Is(err, archivestate.ErrNoSnapshot) {
		t.Errorf("another realm: %v", err)
	}
	st, err := state.Open(loaded, config)
	must.Succeed(t, err)
	defer st.Close()
	if cp := st.Checkpoint(); cp.GetSequence() != 20 || cp.GetStreamCreated() != 5 {
		t.Errorf("the state is at %v", cp)
	}
}

// A snapshot whose read ends early is read again. It is not passed over. If the store goes on to end reads, the one before
// is not read either, and that is the error.
func TestReadsThatEndEarly(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.snapshot(10)
	s.snapshot(20)
	load := func(times int64) (uint64, error) {
		a := *s.Archive
		a.Store = archive.Limit(&archivetest.Ending{Store: s.Store, Err: io.EOF, Times: times}, testkit.Timeout)
		info, err := a.Load(t.Context(), filepath.Join(t.TempDir(), "state"), 5, math.MaxUint64, config)
		return info.Checkpoint.GetSequence(), err
	}
	if got, err := load(3); got != 20 || err != nil {
		t.Errorf("a store that ends some reads: %d, %v", got, err)
	}
	if s.log.Len() > 0 {
		t.Errorf("logged %s", s.log.String())
	}
	if got, err := load(math.MaxInt64); err == nil || errors.Is(err, archivestate.ErrNoSnapshot) || !strings.Contains(err.Error(), "the store ended the read") {
		t.Errorf("a store that ends all reads: %d, %v", got, err)
	}
}
