// Package formats_test reads recordings of every version of the formats of Coppice, for ever.
//
// testdata/<log format>/<name> has a recorded log (log.segment), a snapshot of the state that
// the version of Coppice at that time has folded it into (state.snapshot), and what both say (state.txt). They are
// never changed. To add one, record the log of a script of cmd/coppice, or of any realm:
//
//	go test ./cmd/coppice -run 'TestScripts/uses$' -record=/tmp/logs
//	go test ./test/formats -add=uses=/tmp/logs/uses.segment
package formats_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/recording"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var add = flag.String("add", "", "NAME=FILE: add the recorded log in FILE to testdata, under a name that no recording has")

// The files of a recording.
const (
	logFile      = "log.segment"
	snapshotFile = "state.snapshot"
	textFile     = "state.txt"
)

var config = state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20}

// recordings returns the directories of all recordings.
func recordings(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/*/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	return dirs
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	must.Succeed(t, err)
	return b
}

// fold folds a recorded log into a state: with replay elision, and commit by commit. Both must be the same.
func fold(t *testing.T, file string) (s *state.State, hash [32]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "folded")
	folded, err := recording.Fold(t.Context(), file, dir, func(uint64, uint64) {})
	must.Succeed(t, err)
	b, err := os.ReadFile(file)
	must.Succeed(t, err)
	log, err := recording.Open(bytes.NewReader(b), int64(len(b)))
	must.Succeed(t, err)
	plain := openState(t, filepath.Join(t.TempDir(), "plain"))
	must.Succeed(t, replay.NewFolder(plain, 0, log.Keys()).FoldTo(t.Context(), log, folded.Last.Position))
	s = openState(t, filepath.Join(dir, "state"))
	hash = contentHash(t, s)
	if other := contentHash(t, plain); other != hash {
		t.Errorf("%s: with replay elision the content is %x, without it %x", file, hash, other)
	}
	return s, hash
}

func openState(t *testing.T, dir string) *state.State {
	t.Helper()
	s, err := state.Open(dir, config)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func contentHash(t *testing.T, s *state.State) [32]byte {
	t.Helper()
	snap := s.Snapshot().Until(t.Context())
	defer snap.Close()
	hash, err := snap.ContentHash(nil)
	must.Succeed(t, err)
	return hash
}

// text is what testdata says of a recording.
func text(log segment.Info, of snapshot.Info, layout uint32, state string) string {
	return fmt.Sprintf("log: segment version %d, %d commits, SHA-256 %x\nsnapshot: layout %d, SHA-256 %x\n%s", log.Version, log.Commits, log.Hash, layout, of.Hash, state)
}

// What an earlier version has recorded is read for ever: its log folds into the state that this version folded it
// into, and its snapshot loads as the same state.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for _, dir := range recordings(t) {
		t.Run(strings.TrimPrefix(filepath.ToSlash(dir), "testdata/"), func(t *testing.T) {
			t.Parallel()
			file := read(t, dir, logFile)
			info, err := segment.Verify(bytes.NewReader(file))
			must.Succeed(t, err)
			log := messages(t, file)
			s, hash := fold(t, filepath.Join(dir, logFile))
			stored := read(t, dir, snapshotFile)
			loaded, err := load(t.Context(), stored, filepath.Join(t.TempDir(), "loaded"))
			must.Succeed(t, err)
			of := openState(t, loaded.dir)
			if is := contentHash(t, of); is != hash {
				t.Errorf("the loaded snapshot has the content %x, and the folded log %x", is, hash)
			}
			if loaded.layout == state.Schema && loaded.info.Hash != hash {
				t.Errorf("the snapshot has the content %x, and the folded log %x", loaded.info.Hash, hash)
			}
			want := string(read(t, dir, textFile))
			for what, of := range map[string]*state.State{"the folded log": s, "the loaded snapshot": of} {
				if is := text(info, loaded.info, loaded.layout, describe(t, of, log)); is != want {
					t.Errorf("%s differs from %s: %s", what, textFile, firstDifference(is, want))
				}
			}
		})
	}
}

// firstDifference returns the first line that differs.
func firstDifference(is, want string) string {
	a, b := strings.Split(is, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) {
			return fmt.Sprintf("%d lines, want %d", len(a), len(b))
		}
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n%s\nwant\n%s", i+1, a[i], b[i])
		}
	}
	return "nothing"
}

// loaded is a snapshot that was loaded.
type loaded struct {
	dir    string
	info   snapshot.Info
	layout uint32
}

func load(ctx context.Context, stored []byte, dir string) (l loaded, err error) {
	l.dir = dir
	if len(stored) > 16 { // see docs/formats.md
		l.layout = binary.LittleEndian.Uint32(stored[12:])
	}
	l.info, err = snapshot.Build(ctx, bytes.NewReader(stored), dir, snapshot.Stream{}, config)
	return l, err
}

// TestAdd adds the recording of -add to testdata, and never changes one. Without -add it adds one of
// testdata to another directory.
func TestAdd(t *testing.T) {
	if *add != "" {
		name, file, ok := strings.Cut(*add, "=")
		if !ok {
			t.Fatalf("-add=%s: write NAME=FILE", *add)
		}
		addTo(t, filepath.Join("testdata", fmt.Sprint(commitcodec.Format), name), file)
		return
	}
	of := recordings(t)[0]
	dir := filepath.Join(t.TempDir(), "added")
	addTo(t, dir, filepath.Join(of, logFile))
	if !bytes.Equal(read(t, dir, logFile), read(t, of, logFile)) {
		t.Error("the recorded log was changed")
	}
	l, err := load(t.Context(), read(t, dir, snapshotFile), filepath.Join(t.TempDir(), "loaded"))
	must.Succeed(t, err)
	log := read(t, dir, logFile)
	info, err := segment.Verify(bytes.NewReader(log))
	must.Succeed(t, err)
	if is := text(info, l.info, l.layout, describe(t, openState(t, l.dir), messages(t, log))); is != string(read(t, dir, textFile)) {
		t.Errorf("%s differs from the snapshot: %s", textFile, firstDifference(string(read(t, dir, textFile)), is))
	}
}

// addTo writes a recording of the log in a file to a directory that does not exist.
func addTo(t *testing.T, dir, file string) {
	t.Helper()
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s exists, and recordings are never changed: choose another name", dir)
	}
	b, err := os.ReadFile(file)
	must.Succeed(t, err)
	info, err := segment.Verify(bytes.NewReader(b))
	must.Succeed(t, err)
	s, _ := fold(t, file)
	snap := s.Snapshot()
	defer snap.Close()
	var out bytes.Buffer
	of, err := snapshot.Write(t.Context(), &out, snap, snapshot.WriteOptions{})
	must.Succeed(t, err)
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	for name, content := range map[string][]byte{
		logFile: b, snapshotFile: out.Bytes(), textFile: []byte(text(info, of, state.Schema, describe(t, s, messages(t, b)))),
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}
