// Command gate runs the tests of packages for .ci/run, with go test -json, and prints a line for
// each package and the whole output of each package that fails.
//
//	go run ./test/gate [-results FILE] [-summary FILE] [-timeout DURATION] [-p N] PACKAGE...
//
// If one to three packages fail, each of them runs once more, alone. If all pass then, the gate
// passes, and its last lines name the tests that failed once:
//
//	flaky: github.com/coppice-gc/coppice/client TestWatch
//	87 passed, 0 failed
//
// The last line has the numbers of packages. A package that does not build, and a fourth package
// that fails, end the gate at once.
//
// -results writes the lines of go test -json, of the second run where there is one: test/conformance
// reads them. -summary writes these last lines to a file as well. -timeout limits each package, and
// -p is the number of packages that run at once: see go help test.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, ".", os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

// run runs the tests of packages of the module in dir, or in a directory above.
func run(ctx context.Context, dir string, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.SetOutput(stdout)
	results := flags.String("results", "", "file for the output of go test -json")
	summary := flags.String("summary", "", "file for the numbers of packages that passed and failed")
	timeout := flags.Duration("timeout", 10*time.Minute, "limit of each package")
	parallel := flags.Int("p", 0, "number of packages that run at once; 0 for that of go test")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no packages: name some, or ./... for all")
	}
	g := gate{goCmd: "go", dir: dir, out: stdout, flags: []string{"-timeout", timeout.String()}}
	if *parallel > 0 {
		g.flags = append(g.flags, fmt.Sprintf("-p=%d", *parallel))
	}
	failed := g.run(ctx, flags.Args())
	_, _ = io.WriteString(stdout, g.summary())
	return errors.Join(failed, write(*results, g.lines()), write(*summary, []byte(g.summary())))
}

func write(file string, content []byte) error {
	if file == "" {
		return nil
	}
	return os.WriteFile(file, content, 0o644)
}
