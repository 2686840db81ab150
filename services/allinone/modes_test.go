//go:build unix

package allinone_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/allinone"
)

// Only its owner may read the data of `coppice up`.
func TestDataIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := stack.Start(t, allinone.Config{Dir: dir})
	s.Create(configMaps, "shop", named("a"))
	s.Stop() // flushes the state, so that tables are there too
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := datadir.FileMode
		if e.IsDir() {
			want = datadir.DirMode
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
		return nil
	})
	must.Succeed(t, err)
	if files < 5 {
		t.Errorf("the data has %d files; want those of a log and of a state", files)
	}
}
