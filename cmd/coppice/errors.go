package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

// usageError is a command that was called wrongly.
type usageError struct {
	command string // with a trailing space, empty for the root
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// newUsageError marks an error as a wrong call of a command.
func newUsageError(c *cobra.Command, err error) error {
	name := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return &usageError{command: name, err: err}
}

// wrong returns the error for wrong arguments or flags that a command finds. withCommand adds the command.
func wrong(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// withCommand adds the command to an error of wrong, and returns other errors as they are.
func withCommand(c *cobra.Command, err error) error {
	var usage *usageError
	if errors.As(err, &usage) && usage.command == "" {
		return newUsageError(c, usage.err)
	}
	return err
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

// errReported is a failure that was printed already.
var errReported = errors.New("failed")

// failures counts refusals after which a command continues. Each is printed at once.
type failures struct {
	*app
	n int
}

func (f *failures) add(err error) {
	f.n++
	_, _ = fmt.Fprintf(f.stderr, "coppice: %s\n", errorText(err))
}

// err returns the error of the command.
func (f *failures) err(done string, of int) error {
	switch {
	case f.n == 0:
		return nil
	case of == 1:
		return errReported
	}
	return fmt.Errorf("%d of %s not %s", f.n, console.Count(of, "object"), done)
}

// joined are the errors that errors.Join has joined.
func joined(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	return []error{err}
}

// ignoring splits a joined error. With notFound it leaves out errors that say that an object
// does not exist.
func ignoring(err error, notFound bool) (errs []error) {
	if err == nil {
		return nil
	}
	for _, e := range joined(err) {
		if !notFound || !errors.Is(e, client.ErrNotFound) {
			errs = append(errs, e)
		}
	}
	return errs
}

// unreadable returns the uid of the object that could not be read because its body cannot be
// decoded, and "" for other errors.
func unreadable(err error) string {
	var refused *client.Error
	if !errors.As(err, &refused) || !client.HasCause(err, client.CauseObjectUnreadable) {
		return ""
	}
	return refused.UID
}

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

// warn prints warnings of a reply. They may repeat what a manifest has, which must not control the terminal.
func (a *app) warn(where fmt.Stringer, warnings []string) {
	for _, w := range warnings {
		_, _ = fmt.Fprintf(a.stderr, "%s %s: %s\n", a.ink().Yellow("warning:"), where, console.Printable(w))
	}
}
