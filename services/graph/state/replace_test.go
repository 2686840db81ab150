package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Replace puts one state in the place of another. After a crash at any step the directory has one of the two,
// whole, and nothing is left of the other when it was opened.
func TestReplace(t *testing.T) {
	t.Parallel()
	config := state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20}
	put := func(dir string, sequence uint64) {
		t.Helper()
		s, err := state.Open(dir, config)
		must.Succeed(t, err)
		tx := s.Begin()
		tx.EndCommit(state.Commit{Sequence: sequence, Position: sequence, Epoch: 1, Time: 1})
		if _, err := tx.Apply(); err != nil {
			t.Fatal(err)
		}
		must.Succeed(t, errors.Join(s.Sync(), s.Close()))
	}
	const first, second = 1, 2
	for what, c := range map[string]struct {
		do   func(dir, by, aside string) error
		want uint64
		left int // directories
	}{
		"complete":          {func(dir, by, _ string) error { return state.Replace(dir, by) }, second, 1},
		"after one rename":  {func(dir, _, aside string) error { return os.Rename(dir, aside) }, first, 2},
		"after two renames": {func(dir, by, aside string) error { return errors.Join(os.Rename(dir, aside), os.Rename(by, dir)) }, second, 1},
		"repeated": {func(dir, by, aside string) error {
			return errors.Join(os.Rename(dir, aside), state.Replace(dir, by))
		}, second, 1},
		"without a state before": {func(dir, by, _ string) error { return errors.Join(os.RemoveAll(dir), state.Replace(dir, by)) }, second, 1},
	} {
		parent := t.TempDir()
		dir, by := filepath.Join(parent, "main"), filepath.Join(parent, ".built")
		put(dir, first)
		put(by, second)
		if err := c.do(dir, by, filepath.Join(parent, ".replaced-main")); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		s, err := state.Open(dir, config)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if got := s.Checkpoint().GetSequence(); got != c.want {
			t.Errorf("%s: the state is at commit %d, want %d", what, got, c.want)
		}
		if err := state.Replace(dir, by); !errors.Is(err, state.ErrLocked) {
			t.Errorf("%s: a state in use was replaced: %v", what, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != c.left {
			t.Errorf("%s: left %v, %v", what, left, err)
		}
	}
}
