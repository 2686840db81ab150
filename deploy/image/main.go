// Command image writes Coppice's container image as an OCI archive, without a container engine:
//
//	go run ./deploy/image -o coppice.tar
//
// It runs tools/image, a module of its own, whose dependencies Coppice does not have. deploy/docker/README.md says what
// is in the image.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	output := flags.String("o", "coppice.tar", "write the archive to this `file`; the bills of materials are written next to it")
	platforms := flags.String("platform", "linux/amd64,linux/arm64", "build for these platforms, a comma-separated `list`")
	version := flags.String("version", "", "`version` of the program and the image, such as 1.2.3 (default: the one that Go derives from the tags and the commit)")
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), `Build Coppice's container image from the commit that is checked out, and write it as
an OCI archive. Files that are not committed are not in the image. All times in it are
that of the commit, or SOURCE_DATE_EPOCH: two builds with one release of Go are equal.

Usage: go run ./deploy/image [flags]

`)
		flags.PrintDefaults()
	}
	err := flags.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "image: unexpected argument %q; --help lists the flags\n", flags.Arg(0))
		os.Exit(2)
	}
	if err := run(*output, *platforms, *version); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(1) // it has printed why
		}
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run runs tools/image, from the directory of its module.
func run(output, platforms, version string) error {
	output, err := filepath.Abs(output)
	if err != nil {
		return err
	}
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(module)))
	tool := exec.Command("go", "run", "-buildvcs=false", ".", "-o", output, "-platform", platforms, "-version", version, "-source", root) //nolint:gosec // the arguments are the user's
	tool.Dir = filepath.Join(root, "tools", "image")
	tool.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+tool.Dir)
	tool.Stdout, tool.Stderr = os.Stdout, os.Stderr
	return tool.Run()
}
