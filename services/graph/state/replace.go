package state

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Replace puts the state in the directory by in the place of the one in dir, which it deletes. Both must be
// closed, and their directories neighbours. After a crash dir has one of the two: see finishReplace. The
// error wraps ErrLocked if the state in dir is open.
func Replace(dir, by string) (err error) {
	lock, err := lockDirectory(dir)
	if err != nil {
		return err
	}
	if lock != nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	aside := asideOf(vfs.Default, dir)
	if err := move(vfs.Default, dir, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := move(vfs.Default, by, dir); err != nil {
		return err
	}
	return os.RemoveAll(aside)
}

// finishReplace ends a Replace that was interrupted: the old state takes its place again if no other one has it,
// and is deleted otherwise.
func finishReplace(fs vfs.FS, dir string) error {
	aside := asideOf(fs, dir)
	if _, err := fs.Stat(aside); err != nil {
		return absent(err)
	}
	if _, err := fs.Stat(dir); err == nil {
		return fs.RemoveAll(aside)
	} else if err = absent(err); err != nil {
		return err
	}
	return move(fs, aside, dir)
}

// absent returns nil for the error of a file that does not exist.
func absent(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// asideOf returns where Replace puts the state in dir aside.
func asideOf(fs vfs.FS, dir string) string {
	return fs.PathJoin(fs.PathDir(dir), ".replaced-"+fs.PathBase(dir))
}

// move renames a directory, and returns when that is on disk.
func move(fs vfs.FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(to))
}
