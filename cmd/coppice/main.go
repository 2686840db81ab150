// Command coppice is Coppice: its services, and the tool that people use.
//
// Each file has one command or a family of them; root.go has their list.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/coppice-gc/coppice/client"
)

func main() {
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Main runs a command, and returns its exit code: 0 when it succeeded, 1 when
// it failed, 2 when it was called wrongly.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(stderr, "coppice: %v\nSee 'coppice %s--help'.\n", err, usage.command)
		return 2
	}
	_, _ = fmt.Fprintf(stderr, "coppice: %s\n", describe(err))
	return 1
}

// usageError is a command that was called wrongly.
type usageError struct {
	command string // with a trailing space, empty for the root
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// describe says what went wrong, and field by field where that is known.
func describe(err error) string {
	var e *client.Error
	if !errors.As(err, &e) || len(e.Causes) < 2 {
		return err.Error()
	}
	s := err.Error()
	for _, c := range e.Causes {
		s += "\n  " + c.String()
	}
	return s
}
