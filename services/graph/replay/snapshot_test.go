package replay

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// written returns the snapshot of a state. It requires that the hash in the file is that of
// the state.
func written(t must.T, s *state.State) ([]byte, snapshot.Info) {
	snap := s.Snapshot()
	defer snap.Close()
	var b bytes.Buffer
	info, err := snapshot.Write(context.Background(), &b, snap, snapshot.WriteOptions{})
	must.Succeed(t, err)
	hash, err := snap.ContentHash(nil)
	if err != nil || hash != info.Hash {
		t.Fatal("the content hash is not that of the snapshot: ", err)
	}
	return b.Bytes(), info
}

// States of the same commit have equal snapshots, byte for byte, however they were built: by
// one fold, by a fold with elision, by a fold in two processes with a compaction in between,
// or from a snapshot of an earlier commit. A state that was loaded equals the fold key by key.
//
// S11: the state does not depend on how the log is folded.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCommits(t)
		ctx := context.Background()
		until := rapid.Uint64Range(c.at[0], c.last()).Draw(t, "until")
		middle := rapid.Uint64Range(c.at[0], until).Draw(t, "middle")

		plain := NewFolder(emptyState(t, vfs.NewMem()), 1, realmKeys)
		defer plain.state.Close()
		must.Succeed(t, plain.FoldTo(ctx, c, until))
		want, info := written(t, plain.state)

		c.applied = rapid.SliceOfN(rapid.Bool(), len(c.all), len(c.all)).Draw(t, "applied")
		f := NewFolder(emptyState(t, vfs.NewMem()), 1, realmKeys)
		defer f.state.Close()
		must.Succeed(t, f.FoldFromEmpty(ctx, c, until))
		if got, _ := written(t, f.state); !bytes.Equal(got, want) {
			t.Fatal("elision shows in the snapshot")
		}

		fs := vfs.NewMem()
		f = NewFolder(emptyState(t, fs), 1, realmKeys)
		must.Succeed(t, f.FoldTo(ctx, c, middle))
		early, at := written(t, f.state)
		must.Succeed(t, errors.Join(f.state.Sync(), f.state.Close()))
		f = NewFolder(emptyState(t, fs), 1, realmKeys)
		defer f.state.Close()
		if again, _ := written(t, f.state); !bytes.Equal(again, early) {
			t.Fatal("the restart shows in the snapshot")
		}
		must.Succeed(t, f.FoldTo(ctx, c, until))
		if got, _ := written(t, f.state); !bytes.Equal(got, want) {
			t.Fatal("the restart shows in the later snapshot")
		}

		fs = vfs.NewMem()
		loaded, err := snapshot.Build(ctx, bytes.NewReader(early), "state", snapshot.Stream{RealmID: at.Checkpoint.GetRealmId(), Created: 1},
			state.Config{FS: fs, MemTableSize: 1 << 20, CacheSize: 1 << 20})
		must.Succeed(t, err)
		if loaded.Hash != at.Hash || loaded.Size != int64(len(early)) || loaded.Content != at.Content {
			t.Fatalf("loaded %+v, wrote %+v", loaded, at)
		}
		f = NewFolder(emptyState(t, fs), 1, realmKeys)
		defer f.state.Close()
		must.Succeed(t, f.FoldTo(ctx, c, until))
		if got, i := written(t, f.state); !bytes.Equal(got, want) || i.Hash != info.Hash {
			t.Fatal("the start from a snapshot shows in the later snapshot")
		}
		same(t, plain.state, f.state)
		if p := f.state.Checkpoint().GetPosition(); p != plain.state.Checkpoint().GetPosition() {
			t.Fatalf("position %d", p)
		}
	})
}

// same requires that two states are equal, with what belongs to their streams.
func same(t *rapid.T, one, other *state.State) {
	a, b := one.Snapshot(), other.Snapshot()
	defer a.Close()
	defer b.Close()
	if d, err := state.Diff(a, b); d != nil || err != nil {
		t.Fatalf("the states differ: %v, %v", d, err)
	}
}

// The content does not depend on the stream: neither on the time of its creation nor on other
// messages in it. It does depend on each commit.
func TestContentIsIndependentOfTheStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCommits(t)
		ctx := context.Background()
		folded := func(created int64, log Source, until uint64) snapshot.Info {
			f := NewFolder(emptyState(t, vfs.NewMem()), created, realmKeys)
			defer f.state.Close()
			must.Succeed(t, f.FoldTo(ctx, log, until))
			_, info := written(t, f.state)
			return info
		}
		whole := folded(1, c, c.last())
		if other := folded(2, c, c.last()); other.Hash != whole.Hash {
			t.Fatal("the time at which the stream was created is in the content")
		}
		if len(c.at) > 1 {
			if earlier := folded(1, c, c.at[len(c.at)-2]); earlier.Hash == whole.Hash {
				t.Fatal("another commit has the same hash")
			}
		}
		if whole.Checkpoint.GetStreamCreated() != 0 {
			t.Fatal("the snapshot names the stream")
		}
		alone := &commits{} // in a stream without other messages
		for i, at := range c.at {
			m := eventlog.Message{Position: at, Data: c.all[at-1]}
			commit, err := m.Open(new([]byte))
			must.Succeed(t, err)
			message, err := realmKeys.Seal(commit, uint64(i+1))
			must.Succeed(t, err)
			alone.all = append(alone.all, slices.Clone(message))
		}
		if other := folded(1, alone, alone.last()); other.Hash != whole.Hash {
			t.Fatal("positions in the stream are in the content")
		}
	})
}
