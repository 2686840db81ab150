// Package dirstore implements [archive.Store] in a directory.
//
// An entry is a file of its name. [Store.Put] writes a temporary file, syncs it, and gives it
// its name by a hard link, which fails if the name is taken; then it syncs the
// directory. A crash leaves the entry complete or absent, and at most a temporary file,
// which a later [Store.Put] into this directory deletes when it is a day old.
package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/datadir"
)

// Store is an archive in a directory.
type Store struct {
	dir string
}

var _ archive.Store = (*Store)(nil)

// Open opens the archive in a directory that exists.
func Open(dir string) (*Store, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, fmt.Errorf("archive in %s: it is not a directory that can be read: %w", dir, err)
	}
	return &Store{dir: dir}, nil
}

// Create opens the archive in a directory, and creates the directory if it does not exist.
// Only its owner may read it.
func Create(dir string) (*Store, error) {
	if err := datadir.Make(dir); err != nil {
		return nil, fmt.Errorf("archive in %s: %w", dir, err)
	}
	return Open(dir)
}

// String returns the URL of the directory.
func (s *Store) String() string { return (&url.URL{Scheme: "file", Path: s.dir}).String() }

func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// wrap names the entry and the store in an error.
func (s *Store) wrap(what, name string, err error) error {
	return fmt.Errorf("archive %s: %s %s: %w", s, what, name, err)
}

// temporary is the beginning of the names of files that are not complete. No name of an
// entry begins with a dot.
const temporary = ".put-"

// Put implements archive.Store.
func (s *Store) Put(ctx context.Context, name string, content io.Reader, size int64) (err error) {
	if err := archive.CheckPut(name, size); err != nil {
		return err
	}
	path := s.path(name)
	if _, err = os.Lstat(path); err == nil {
		err = fs.ErrExist
	} else {
		err = s.put(ctx, path, content, size)
	}
	if errors.Is(err, fs.ErrExist) {
		// The Put that has stored the entry may not have synced the directory yet.
		err = errors.Join(archive.ErrExists, syncDir(filepath.Dir(path)))
	}
	if err != nil {
		return s.wrap("put", name, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, path string, content io.Reader, size int64) (err error) {
	dir := filepath.Dir(path)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	sweep(dir)
	f, err := os.CreateTemp(dir, temporary+"*") // with datadir.FileMode
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = io.Copy(f, &interruptible{ctx, &archive.Content{In: content, Left: size}})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// interruptible is a reader that fails when ctx ends.
type interruptible struct {
	ctx context.Context //nolint:containedctx // io.Reader has none
	in  io.Reader
}

func (r *interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// makeDir creates a directory below that of the archive, durably.
func (s *Store) makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil || dir == s.dir {
		return err
	}
	parent := filepath.Dir(dir)
	if err := s.makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, datadir.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// abandoned is the age from which on a temporary file was left by a crash.
const abandoned = 24 * time.Hour

// sweep deletes temporary files that a crash has left. Failing to is no failure of the Put
// that follows.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, temporary+"*"))
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(path)
		}
	}
}

// Open implements archive.Store.
func (s *Store) Open(_ context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	f, err := os.Open(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = archive.ErrNotFound
	}
	if err != nil {
		return nil, s.wrap("read", name, err)
	}
	info, err := f.Stat()
	switch {
	case err == nil && !info.Mode().IsRegular():
		err = archive.ErrNotFound
	case err == nil:
		err = archive.CheckRange(info.Size(), offset, length)
	}
	if err != nil {
		return nil, errors.Join(s.wrap("read", name, err), f.Close())
	}
	return &section{io.NewSectionReader(f, offset, length), f}, nil
}

// section is a part of a file.
type section struct {
	io.Reader
	io.Closer
}

// List implements archive.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[archive.Entry, error] {
	return func(yield func(archive.Entry, error) bool) {
		_, err := s.list(ctx, "", prefix, func(e archive.Entry) bool { return yield(e, nil) })
		if err != nil {
			yield(archive.Entry{}, fmt.Errorf("archive %s: list: %w", s, err))
		}
	}
}

// list calls yield for the entries below a directory, which is "" or ends with "/". The
// entries of a directory are in the order of their names with the "/" that
// directories end with, so that all names are in the order of their bytes.
func (s *Store) list(ctx context.Context, dir, prefix string, yield func(archive.Entry) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if !strings.HasPrefix(dir, prefix) && !strings.HasPrefix(prefix, dir) {
		return true, nil
	}
	files, err := os.ReadDir(s.path(dir))
	if errors.Is(err, fs.ErrNotExist) && dir != "" {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, f := range inOrder(files) {
		name := dir + f.Name()
		switch {
		case archive.CheckName(name) != nil: // temporary, or not ours
		case f.IsDir():
			if more, err := s.list(ctx, name+"/", prefix, yield); err != nil || !more {
				return false, err
			}
		case f.Type().IsRegular() && strings.HasPrefix(name, prefix):
			info, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile
			}
			if err != nil {
				return false, err
			}
			if !yield(archive.Entry{Name: name, Size: info.Size()}) {
				return false, nil
			}
		}
	}
	return true, nil
}

// Delete implements archive.Store.
func (s *Store) Delete(_ context.Context, name string) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	path := s.path(name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return s.wrap("delete", name, err)
	}
	return nil
}
