package serve

import (
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// permit checks that the users file allows what the subject of a request to the object API says,
// and gives the request the rules of its actor. An actor that the file does not name may do what NATS lets it.
func (s *Server) permit(q *Request) *lifecycle.Error {
	table := s.Access.Table()
	if table == nil {
		return nil
	}
	at, err := bus.ParseAPI(q.Subject())
	if err != nil {
		return lifecycle.ErrBadRequest("%v", err)
	}
	rules, named := table.Of(at.Actor, at.Realm)
	q.rulesNow = func() *access.Rules {
		now, still := s.Access.Table().Of(at.Actor, at.Realm)
		if named && !still {
			return access.None() // the user was taken away
		}
		return now
	}
	if !named {
		return nil
	}
	namespaced := true
	if s.State != nil {
		if kind := s.State.Kinds().Resource(Resource(at)); kind != nil {
			namespaced = kind.Namespaced()
		}
	}
	if !rules.Allows(at, namespaced) {
		return notAllowed(at, namespaced)
	}
	q.Rules = rules
	return nil
}

// RulesNow returns what the users file allows the actor now: a reply that lasts must not go on with what was allowed when it began.
func (q *Request) RulesNow() *access.Rules {
	if q.rulesNow == nil {
		return q.Rules
	}
	return q.rulesNow()
}

// Allows checks a request about a kind again, in the state that is read: a kind can have been registered again with another scope
// than when the request was admitted, or have had another one in the past.
func (q *Request) Allows(at bus.API, kind *lifecycle.Kind) *lifecycle.Error {
	if q.Rules.Allows(at, kind.Namespaced()) {
		return nil
	}
	return notAllowed(at, kind.Namespaced())
}

// notAllowed returns the error for a request that the users file does not allow.
func notAllowed(at bus.API, namespaced bool) *lifecycle.Error {
	what := at.Verb
	if at.Plural != "" {
		what += " " + Resource(at)
	}
	switch {
	case at.Namespace != "":
		what += " in namespace " + at.Namespace
	case at.Plural != "" && namespaced:
		what += " in all namespaces"
	}
	err := forbidden("user %s may not %s in realm %s: no rule of the users file allows it; 'coppice nats-config check' says what the user may do", at.Actor, what, at.Realm)
	err.Resource, err.Namespace = Resource(at), at.Namespace
	return err
}

// asks reports whether a request asks only whether it is allowed, and answers it.
func (q *Request) asks() bool {
	if q.Headers().Get(bus.HeaderAsk) == "" {
		return false
	}
	defer q.endSpan(nil)
	q.send(nats.Header{bus.HeaderAsk: []string{"allowed"}}, nil)
	if bus.IsStream(q.Verb) {
		q.End()
	}
	return true
}

// Sees reports whether the reply may have an object.
func (q *Request) Sees(k *lifecycle.Kind, n *lifecycle.Node) bool {
	if q.Rules == nil {
		return true
	}
	verb := bus.VerbGet
	if q.Verb == bus.VerbReadPast {
		verb = q.Verb
	}
	return k != nil && q.Rules.May(verb, k.Resource(), n.Namespace)
}
