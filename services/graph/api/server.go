package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/secret"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
	"github.com/coppice-gc/coppice/services/graph/writer"
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
	// PlanLimit and PlanTime bound the plan that the writer computes again for a DELETE
	// that names one, while other commands wait: its objects, 20,000 if zero, and the time,
	// 250 ms if zero.
	PlanLimit int
	PlanTime  time.Duration
	// Process bounds the requests to all realms of the process; nil for no common bound.
	Process *Process
	// Grants gives and checks the grants of deletions with several parts. If it is nil, each
	// service draws a secret of its own, and no other service accepts its grants.
	Grants *Grants
}

// Writer is what ServeWriter needs in addition to Config.
type Writer struct {
	*writer.Writer
	Lease writer.Lease
	// Call returns the state of the call of an external finalizer for an object.
	Call func(context.Context, bus.Finalize) (CallState, error)
	// Consumers observes the consumers of calls; nil for no warnings of finalizers without one.
	Consumers *consumers.Observer
	// Past reads the past.
	Past Past
	// Republish publishes pending work again.
	Republish func(context.Context, *coppicev1.RepublishRequest) (*coppicev1.RepublishReply, error)
	// Status counts pending work.
	Status func(context.Context) (*coppicev1.StatusReply, error)
	// Storage measures what the realm takes on disks.
	Storage func(context.Context) (*coppicev1.Storage, error)
	// Answered is called with the replies to internal operations, for metrics.
	Answered func(proto.Message)
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Noticed is called with an object and the notice that an expiry policy has given for it: when
	// the notice is given, and at each evaluation in the hour after. It may be nil.
	Noticed func(v lifecycle.View, n *lifecycle.Node, p *expirypolicy.Policy, policy string, given lifecycle.Notice)
	// NoticeCalls collects the calls to a program about notices; nil for no calls.
	NoticeCalls func(ctx context.Context, name string) (*propagator.NoticeCalls, error)
	// RecentCalls has the calls that were published recently; nil if NoticeCalls is nil.
	RecentCalls *propagator.RecentCalls
	// SweepNotices removes the calls about notices that are not needed any more; nil for none.
	SweepNotices func(context.Context) error
	// WarnCycle is called with an object of an unreachable cycle and the number of the
	// cycle's members. It may be nil.
	WarnCycle func(v lifecycle.View, n *lifecycle.Node, members int)
}

// server is what all services share.
type server struct {
	Config
	nc     *nats.Conn
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
		Config: c, nc: c.Conn, shared: shared,
		reads: admission.New(maxReads, actorReads).Within(shared.reads, c.Realm),
		pages: admission.New(maxPages, actorPages).Within(shared.pages, c.Realm),
		plans: admission.New(maxPlans, actorPlans).Within(shared.plans, c.Realm),
	}
	if s.Grants == nil {
		s.Grants = NewGrants(secret.Secrets{}.Draw(), c.Realm, func() (none [16]byte) { return none })
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

// flushTime is the longest time that subscribed waits.
const flushTime = time.Second

// subscribed waits until the NATS server has the subscriptions of all endpoints: before, it
// would report to clients that no service answers, although the service says that it is ready.
func (s *server) subscribed() {
	ctx, cancel := context.WithTimeout(s.ctx, flushTime)
	defer cancel()
	if s.nc.IsConnected() {
		_ = s.nc.FlushWithContext(ctx) // without a connection, the next one begins with the subscriptions
	}
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

// unreadable returns the error for a failed read. It is retryable if this process stops, if its
// state has failed, or if the archive cannot be read now: a later attempt, perhaps at another
// process, may succeed.
func (s *server) unreadable(err error) *lifecycle.Error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &lifecycle.Error{Reason: api.ErrTimeout, Message: fmt.Sprintf(
			"realm %s: the request took longer than %v and was stopped; request less at once, or try again later", s.Realm, readTime)}
	case errors.Is(err, context.Canceled):
		return s.stopping()
	}
	var body *state.UnreadableError
	if errors.As(err, &body) {
		return body.Refusal(s.State.Kinds())
	}
	var unavailable *wholelog.UnavailableError
	if errors.As(err, &unavailable) {
		return &lifecycle.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: time.Second,
			Message: fmt.Sprintf("realm %s: the archive cannot be read now: %v", s.Realm, err),
		}
	}
	if s.State.Failure() == nil {
		return &lifecycle.Error{Reason: api.ErrInternalError, Message: err.Error()}
	}
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this process cannot read its state now; try again: this or another process serves the realm then", s.Realm),
	}
}

func (s *server) stopping() *lifecycle.Error {
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this graph service no longer serves the realm; try again", s.Realm),
	}
}

// Stopper is a running service.
type Stopper interface{ Stop() error }

// verb returns the endpoint of a verb of the object API.
func (s *server) verb(name string) *endpoint {
	return &endpoint{name: name, subject: bus.APIPattern(s.Realm, name)}
}

// operation returns an internal endpoint for the roles that may call it.
func (s *server) operation(name string, actors ...string) *endpoint {
	return &endpoint{name: name, subject: bus.InternalSubject(s.Realm, name), actors: actors}
}

func (s *server) add(e *endpoint, handle func(*request)) error {
	name := e.name
	if e.actors != nil {
		name = "internal-" + name
	}
	err := s.micro.AddEndpoint(name, micro.HandlerFunc(func(r micro.Request) {
		if !answerable(r.Reply()) {
			s.Log.Debug("message dropped: its reply subject is not an inbox", "subject", r.Subject(), "reply", r.Reply())
			return
		}
		q, err := s.request(r)
		if err == nil {
			err = s.admit(e, r)
		}
		if err != nil {
			q.answer(nil, err)
			return
		}
		handle(q)
	}), micro.WithEndpointSubject(e.subject), micro.WithEndpointPendingLimits(pendingMessages, pendingOf(name)))
	if err != nil {
		return fmt.Errorf("api: realm %s: endpoint %s: %w", s.Realm, name, err)
	}
	return nil
}

// target parses the subject of a request to the object API.
func (s *server) target(q *request) (bus.API, *lifecycle.Error) {
	a, err := bus.ParseAPI(q.Subject())
	if err != nil {
		return a, lifecycle.ErrBadRequest("%v", err)
	}
	if bus.NamesType(a.Verb) {
		return a, namesType(a)
	}
	return a, nil
}

// namesType checks that the subject of a request about objects names their type.
func namesType(at bus.API) *lifecycle.Error {
	if at.Plural == "" {
		return lifecycle.ErrBadRequest("%s: the subject has _ for the plural, and so names no type; write the plural of a kind, such as pods", at.Verb)
	}
	return nil
}
