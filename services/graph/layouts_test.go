package graph_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// inLayout returns a snapshot of a state in another layout: see docs/formats.md. The state has no rows which
// that does not have but those of kinds, and its content fits into one chunk.
func inLayout(tb testing.TB, dir string, layout uint32) []byte {
	tb.Helper()
	snap, closeState := openState(tb, dir)
	defer closeState()
	little := binary.LittleEndian
	sum := func(b []byte) []byte { return little.AppendUint32(b, crc32.ChecksumIEEE(b)) }
	numbers := func(b []byte, numbers ...uint32) []byte {
		for _, n := range numbers {
			b = little.AppendUint32(b, n)
		}
		return b
	}
	cp := snap.Checkpoint()
	manifest := state.AppendManifest(nil, cp)
	little.PutUint32(manifest, layout)
	out := sum(append(numbers([]byte("\x89CSNP\r\n\x1a"), snapshot.Version), manifest...))
	header := crc32.ChecksumIEEE(out)
	// chunk appends a chunk of a section with rows that are not compressed.
	chunks := uint64(0)
	chunk := func(section, count uint32, rows []byte) {
		if count == 0 {
			return
		}
		chunks++
		size := uint32(len(rows))
		out = append(append(out, sum(numbers([]byte("CROW"), section, 0, size, size, count, crc32.ChecksumIEEE(rows)))...), rows...)
	}
	var rows, tables []byte
	var count, positions uint32
	counts := map[byte]uint64{}
	must.Succeed(tb, snap.EachRow(func(key, value []byte) error {
		if key[0] == 'k' && layout < 8 {
			return nil
		}
		if counts[key[0]]++; counts[key[0]] == 1 {
			tables = append(tables, key[0])
		}
		count++
		rows = state.AppendRow(rows, key, value)
		return nil
	}))
	hash := sha256.Sum256(append(manifest, rows...))
	chunk(0, count, rows)
	rows = nil
	must.Succeed(tb, snap.EachPosition(func(key, value []byte) error {
		positions++
		rows = state.AppendRow(rows, key, value)
		return nil
	}))
	chunk(1, positions, rows)
	footer := numbers([]byte("CEND"), uint32(len(tables)))
	for _, table := range tables {
		footer = little.AppendUint64(numbers(footer, uint32(table)), counts[table])
	}
	for _, n := range []uint64{chunks, cp.GetPosition(), uint64(positions)} {
		footer = little.AppendUint64(footer, n)
	}
	return append(out, sum(numbers(append(footer, hash[:]...), header))...)
}

// puts stores a snapshot of a commit, and the record of its verification.
func (a *archived) puts(file []byte, cp *coppicev1.Checkpoint, hash [32]byte) {
	a.Helper()
	ctx, id := a.Ctx, [16]byte(cp.GetRealmId())
	must.Succeed(a, errors.Join(
		a.store.Put(ctx, archive.SnapshotName(id, cp.GetSequence()).String(), bytes.NewReader(file), int64(len(file))),
		archive.PutVerification(ctx, a.store, id, archive.Verification{
			Sequence: cp.GetSequence(), Position: cp.GetPosition(), Revision: cp.GetRevision(), Checksum: cp.GetChecksum(), Hash: hash, By: "test", At: time.Now(),
		}),
	))
}

// If only a newer version of Coppice can read the snapshots of a log that was cut, the start is refused, and says so.
func TestStartFromNewerLayout(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	cp := checkpoint(t, a.dir)
	a.puts(inLayout(t, filepath.Join(a.dir, realm), state.Schema+1), cp, [32]byte{1})
	a.creates("three")
	last, _, err := a.log().Last(testkit.Context(t))
	must.Succeed(t, err)
	a.truncate(last - cp.GetPosition())
	err = a.serve(t.TempDir(), func(c *graph.Config) { c.Archive = a.store }).Wait()
	var cut *replay.CutError
	if !errors.As(err, &cut) || !strings.Contains(err.Error(), "use the version of Coppice that wrote it, or a later one") {
		t.Errorf("got %v", err)
	}
}

// After an upgrade the archiver verifies the next snapshot, in the layout of this version, from the last one of the
// version before, whose layout is an earlier one.
func TestArchiverAfterUpgrade(t *testing.T) {
	t.Parallel()
	for layout := uint32(state.OldestSchema); layout < state.Schema; layout++ {
		t.Run(fmt.Sprint(layout), func(t *testing.T) {
			t.Parallel()
			a := newArchived(t)
			a.creates("one", "two")
			a.segments()
			old := inLayout(t, filepath.Join(a.dir, realm), layout)
			info, err := snapshot.Verify(a.Ctx, bytes.NewReader(old))
			must.Succeed(t, err)
			cp := info.Checkpoint
			id := [16]byte(cp.GetRealmId())
			a.puts(old, cp, info.Hash)
			registry := prometheus.NewRegistry()
			var out testkit.Output
			s := a.archiving(a.dir, a.store, registry, &out)
			a.verified(id, cp.GetRevision(), "three")
			s.Stop()
			archives(t, &out, registry)
			records := a.entries(archive.Verified)
			next, _ := archive.ParseName(records[1])
			v, err := archive.ReadVerification(a.Ctx, a.store, id, next.Last)
			if err != nil || v.From != cp.GetSequence() {
				t.Errorf("the next snapshot was verified as %+v, %v; want from %d", v, err, cp.GetSequence())
			}
			const at = 8 + 4 // of the layout in the file
			in, err := a.store.Open(a.Ctx, archive.SnapshotName(id, next.Last).String(), at, 4)
			must.Succeed(t, err)
			defer in.Close()
			if b, err := io.ReadAll(in); err != nil || binary.LittleEndian.Uint32(b) != state.Schema {
				t.Errorf("the next snapshot has layout %v, %v", b, err)
			}
		})
	}
}
