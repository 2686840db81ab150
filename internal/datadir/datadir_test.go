//go:build unix

package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func mode(t *testing.T, name string) os.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	must.Succeed(t, err)
	return info.Mode().Perm()
}

// Make leaves a directory of the user as it is; Own takes it from groups and others.
func TestModesOfDirectories(t *testing.T) {
	t.Parallel()
	shared := filepath.Join(t.TempDir(), "shared")
	must.Succeed(t, os.Mkdir(shared, 0o755))
	below := filepath.Join(shared, "a", "b")
	for _, dir := range []string{shared, below} {
		must.Succeed(t, datadir.Make(dir))
	}
	if got := mode(t, shared); got != 0o755 {
		t.Errorf("Make changed the mode of a directory to %v", got)
	}
	if got := mode(t, below); got != datadir.DirMode {
		t.Errorf("a new directory has mode %v", got)
	}
	must.Succeed(t, datadir.Own(shared))
	if got := mode(t, shared); got != datadir.DirMode {
		t.Errorf("an owned directory has mode %v", got)
	}
}

func TestModesOfFiles(t *testing.T) {
	t.Parallel()
	dir, fs := t.TempDir(), datadir.FS()
	name := func(s string) string { return filepath.Join(dir, s) }
	closing := func(c interface{ Close() error }, err error) {
		t.Helper()
		must.Succeed(t, err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	closing(fs.Create(name("created"), vfs.WriteCategoryUnspecified))
	closing(fs.OpenReadWrite(name("opened"), vfs.WriteCategoryUnspecified))
	closing(fs.Create(name("old"), vfs.WriteCategoryUnspecified))
	closing(fs.ReuseForWrite(name("old"), name("reused"), vfs.WriteCategoryUnspecified))
	closing(fs.Lock(name("lock")))
	for _, s := range []string{"created", "opened", "reused", "lock"} {
		if got := mode(t, name(s)); got != datadir.FileMode {
			t.Errorf("%s has mode %v", s, got)
		}
	}
	must.Succeed(t, fs.MkdirAll(name("dir"), 0o755))
	if got := mode(t, name("dir")); got != datadir.DirMode {
		t.Errorf("dir has mode %v", got)
	}
}
