package testkit

import (
	"os"
	"syscall"
	"testing"
)

// mount mounts a file system in memory at a directory.
func mount(tb testing.TB, dir, size string) error {
	tb.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0700,size="+size); err != nil {
		return os.NewSyscallError("mount", err)
	}
	tb.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			tb.Errorf("unmount %s: %v", dir, err)
		}
	})
	return nil
}
