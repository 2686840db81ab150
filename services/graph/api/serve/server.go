package serve

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Config is what every Server needs.
type Config struct {
	Realm string
	// Conn receives requests and sends replies. It has permission to publish to inboxes
	// only.
	Conn *nats.Conn
	// AnyActor lets clients without an account of their own, and those of the account bus.LocalUser, name any
	// actor. It is safe only if all clients are the same user.
	AnyActor bool
	// Access is the users file; nil for none.
	Access *access.Current
	// Actors returns the actor that has an account, which is named as the header Nats-Request-Info names it. Nil: each
	// account has the name of its actor.
	Actors func(account string) (actor string, ok bool)
	State  *state.State
	// Instance is a name of this process for operators.
	Instance string
	Version  string
	Log      *slog.Logger
	// Warn is called with owner references that an operator should look at. It may be nil.
	Warn resolve.Warn
	// Process bounds the requests to all realms of the process; nil for no common bound.
	Process *Process
	// Refused is called with each refusal of a request whose code is 4xx, and with the number of objects of a request that were
	// refused for such a reason; nil for no calls. Several goroutines call it.
	Refused func(actor, verb string, reason api.Reason, n int)
	// TracerProvider records a span of each request; nil for none.
	TracerProvider trace.TracerProvider
}

// Server is a running service.
type Server struct {
	Config
	// Context is cancelled when the service stops.
	Context context.Context
	// Pages has places for requests that hold objects, and Plans for those that compute a plan.
	Pages, Plans *admission.Limiter
	// Shared are the places of all realms of the process.
	Shared Shares

	cancel context.CancelFunc
	micro  micro.Service
	tracer trace.Tracer
	reads  *admission.Limiter // all requests that run in the background

	mu      sync.Mutex
	stopped bool
	wg      sync.WaitGroup
}

// New returns a service without endpoints. It takes places of shared as well as its own.
func New(c Config, shared Shares, name, about, queueGroup string) (*Server, error) {
	s := &Server{
		Config: c, Shared: shared, tracer: tracing.Tracer(c.TracerProvider),
		reads: admission.New(maxReads, actorReads).Within(shared.reads, c.Realm),
		Pages: admission.New(maxPages, actorPages).Within(shared.pages, c.Realm),
		Plans: admission.New(maxPlans, actorPlans).Within(shared.plans, c.Realm),
	}
	s.Context, s.cancel = context.WithCancel(context.Background())
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
func (s *Server) Stop() error {
	err := s.micro.Stop()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	return err
}

// Start runs do in a goroutine for which Stop waits. It returns false, without running do,
// if the service has stopped: then the state may be closed.
func (s *Server) Start(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.wg.Go(do)
	}
	return !s.stopped
}

// During runs do; Stop waits for it. It returns false, without running do, if the service
// has stopped: then the state may be closed.
func (s *Server) During(do func()) bool {
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
