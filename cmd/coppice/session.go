package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// session is a connection to a realm, and the kinds that the realm knows.
type session struct {
	*app
	c     *client.Client
	nc    *nats.Conn
	kinds *client.Kinds
}

// in makes a command of what works in a session.
func (a *app) in(do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx, cancel := context.WithCancelCause(c.Context())
		defer cancel(nil)
		s, err := a.open(ctx, cancel)
		if err == nil {
			defer s.nc.Close()
			err = do(ctx, s, args)
		}
		var refused *client.Error
		if errors.As(context.Cause(ctx), &refused) {
			return refused
		}
		var usage *usageError
		if errors.As(err, &usage) && usage.command == "" {
			return a.usage(c, usage.err)
		}
		return err
	}
}

// open connects, and learns the kinds. What NATS does not let through it does
// not answer either; so that nobody waits for it, it ends everything.
func (a *app) open(ctx context.Context, cancel context.CancelCauseFunc) (*session, error) {
	c, nc, err := a.client()
	if err != nil {
		return nil, err
	}
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if e := forbidden(err); e != nil {
			cancel(e)
		}
	})
	s := &session{app: a, c: c, nc: nc}
	if s.kinds, err = c.Kinds(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return s, nil
}

// forbidden is the refusal that a violation of permissions means, nil for
// anything else: looking at a stream is a help, not what a command is for.
func forbidden(err error) *client.Error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	_, rest, ok := strings.Cut(err.Error(), `Publish to "`)
	if !ok {
		return nil
	}
	subject, _, _ := strings.Cut(rest, `"`)
	realm := bus.RealmOf(subject)
	if realm == "" {
		return nil
	}
	if optional(subject) {
		return nil
	}
	e := &client.Error{Reason: client.Forbidden}
	what := "publish to " + subject
	if at, err := bus.ParseAPI(subject); err == nil {
		e.Resource = lifecycle.ResourceName(at.Group, at.Plural)
		what = strings.TrimSpace(at.Verb+" "+e.Resource) + fmt.Sprintf(" as actor %q", at.Actor)
	}
	e.Message = fmt.Sprintf("the NATS user may not %s in realm %q: there is no such realm, or the user's permissions do not allow it", what, realm)
	return e
}

// optional reports whether a request is one of those that commands do without if
// they are refused: then the request itself fails, at once.
func optional(subject string) bool {
	at, err := bus.ParseAPI(subject)
	if err != nil {
		return false
	}
	switch at.Verb {
	case bus.VerbReadLog, bus.VerbReadWarnings, bus.VerbListConsumers, bus.VerbListParked:
		return true
	}
	return false
}

// objects are the objects of a kind. The namespace is ignored for those that
// have none.
func (s *session) objects(k client.Kind, namespace string) *client.Objects {
	if !client.Namespaced(k) {
		namespace = ""
	}
	return s.c.Objects(client.ResourceOf(k), namespace)
}

// visible are the objects that the flags say.
func (s *session) visible(k client.Kind, w where) *client.Objects {
	objects := s.objects(k, w.of(k))
	if w.uninitialized {
		return objects.IncludeUninitialized()
	}
	return objects
}

// anything is for requests that name objects by uid, for which the resource
// does not matter.
func (s *session) anything() *client.Objects { return s.c.Objects(client.KindsResource, "") }

// wrong is a wrong call, found out while the command was running.
func wrong(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// failures are refusals that did not keep a command from going on. They are
// told as they come.
type failures struct {
	*app
	n int
}

func (f *failures) add(err error) {
	f.n++
	_, _ = fmt.Fprintf(f.stderr, "coppice: %s\n", describe(err))
}

// errTold is a failure that was told already.
var errTold = errors.New("failed")

// err is what the command returns in the end.
func (f *failures) err(done string, of int) error {
	switch {
	case f.n == 0:
		return nil
	case of == 1:
		return errTold
	}
	return fmt.Errorf("%d of %s not %s", f.n, count(of, "object"), done)
}

func (a *app) warn(where fmt.Stringer, warnings []string) {
	for _, w := range warnings {
		_, _ = fmt.Fprintf(a.stderr, "%s %s: %s\n", a.ink().yellow("warning:"), where, w)
	}
}
