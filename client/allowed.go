package client

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Permission is a verb of the object API and what it is about.
type Permission struct {
	// Verb is a verb of docs/api.md, such as get.
	Verb string
	// Resource is the kind; zero for a verb about the realm.
	Resource Resource
	// Namespace is empty for all namespaces, and for a kind without namespaces.
	Namespace string
	// Finalizer is the finalizer of removefinalizer, forcefinalizer and consumefinalizer, or the name of consumeexpiry.
	Finalizer string
}

// Allowed asks whether this client may send requests of a permission, and changes nothing. It returns nil if it may,
// and an error with ErrForbidden if the NATS server or the users file of the graph service does not allow it. Other
// errors say that no answer was received. A request that is allowed can still be refused for other reasons.
func (c *Client) Allowed(ctx context.Context, p Permission) error {
	at := bus.API{Realm: c.realm, Actor: c.actor, Verb: p.Verb, Group: p.Resource.Group, Plural: p.Resource.Plural, Namespace: p.Namespace, Finalizer: p.Finalizer}
	if p.Verb == bus.VerbListRealms {
		at.Realm = bus.SystemRealm
	}
	if p.Verb == "" || strings.ContainsAny(p.Verb, ".*> \t\r\n") {
		return &Error{Reason: ErrBadRequest, Message: fmt.Sprintf("%q is not a verb of the object API, such as get", p.Verb)}
	}
	if bus.NamesType(p.Verb) && at.Plural == "" {
		return &Error{Reason: ErrBadRequest, Message: fmt.Sprintf("%s is about a kind: name one, such as pods", p.Verb)}
	}
	if err := at.CheckTarget(); err != nil {
		return &Error{Reason: ErrBadRequest, Message: err.Error()}
	}
	return rpc.Retry(ctx, c.timeout, func(ctx context.Context) error {
		var none coppicev1.StatusReply
		return rpc.Send(ctx, c.nc, at.Subject(), nats.Header{bus.HeaderAsk: {"allowed"}}, nil, &none)
	})
}
