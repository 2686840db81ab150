package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// Disk is a directory on a small file system of its own, which a test can fill.
type Disk struct {
	tb  testing.TB
	Dir string
}

// NewDisk returns a directory on a file system of so many bytes. To mount one takes Linux and
// root, so the test is one of .ci/nightly.
func NewDisk(tb testing.TB, bytes int64) *Disk {
	tb.Helper()
	nightly.Test(tb, nightly.SmallDisk)
	dir := tb.TempDir()
	if err := mount(tb, dir, strconv.FormatInt(bytes, 10)); err != nil {
		tb.Fatalf("mount a file system of %d bytes at %s: %v", bytes, dir, err)
	}
	return &Disk{tb: tb, Dir: dir}
}

// Fill writes a file until the file system has no room, and returns what removes it.
func (d *Disk) Fill() (free func()) {
	d.tb.Helper()
	name := filepath.Join(d.Dir, "ballast")
	f, err := os.Create(name)
	must.Succeed(d.tb, err)
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			d.tb.Fatal(err)
		}
	}
	must.Succeed(d.tb, f.Close())
	return func() {
		d.tb.Helper()
		must.Succeed(d.tb, os.Remove(name))
	}
}
