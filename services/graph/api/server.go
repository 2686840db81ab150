package api

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Config is what all services of this package need.
type Config struct {
	Realm string
	// Conn receives requests and sends replies. It has permission to publish to inboxes
	// only.
	Conn *nats.Conn
	// AnyActor lets clients without an account of their own, and those of the account bus.LocalUser, name any
	// actor. It is safe only if all clients are the same user.
	AnyActor bool
	State    *state.State
	// Instance is a name of this process for operators.
	Instance string
	Version  string
	Log      *slog.Logger
	// Warn is called with owner references that an operator should look at. It may be nil.
	Warn resolve.Warn
	// Process bounds the requests to all realms of the process; nil for no common bound.
	Process *Process
}

// Stopper is a running service.
type Stopper interface{ Stop() error }

// server is what all services share.
type server struct {
	Config
	ctx    context.Context // is cancelled when the service stops
	cancel context.CancelFunc
	micro  micro.Service
	reads  *admission.Limiter // all that run in the background
	pages  *admission.Limiter // of those, the ones that hold objects
	plans  *admission.Limiter // and those that compute a plan
	shared shares             // of all realms of the process

	mu      sync.Mutex
	stopped bool
	wg      sync.WaitGroup
}

// newServer returns a service that takes places of shared as well as its own.
func newServer(c Config, shared shares, name, about, queueGroup string) (*server, error) {
	s := &server{
		Config: c, shared: shared,
		reads: admission.New(maxReads, actorReads).Within(shared.reads, c.Realm),
		pages: admission.New(maxPages, actorPages).Within(shared.pages, c.Realm),
		plans: admission.New(maxPlans, actorPlans).Within(shared.plans, c.Realm),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	version := c.Version
	if version == "" {
		version = "0.0.0"
	}
	svc, err := micro.AddService(c.Conn, micro.Config{
		Name:               name,
		Version:            version,
		Description:        about,
		Metadata:           map[string]string{"realm": c.Realm, "instance": c.Instance},
		QueueGroup:         queueGroup,
		QueueGroupDisabled: queueGroup == "",
		ErrorHandler: func(_ micro.Service, err *micro.NATSError) {
			c.Log.Warn("request dropped", "subject", err.Subject, "error", err.Description)
		},
	})
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("api: realm %s: %w", c.Realm, err)
	}
	s.micro = svc
	return s, nil
}

// Stop ends the subscriptions, and waits for running requests. Handlers may still be called
// afterwards, for requests that the connection has already received.
func (s *server) Stop() error {
	err := s.micro.Stop()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	return err
}

// start runs do in a goroutine for which Stop waits. It returns false, without running do,
// if the service has stopped: then the state may be closed.
func (s *server) start(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.wg.Go(do)
	}
	return !s.stopped
}

// during runs do; Stop waits for it. It returns false, without running do, if the service
// has stopped: then the state may be closed.
func (s *server) during(do func()) bool {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return false
	}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	do()
	return true
}
