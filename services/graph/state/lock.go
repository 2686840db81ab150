package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrLocked is returned by Open for a directory that another process uses.
var ErrLocked = errors.New("the directory is in use by another process")

// Remove deletes the state in dir. It returns ErrLocked if the state is open.
func Remove(dir string) error {
	lock, err := lockDirectory(dir)
	if err != nil || lock == nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil {
		for _, e := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, lock.Close())
}

// CheckUnlocked returns ErrLocked if the state in dir is open.
func CheckUnlocked(dir string) error {
	lock, err := lockDirectory(dir)
	if err != nil || lock == nil {
		return err
	}
	return lock.Close()
}

// lockDirectory locks the state in dir. The lock is nil if there is no state. A damaged state
// is one.
func lockDirectory(dir string) (*pebble.Lock, error) {
	if err := finishReplace(vfs.Default, dir); err != nil {
		return nil, fmt.Errorf("state: %s: %w", dir, err)
	}
	db, err := pebble.Peek(dir, vfs.Default)
	if errors.Is(err, os.ErrNotExist) || err == nil && !db.Exists {
		return nil, nil //nolint:nilnil // there is no state
	}
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return nil, fmt.Errorf("state: %s: %w", dir, ErrLocked)
	}
	return lock, nil
}
