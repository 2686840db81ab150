package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

// session is a connection to a realm, and the kinds that the realm knows.
type session struct {
	*app
	c     *client.Client
	nc    *nats.Conn
	kinds *client.Kinds
	notes notes
}

// in returns the RunE of a command that works in a session.
func (a *app) in(do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		s, err := a.open(ctx)
		if err == nil {
			defer s.nc.Close()
			err = do(ctx, s, args)
		}
		var usage *usageError
		if errors.As(err, &usage) && usage.command == "" {
			return a.usage(c, usage.err)
		}
		return err
	}
}

// open connects, and reads the kinds of the realm.
func (a *app) open(ctx context.Context) (*session, error) {
	c, nc, err := a.client()
	if err != nil {
		return nil, err
	}
	// A request that the server denies returns the reason itself. Without a handler
	// the NATS client would print it as well.
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	s := &session{app: a, c: c, nc: nc}
	if s.kinds, err = c.Kinds(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return s, nil
}

// objects are the objects of a kind. The namespace is ignored for those that
// have none.
func (s *session) objects(k client.Kind, namespace string) client.ResourceClient {
	if !k.Namespaced() {
		namespace = ""
	}
	return s.c.Resource(client.ResourceOf(k), namespace)
}

// anything is for requests that name objects by uid, for which the resource
// does not matter.
func (s *session) anything() client.ResourceClient { return s.c.Resource(client.KindsResource, "") }

// wrong returns the error for wrong arguments or flags that a command finds.
func wrong(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// failures counts refusals after which a command continues. Each is printed at once.
type failures struct {
	*app
	n int
}

func (f *failures) add(err error) {
	f.n++
	_, _ = fmt.Fprintf(f.stderr, "coppice: %s\n", describe(err))
}

// errReported is a failure that was printed already.
var errReported = errors.New("failed")

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

func (a *app) warn(where fmt.Stringer, warnings []string) {
	for _, w := range warnings {
		_, _ = fmt.Fprintf(a.stderr, "%s %s: %s\n", a.ink().Yellow("warning:"), where, w)
	}
}
