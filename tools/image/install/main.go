// Command install writes the files of Coppice's container image into a directory, for the Dockerfile in deploy/docker. It
// needs root, since files have different owners.
package main

import (
	"bytes"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

func main() {
	var (
		dir      = flag.String("o", "", "directory to write into, which must be empty or not exist")
		binary   = flag.String("binary", "", "the program coppice")
		license  = flag.String("license", "../../LICENSE", "the license")
		version  = flag.String("version", "", "version that the program must have, without the v in front")
		revision = flag.String("revision", "", "commit that the program must have been built from; empty for any")
	)
	flag.Parse()
	if err := install(*dir, *binary, *license, *version, *revision); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func install(dir, binary, license, version, revision string) error {
	if dir == "" || binary == "" {
		return fmt.Errorf("-o and -binary are required")
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if err := rootfs.Check(info, version, revision); err != nil {
		return err
	}
	text, err := os.ReadFile(license)
	if err != nil {
		return err
	}
	files, err := rootfs.Program(program, text)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range slices.Concat(rootfs.Base(), files) {
		if err := write(filepath.Join(dir, filepath.FromSlash(f.Name)), f); err != nil {
			return err
		}
	}
	return nil
}

// write writes one file, with its mode whatever the umask is.
func write(name string, f rootfs.File) error {
	if f.Mode.IsDir() {
		if err := os.Mkdir(name, 0o700); err != nil && !os.IsExist(err) {
			return err
		}
	} else if err := os.WriteFile(name, f.Data, 0o600); err != nil {
		return err
	}
	if err := os.Chown(name, f.Owner, f.Owner); err != nil {
		return err
	}
	return os.Chmod(name, f.Mode) // last: a change of the owner may clear bits
}
