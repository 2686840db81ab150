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
	var newer *NewerError
	switch {
	case err != nil && strings.Contains(err.Error(), "unknown format major version"):
		return &NewerError{}
	case err == nil, errors.Is(err, ErrSchema), errors.Is(err, ErrDamaged), errors.As(err, &unfinished), errors.As(err, &newer),
		errors.As(err, &number) && number != syscall.ENOENT, strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// checkBlobs returns ErrDamaged if files of bodies are missing or cut. Pebble checks only
// the tables when it opens them.
func checkBlobs(fs vfs.FS, dir string, db *pebble.DB) error {
	// Not BlobFiles.Local: Pebble 2.1.7 counts only what changes after it was opened there.
	live := func() (count, size uint64) {
		m := db.Metrics()
		return m.BlobFiles.LiveCount, m.BlobFiles.LiveSize
	}
	for count, size := live(); ; {
		files, bytes, err := blobs(fs, dir)
		if err != nil || files >= count && bytes >= size {
			return err
		}
		// A compaction may have replaced files meanwhile.
		was, were := count, size
		if count, size = live(); was == count && were == size {
			return fmt.Errorf("%w: it has %d files of bodies with %d bytes, and should have %d with %d", ErrDamaged, files, bytes, count, size)
		}
	}
}

// blobs returns the number and the size of the files of bodies in a directory.
func blobs(fs vfs.FS, dir string) (files, bytes uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		if filepath.Ext(name) != ".blob" {
			continue
		}
		info, err := fs.Stat(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was obsolete, and Pebble has removed it
		}
		if err != nil {
			return 0, 0, err
		}
		files, bytes = files+1, bytes+uint64(info.Size())
	}
	return files, bytes, nil
}

// recovered converts a panic of Pebble 2.1.7 into an error. Pebble panics when a file of
// bodies cannot be opened, and when it is closed after a read has failed: ErrDamaged. It
// panics with the error of a sync of its directory, too. Other panics continue. p is the
// result of recover, which is not nil.
func recovered(p any) error {
	var sync *os.PathError
	if err, ok := p.(error); ok && errors.As(err, &sync) {
		return err
	}
	text, _ := p.(string)
	if strings.HasPrefix(text, "unknown metadata type") || strings.HasPrefix(text, "element has outstanding references") {
		return fmt.Errorf("%w: a file cannot be read (pebble: %s)", ErrDamaged, text)
	}
	panic(p)
}

// protect calls read, and returns the error if Pebble panics.
func protect(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = recovered(p)
		}
	}()
	return read()
}
