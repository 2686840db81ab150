// Package datadir creates directories and files that only their owner may read:
// directories with mode 0700, files with mode 0600.
package datadir

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of what is created.
const (
	DirMode  os.FileMode = 0o700
	FileMode os.FileMode = 0o600
)

// Make creates a directory and its parents where they are missing. The mode of one
// that exists stays: a user named it, and may share it.
func Make(dir string) error { return os.MkdirAll(dir, DirMode) }

// Own is Make for a directory that belongs to Coppice alone: one that exists loses
// the permissions of groups and others.
func Own(dir string) error {
	if err := Make(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&^DirMode == 0 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()&DirMode)
}

// WriteFile is os.WriteFile with FileMode.
func WriteFile(name string, data []byte) error { return os.WriteFile(name, data, FileMode) }

// ReplaceFile replaces a file, and returns when the new one is on disk. After a crash the
// file has either its old content or the new one.
func ReplaceFile(name string, data []byte) error {
	next := name + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, FileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, name); err != nil {
		return err
	}
	dir, err := vfs.Default.OpenDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// FS is the file system of the operating system, which creates directories and
// files with the package's modes.
func FS() vfs.FS { return restricted{vfs.Default} }

type restricted struct{ vfs.FS }

// Unwrap implements vfs.FS.
func (r restricted) Unwrap() vfs.FS { return r.FS }

func (r restricted) MkdirAll(dir string, _ os.FileMode) error { return r.FS.MkdirAll(dir, DirMode) }

func (r restricted) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return restrict(name)(r.FS.Create(name, c))
}

func (r restricted) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return restrict(name)(r.FS.OpenReadWrite(name, c, opts...))
}

func (r restricted) ReuseForWrite(was, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return restrict(name)(r.FS.ReuseForWrite(was, name, c))
}

func (r restricted) Lock(name string) (io.Closer, error) {
	lock, err := r.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, FileMode); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// restrict sets the mode of a file that was opened.
func restrict(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(name, FileMode); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}
