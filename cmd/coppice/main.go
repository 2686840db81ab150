// Command coppice runs Coppice's services, and is the command line client of a realm.
//
// Each file has one command or a family of commands; commands.go lists them. The packages
// in internal do the rest: lookup reads what commands show about objects; describe, explain,
// history and changes put it into words; console, printing, jsonpath and tree write it; recorder
// writes recordings.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

func main() {
	paceCollection()
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Main runs a command, and returns its exit code: 0 when it succeeded, 1 when it
// failed, 2 when it was called wrongly. diff returns 1 when it found differences, and
// 2 when it failed.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	err := checkCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var usage *usageError
	var code *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code) && code.err == nil:
		return code.code
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(stderr, "coppice: %v\nSee 'coppice %s--help'.\n", err, usage.command)
		return 2
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	for _, e := range joined(err) {
		if errors.Is(e, errReported) {
			continue
		}
		_, _ = fmt.Fprintf(stderr, "coppice: %s\n", errorText(e))
	}
	if code != nil {
		return code.code
	}
	return 1
}

// exitError ends the program with an exit code of its own. Without err nothing is
// printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// joined are the errors that errors.Join has joined.
func joined(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	return []error{err}
}

// usageError is a command that was called wrongly.
type usageError struct {
	command string // with a trailing space, empty for the root
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errorText returns the text of an error, with a line for each cause if it has several. It is printable: it may
// repeat what a manifest or a server has.
func errorText(err error) string {
	var e *client.Error
	if !errors.As(err, &e) {
		lines := strings.Split(err.Error(), "\n")
		for i, line := range lines {
			lines[i] = console.Printable(line)
		}
		return strings.Join(lines, "\n")
	}
	text := strings.Replace(err.Error(), e.Message, console.Printable(e.Message), 1)
	if len(e.Causes) < 2 {
		return text
	}
	list, lines := make([]string, len(e.Causes)), ""
	for i, c := range e.Causes {
		list[i] = console.Printable(c.String())
		lines += "\n  " + list[i]
	}
	return strings.Replace(text, " ["+strings.Join(list, ", ")+"]", "", 1) + lines
}
