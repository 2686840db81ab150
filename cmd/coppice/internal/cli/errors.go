package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// UsageError is a command that was called wrongly.
type UsageError struct {
	Command string // with a trailing space, empty for the root
	Err     error
}

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the command.
func (e *UsageError) Unwrap() error { return e.Err }

// NewUsageError marks an error as a wrong call of a command.
func NewUsageError(c *cobra.Command, err error) error {
	name := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	return &UsageError{Command: name, Err: err}
}

// UsageErrorf returns the error for wrong arguments or flags that a command finds. WithCommand adds the command.
func UsageErrorf(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// WithCommand adds the command to an error of UsageErrorf, and returns other errors as they are.
func WithCommand(c *cobra.Command, err error) error {
	var usage *UsageError
	if errors.As(err, &usage) && usage.Command == "" {
		return NewUsageError(c, usage.Err)
	}
	return err
}

// ExitError ends the program with an exit code of its own. Without err nothing is
// printed.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error that is printed.
func (e *ExitError) Unwrap() error { return e.Err }

// ErrReported is a failure that was printed already.
var ErrReported = errors.New("failed")

// Failures counts refusals after which a command continues. Each is printed at once.
type Failures struct {
	*App
	Count int
}

// Add prints an error, and counts it.
func (f *Failures) Add(err error) {
	f.Count++
	_, _ = fmt.Fprintf(f.Stderr, "coppice: %s\n", ErrorText(err))
}

// Err returns the error of the command, nil without failures. done completes "not ...", and of is the number of
// objects that were tried.
func (f *Failures) Err(done string, of int) error {
	switch {
	case f.Count == 0:
		return nil
	case of == 1:
		return ErrReported
	}
	return fmt.Errorf("%d of %s not %s", f.Count, terminal.Count(of, "object"), done)
}

// Joined are the errors that errors.Join has joined.
func Joined(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()
	}
	return []error{err}
}

// IgnoreNotFound splits a joined error. With notFound it leaves out errors that say that an object
// does not exist.
func IgnoreNotFound(err error, notFound bool) (errs []error) {
	if err == nil {
		return nil
	}
	for _, e := range Joined(err) {
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

// ErrorText returns the text of an error, with a line for each cause if it has several. It is printable: it may
// repeat what a manifest or a server has.
func ErrorText(err error) string {
	var e *client.Error
	if !errors.As(err, &e) {
		lines := strings.Split(err.Error(), "\n")
		for i, line := range lines {
			lines[i] = terminal.Printable(line)
		}
		return strings.Join(lines, "\n")
	}
	text := strings.Replace(err.Error(), e.Message, terminal.Printable(e.Message), 1)
	if len(e.Causes) < 2 {
		return text
	}
	list, lines := make([]string, len(e.Causes)), ""
	for i, c := range e.Causes {
		list[i] = terminal.Printable(c.String())
		lines += "\n  " + list[i]
	}
	return strings.Replace(text, " ["+strings.Join(list, ", ")+"]", "", 1) + lines
}

// Warn prints warnings of a reply. They may repeat what a manifest has, which must not control the terminal.
func (a *App) Warn(where fmt.Stringer, warnings []string) {
	for _, w := range warnings {
		_, _ = fmt.Fprintf(a.Stderr, "%s %s: %s\n", a.Ink().Yellow("warning:"), where, terminal.Printable(w))
	}
}
