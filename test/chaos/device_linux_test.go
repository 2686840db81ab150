package chaos_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// device is a block device with an ext4 file system, whose power can be cut. Its content is an
// image in a file.
type device struct {
	t     *testing.T
	image string
	dir   string // where it is mounted
	cuts  int
}

// imageSize is the size of a device in bytes. The file of the image is sparse.
const imageSize = 512 << 20

func newDevice(t *testing.T) *device {
	t.Helper()
	d := &device{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	f, err := os.Create(d.image)
	if err == nil {
		err = f.Truncate(imageSize)
	}
	if err == nil {
		err = f.Close()
	}
	must.Succeed(t, err)
	d.command("mkfs.ext4", "-q", "-F", d.image)
	d.mount()
	t.Cleanup(func() { _ = syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	return d
}

func (d *device) command(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (d *device) mount() {
	d.t.Helper()
	d.command("mount", "-t", "ext4", "-o", "loop", d.image, d.dir)
}

// The request of ext4 that ends all writes to the device at once, without writing the journal or
// dirty pages (FS_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH).
const (
	ioctlShutdown = 0x8004587d
	noLogFlush    = 2
)

// cut cuts the power: what was not written to the device is lost. It copies the device as it is
// then, and mounts the copy, which recovers the journal. No process may have files open.
func (d *device) cut() {
	d.t.Helper()
	root, err := os.Open(d.dir)
	must.Succeed(d.t, err)
	flags := uint32(noLogFlush)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, root.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&flags)))
	if err := root.Close(); errno != 0 || err != nil {
		d.t.Fatalf("end the file system: %v, %v", errno, err)
	}
	if err := syscall.Unmount(d.dir, 0); err != nil {
		d.t.Fatalf("unmount %s: %v", d.dir, err)
	}
	before := d.image
	d.cuts++
	d.image = before + "+"
	d.copy(before)
	must.Succeed(d.t, os.Remove(before))
	d.mount()
}

// copy copies an image to that of the device, and keeps it sparse.
func (d *device) copy(from string) {
	d.t.Helper()
	in, err := os.Open(from)
	must.Succeed(d.t, err)
	defer in.Close()
	out, err := os.Create(d.image)
	must.Succeed(d.t, err)
	block := make([]byte, 64<<10)
	for at := int64(0); at < imageSize && err == nil; at += int64(len(block)) {
		if _, err = io.ReadFull(in, block); err == nil && !empty(block) {
			_, err = out.WriteAt(block, at)
		}
	}
	if err == nil {
		err = out.Truncate(imageSize)
	}
	if err == nil {
		err = out.Close()
	}
	must.Succeed(d.t, err)
}

func empty(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
