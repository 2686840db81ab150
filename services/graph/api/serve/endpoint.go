package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Endpoint is a subject that is served, with what its requests must have.
type Endpoint struct {
	name    string // the verb or operation
	subject string
	// actors may send requests; nil for the actor that the subject names.
	actors []string
	// all: every process gets each request, and not one of them.
	all bool
	// Handle answers a request, or returns the error to reply with.
	Handle func(*Request) *lifecycle.Error
}

// Handler handles a request of a verb: it answers the request, or returns the error to reply with. The
// subject of the request says what the request is about.
type Handler func(*Request, bus.API) *lifecycle.Error

// Verb returns the endpoint of a verb of the object API.
func (s *Server) Verb(name string, handle Handler) *Endpoint { return s.VerbOf(s.Realm, name, handle) }

// VerbOf is Verb for requests to another realm; bus.AnyRealm for all.
func (s *Server) VerbOf(realm, name string, handle Handler) *Endpoint {
	return &Endpoint{name: name, subject: bus.APIPattern(realm, name), Handle: func(q *Request) *lifecycle.Error {
		at, err := target(q)
		if err != nil {
			return err
		}
		return handle(q, at)
	}}
}

// ToAll has every process that serves the endpoint get each request. All but one must leave it unanswered.
func (e *Endpoint) ToAll() *Endpoint {
	e.all = true
	return e
}

// Operation returns the endpoint of an internal operation, for the roles that may call it.
func (s *Server) Operation(name string, handle func(*Request) *lifecycle.Error, actors ...string) *Endpoint {
	return &Endpoint{name: name, subject: bus.InternalSubject(s.Realm, name), actors: actors, Handle: handle}
}

// Serve serves endpoints until Stop.
func (s *Server) Serve(endpoints ...*Endpoint) (*Server, error) {
	for _, e := range endpoints {
		if err := s.add(e); err != nil {
			_ = s.Stop()
			return nil, err
		}
	}
	s.subscribed()
	return s, nil
}

func (s *Server) add(e *Endpoint) error {
	name, operators := e.name, ""
	if e.actors != nil {
		name, operators = "internal-"+name, strings.Join(e.actors, "|")
	}
	options := []micro.EndpointOpt{micro.WithEndpointSubject(e.subject), micro.WithEndpointPendingLimits(pendingMessages, pendingOf(name))}
	if e.all {
		options = append(options, micro.WithEndpointQueueGroupDisabled())
	}
	err := s.micro.AddEndpoint(name, micro.HandlerFunc(func(r micro.Request) {
		if !answerable(r.Reply()) {
			s.Log.Debug("message dropped: its reply subject is not an inbox", "subject", r.Subject(), "reply", r.Reply())
			return
		}
		q, err := s.newRequest(r)
		q.actor = operators
		s.startSpan(q, e)
		if err == nil {
			err = s.admit(e, r)
		}
		if err == nil && e.actors == nil {
			err = s.permit(q)
		}
		if err == nil && e.actors == nil && q.asks() {
			return
		}
		if err == nil {
			err = e.Handle(q)
		}
		if err != nil {
			q.Answer(nil, err)
		}
	}), options...)
	if err != nil {
		return fmt.Errorf("api: realm %s: endpoint %s: %w", s.Realm, name, err)
	}
	return nil
}

// flushTime is the longest time that subscribed waits.
const flushTime = time.Second

// subscribed waits until the NATS server has the subscriptions of all endpoints: before, it
// would report to clients that no service answers, although the service says that it is ready.
func (s *Server) subscribed() {
	ctx, cancel := context.WithTimeout(s.Context, flushTime)
	defer cancel()
	if s.Conn.IsConnected() {
		_ = s.Conn.FlushWithContext(ctx) // without a connection, the next one begins with the subscriptions
	}
}

// target parses the subject of a request to the object API.
func target(q *Request) (bus.API, *lifecycle.Error) {
	a, err := bus.ParseAPI(q.Subject())
	if err != nil {
		return a, lifecycle.ErrBadRequest("%v", err)
	}
	if bus.NamesType(a.Verb) {
		return a, NamesType(a)
	}
	return a, nil
}

// NamesType checks that the subject of a request about objects names their type.
func NamesType(at bus.API) *lifecycle.Error {
	if at.Plural == "" {
		return lifecycle.ErrBadRequest("%s: the subject has _ for the plural, and so names no type; write the plural of a kind, such as pods", at.Verb)
	}
	return nil
}

// RealmWide checks that the subject of a verb about the realm names no resource.
func RealmWide(at bus.API) *lifecycle.Error {
	if at.Group != "" || at.Plural != "" || at.Namespace != "" {
		return lifecycle.ErrBadRequest("%s is about the realm: its subject has _ for group, plural and namespace", at.Verb)
	}
	return nil
}

// Resource returns the resource that a subject names, such as deployments.apps.
func Resource(at bus.API) string { return lifecycle.ResourceName(at.Group, at.Plural) }
