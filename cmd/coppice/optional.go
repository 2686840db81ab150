package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

// Some information helps to understand an object, and the object can be shown
// without it: warnings, events, the state of consumers, parked work. A user who may
// not read such information sees the rest, and a note that names what is missing.
// Information that a command is for is not optional: the command fails.

// notes are the notes that a session has printed.
type notes struct {
	mu      sync.Mutex
	printed map[string]bool // by what is missing
}

// optional calls read for optional information, for at most the time of one request.
// It returns false, and prints a note once for each kind of information, if the user
// may not read it, a recording does not have it, or the time has passed. Other errors are
// returned.
func (s *session) optional(ctx context.Context, what string, read func(context.Context) error) (ok bool, err error) {
	limited, cancel := context.WithTimeout(ctx, s.dial.Timeout)
	defer cancel()
	err = read(limited)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, err
	case errors.Is(err, client.ErrForbidden), errors.Is(err, client.ErrMethodNotAllowed), errors.Is(err, client.ErrTimeout), limited.Err() != nil:
		s.missing(what, err)
		return false, nil
	}
	return false, err
}

// missing notes that optional information is missing, once for each kind of it.
func (s *session) missing(what string, err error) {
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	if s.notes.printed[what] {
		return
	}
	if s.notes.printed == nil {
		s.notes.printed = map[string]bool{}
	}
	s.notes.printed[what] = true
	var refused *client.Error
	if errors.As(err, &refused) {
		err = refused // without what the request was wrapped in: the note says that
	}
	_, _ = fmt.Fprintf(s.stderr, "not shown: %s: %s\n", what, console.Printable(err.Error()))
}

// What optional information is called.
const (
	aboutWarnings  = "warnings"
	aboutEvents    = "events"
	aboutConsumers = "consumers of finalizers and agents"
	aboutParked    = "parked work"
	aboutOwners    = "owners outside the namespace"
	aboutBlockers  = "dependents that block the deletion"
	aboutClasses   = "classes of the owner references"
	aboutImplicit  = "namespaces without a Namespace object"
	aboutTotals    = "how many objects go with them"
)
