// Command sbom writes the bill of materials of a program of Coppice, as the container image has it: sbom PROGRAM FILE.
package main

import (
	"fmt"
	"os"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a program and the file to write, and got %q", args)
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	document, err := rootfs.NewSBOM(program)
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], document, 0o644) //nolint:gosec // it is published
}
