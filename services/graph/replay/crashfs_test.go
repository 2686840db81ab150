package replay

import (
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashFS is a file system in memory. Before each operation that changes it, it calls
// before, with which a test can keep what a crash would leave now. One operation runs at a
// time.
type crashFS struct {
	*vfs.MemFS
	mu     sync.Mutex
	before func(fs *vfs.MemFS)
}

// newCrashFS returns an empty file system.
func newCrashFS(before func(fs *vfs.MemFS)) *crashFS {
	return &crashFS{MemFS: vfs.NewCrashableMem(), before: before}
}

// change makes a change of the file system.
func (c *crashFS) change(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before(c.MemFS)
	return do()
}

// file makes a change that returns a file.
func (c *crashFS) file(do func() (vfs.File, error)) (f vfs.File, err error) {
	err = c.change(func() (err error) {
		f, err = do()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &crashFile{f, c}, nil
}

func (c *crashFS) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	return c.file(func() (vfs.File, error) { return c.MemFS.Create(name, w) })
}

func (c *crashFS) OpenReadWrite(name string, w vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return c.file(func() (vfs.File, error) { return c.MemFS.OpenReadWrite(name, w, o...) })
}

func (c *crashFS) ReuseForWrite(was, name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	return c.file(func() (vfs.File, error) { return c.MemFS.ReuseForWrite(was, name, w) })
}

// OpenDir changes nothing, but the directory can be synced.
func (c *crashFS) OpenDir(name string) (vfs.File, error) {
	f, err := c.MemFS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &crashFile{f, c}, nil
}

func (c *crashFS) Link(was, name string) error {
	return c.change(func() error { return c.MemFS.Link(was, name) })
}

func (c *crashFS) Remove(name string) error {
	return c.change(func() error { return c.MemFS.Remove(name) })
}

func (c *crashFS) RemoveAll(name string) error {
	return c.change(func() error { return c.MemFS.RemoveAll(name) })
}

func (c *crashFS) Rename(was, name string) error {
	return c.change(func() error { return c.MemFS.Rename(was, name) })
}

func (c *crashFS) MkdirAll(name string, mode os.FileMode) error {
	return c.change(func() error { return c.MemFS.MkdirAll(name, mode) })
}

// crashFile is a file or a directory of a crashFS.
type crashFile struct {
	vfs.File
	fs *crashFS
}

func (f *crashFile) Write(b []byte) (n int, err error) {
	err = f.fs.change(func() (err error) {
		n, err = f.File.Write(b)
		return err
	})
	return n, err
}

func (f *crashFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.fs.change(func() (err error) {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, err
}

func (f *crashFile) Sync() error     { return f.fs.change(f.File.Sync) }
func (f *crashFile) SyncData() error { return f.fs.change(f.File.SyncData) }

func (f *crashFile) SyncTo(length int64) (whole bool, err error) {
	err = f.fs.change(func() (err error) {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, err
}
