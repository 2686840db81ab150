package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged is returned by Open, and is the failure of a State, if files of the state are
// missing, cut or changed. The log is not affected: rebuild the state from it.
var ErrDamaged = errors.New("the state is damaged")

// markerName is the name of a file in the directory of a state that is known to be damaged.
// Pebble ignores it.
const markerName = "DAMAGED"

// mark writes the file that says that a state is damaged. Pebble notices some damage only
// when it reads a row, so Open would not notice it again.
func mark(fs vfs.FS, dir string, why error) error {
	f, err := fs.Create(filepath.Join(dir, markerName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(why.Error(), "\n") // Pebble's texts have stack traces
	_, err = io.WriteString(f, first)
	return errors.Join(err, f.Sync(), f.Close())
}

// marked returns ErrDamaged if mark was called for a state.
func marked(fs vfs.FS, dir string) error {
	f, err := fs.Open(filepath.Join(dir, markerName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	why, err := io.ReadAll(f)
	return errors.Join(fmt.Errorf("%w: %s", ErrDamaged, why), err, f.Close())
}

// ofDamage returns an error of opening a state as ErrDamaged, unless it is due to the file
// system: a full disk, a missing permission or a broken disk.
func ofDamage(err error) error {
	var number syscall.Errno
	var unfinished *UnfinishedError
	switch {
	case err == nil, errors.Is(err, ErrSchema), errors.Is(err, ErrDamaged), errors.As(err, &unfinished),
		errors.As(err, &number) && number != syscall.ENOENT, strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// checkBlobs returns ErrDamaged if files of bodies are missing or cut. Pebble checks only
// the tables when it opens them.
func checkBlobs(fs vfs.FS, dir string, db *pebble.DB) error {
	m := db.Metrics()
	count, size := m.BlobFiles.Local.LiveCount, m.BlobFiles.Local.LiveSize
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	var files, bytes uint64
	for _, name := range names {
		if filepath.Ext(name) != ".blob" {
			continue
		}
		info, err := fs.Stat(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was obsolete, and Pebble has removed it
		}
		if err != nil {
			return err
		}
		files, bytes = files+1, bytes+uint64(info.Size())
	}
	// Pebble 2.1.7 subtracts the obsolete files that it finds when it opens a database after a
	// crash, without having added them: the numbers may be too small, or wrap below zero. A
	// missing file is then found when it is read.
	if int64(files) < int64(count) || int64(bytes) < int64(size) {
		return fmt.Errorf("%w: it has %d files of bodies with %d bytes, and should have %d with %d", ErrDamaged, files, bytes, count, size)
	}
	return nil
}

// recovered converts a panic of Pebble 2.1.7 into ErrDamaged. Pebble panics when a file of
// bodies cannot be opened, and when it is closed after a read has failed. Other panics
// continue. p is the result of recover, which is not nil.
func recovered(p any) error {
	text, _ := p.(string)
	if strings.HasPrefix(text, "unknown metadata type") || strings.HasPrefix(text, "element has outstanding references") {
		return fmt.Errorf("%w: a file cannot be read (pebble: %s)", ErrDamaged, text)
	}
	panic(p)
}

// protect calls read, and returns ErrDamaged if Pebble panics.
func protect(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recovered(p)
		}
	}()
	return read()
}
