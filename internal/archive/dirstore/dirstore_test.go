package dirstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func create(t *testing.T, dir string) archive.Store {
	t.Helper()
	s, err := dirstore.Create(dir)
	must.Succeed(t, err)
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	archivetest.Run(t, func(t *testing.T) (archive.Store, func() archive.Store) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "archive")
		return create(t, dir), func() archive.Store { return create(t, dir) }
	})
}

// Temporary files of crashes are no entries, and are deleted a day later. Those of other
// processes that are putting stay.
func TestTemporaryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := create(t, dir)
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	file := func(name string, age time.Duration) string {
		path := filepath.Join(dir, "a", name)
		must.Succeed(t, os.WriteFile(path, []byte("half"), 0o600))
		at := time.Now().Add(-age)
		must.Succeed(t, os.Chtimes(path, at, at))
		return path
	}
	old, fresh, foreign := file(".put-1", 25*time.Hour), file(".put-2", time.Hour), file(".other", 25*time.Hour)
	for e, err := range s.List(t.Context(), "") {
		t.Errorf("entry %+v, %v", e, err)
	}
	must.Succeed(t, s.Put(t.Context(), "a/b", strings.NewReader("x"), 1))
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file: %v", err)
	}
	for _, path := range []string{fresh, foreign} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "a", ".put-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("temporary files: %v, %v", left, err)
	}
}

// A directory that does not exist is an error, not an empty archive.
func TestMissingDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := dirstore.Open(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Only the owner may read what the archive has: it has deleted secrets.
func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "archive")
	must.Succeed(t, create(t, dir).Put(t.Context(), "a/b", strings.NewReader("x"), 1))
	for _, path := range []string{"", "a", "a/b"} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: mode %v, %v", path, info.Mode(), err)
		}
	}
}
