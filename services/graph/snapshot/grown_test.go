package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A load calls Grown with the directory that it fills, and ends with its error.
func TestGrown(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	for i := range 100 {
		r.Create(fmt.Sprintf("configmaps/c-%03d", i), &coppicev1.ObjectMeta{Annotations: map[string]string{"text": strings.Repeat("a", 100_000)}})
	}
	b, _ := write(t, r.State)
	full, calls := errors.New("full"), 0
	load := func(most int) error {
		calls = 0
		dir := filepath.Join(t.TempDir(), "main")
		_, err := snapshot.Build(t.Context(), bytes.NewReader(b), dir, snapshot.Stream{Grown: func(loading string) error {
			if files, err := os.ReadDir(loading); loading != dir || err != nil || len(files) == 0 {
				t.Errorf("in %s are %v, %v", loading, files, err)
			}
			if calls++; calls > most {
				return full
			}
			return nil
		}}, state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20})
		return err
	}
	if err := load(1); !errors.Is(err, full) || calls != 2 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	if err := load(100); err != nil || calls != 2 {
		t.Errorf("10 MB are loaded with %d calls: %v", calls, err)
	}
}
