package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

// Session is a connection to a realm, and the kinds that the realm knows.
type Session struct {
	*App
	*lookup.Reader
	Client *client.Client
	Conn   *nats.Conn // of the client
	// dryRunKinds are kinds that a dry run would have registered.
	dryRunKinds []client.Kind
}

// NewSession returns a session of a client. It knows no kinds.
func (a *App) NewSession(c *client.Client, nc *nats.Conn) *Session {
	return &Session{App: a, Reader: a.reader(c), Client: c, Conn: nc}
}

// InSession returns the RunE of a command that works in a session.
func (a *App) InSession(do func(ctx context.Context, s *Session, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		s, err := a.open(ctx)
		if err == nil {
			err = do(ctx, s, args)
			a.leftOut.say(a.Stderr)
			if fail := s.close(); err == nil {
				err = fail
			}
		}
		return WithCommand(c, err)
	}
}

// open connects, and reads the kinds of the realm. If no graph service answers, it finds
// out whether there is such a realm, instead of trying until the timeout.
func (a *App) open(ctx context.Context) (*Session, error) {
	unanswered := make(chan struct{}, 1)
	s, err := a.Connect(ctx, client.WithOnError(func(error) {
		select {
		case unanswered <- struct{}{}:
		default:
		}
	}))
	if err != nil {
		return nil, err
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-unanswered:
			if err := s.noRealm(reading); err != nil {
				cancel(err)
			}
		case <-reading.Done():
		}
	}()
	if err = s.toPast(reading); err == nil {
		s.Kinds, err = s.Client.Kinds(reading)
	}
	if err != nil {
		_ = s.close()
		var missing *client.Error
		if errors.As(context.Cause(reading), &missing) {
			return nil, missing
		}
		return nil, err
	}
	return s, nil
}

// noRealm returns an error if the realm does not exist. If the user may not list realms,
// it is not known, and the result is nil.
func (s *Session) noRealm(ctx context.Context) error {
	realms, err := s.Client.Operations().ListRealms(ctx, client.ForNames{s.Realm})
	if err != nil || len(realms) > 0 {
		return nil //nolint:nilerr // see above
	}
	return &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("there is no realm %q; 'coppice realm list' lists them", s.Realm)}
}

// Connect connects, and reads no kinds.
func (a *App) Connect(ctx context.Context, opts ...client.Option) (*Session, error) {
	c, nc, err := a.NewClient(ctx, opts...)
	if err != nil {
		return nil, err
	}
	// A request that the server denies returns the reason itself. Without a handler
	// the NATS client would print it as well.
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return a.NewSession(c, nc), nil
}

// close ends the session, and the recording that it reads.
func (s *Session) close() error {
	s.Conn.Close()
	if s.ending == nil {
		return nil
	}
	return s.ending()
}

// Objects are the objects of a kind. The namespace is ignored for those that
// have none.
func (s *Session) Objects(k client.Kind, namespace string) client.ResourceClient {
	if !k.Namespaced() {
		namespace = ""
	}
	return s.Client.Resource(client.ResourceOf(k), namespace)
}

// The time between two looks: at least lookEvery, and lookShares times what a look takes.
const (
	lookEvery  = 50 * time.Millisecond
	lookShares = 4
)

// NextLook returns a channel that says when a command that waits looks again. start is when its last look began.
func (a *App) NextLook(start time.Time) <-chan time.Time {
	return time.After(max(lookEvery, lookShares*a.Clock().Sub(start)))
}
