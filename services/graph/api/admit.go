package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// NATS checks the subject that a client publishes to, and not the reply subject
// that it names. So a client that may ask anything of any responder could have the
// answer sent to a subject that it may not publish to. Two rules keep that from
// having an effect here, before anything is read or done:
//
//   - The graph service answers to inboxes only: a message with another reply
//     subject is dropped. The connection that answers may publish to inboxes only,
//     too, so that a mistake here is refused by the server.
//   - An answer, of this service or of the NATS server, is not a request: it has
//     no reply subject of its own, does not name a verb in its headers, and has no
//     field protocol. Messages that a stream has stored are recognised by their headers.

// The prefixes of reply subjects to which requests are answered.
const (
	inboxes = "_INBOX."
	// mapped is how a server spells the reply subject of a request that comes from
	// another account: it leads to the client's inbox, and nowhere else.
	mapped = "_R_."
	// maxReply is how many bytes a reply subject has at most. The NATS server ends a
	// connection that sends a line of more than 4 KiB: the messages of a stream have
	// this subject and one more.
	maxReply = 1 << 10
)

// Headers that NATS servers add.
const (
	// headerOrigin is set by the server on a request from another account, and
	// replaces what the client says.
	headerOrigin = "Nats-Request-Info"
	// headersNATS is the prefix of the headers of stored messages, of publications
	// to streams, and of the answers of services.
	headersNATS = "Nats-"
)

// endpoint is a subject that is answered, and what its requests must say.
type endpoint struct {
	name    string // the verb or operation
	subject string
	// actors may ask; nil for the one that the subject names.
	actors []string
}

// answerable reports whether a reply subject is one that this service answers
// to at all. Others are not even told why they are refused.
func answerable(reply string) bool {
	return len(reply) <= maxReply && (strings.HasPrefix(reply, inboxes) || strings.HasPrefix(reply, mapped))
}

// admit checks that a message with an answerable reply subject is a request of an
// actor that may make it.
func (c *Config) admit(e *endpoint, r micro.Request) *lifecycle.Error {
	h := r.Headers()
	if got := h.Get(bus.HeaderRequest); got != e.name {
		return lifecycle.ErrBadRequest("the header %s is %q; a request to this subject says %q", bus.HeaderRequest, got, e.name)
	}
	for name := range h {
		if strings.HasPrefix(name, headersNATS) && name != headerOrigin {
			return lifecycle.ErrBadRequest("the header %s is set by NATS on messages that are not requests; leave it out", name)
		}
	}
	actors := e.actors
	if actors == nil {
		a, err := bus.ParseAPI(r.Subject())
		if err != nil {
			return lifecycle.ErrBadRequest("%v", err)
		}
		if err := bus.CheckActor(a.Actor); err != nil {
			return lifecycle.ErrBadRequest("%v", err)
		}
		actors = []string{a.Actor}
	}
	_, fromAccount := h[headerOrigin]
	switch {
	case fromAccount && strings.HasPrefix(r.Reply(), mapped):
		return admitAccount(h.Get(headerOrigin), actors)
	case fromAccount: // the server maps the reply subject of each request that it sets the header on
		return forbidden("the request has the header %s, which only the server sets, and the reply subject %s", headerOrigin, r.Reply())
	case strings.HasPrefix(r.Reply(), mapped):
		return forbidden("a request to the reply subject %s has no header %s, which the server sets on those from another account", r.Reply(), headerOrigin)
	case c.AnyInbox || slices.ContainsFunc(actors, func(a string) bool { return strings.HasPrefix(r.Reply(), bus.InboxPrefix(a)+".") }):
		return nil
	}
	return forbidden("the reply subject %s does not lie under %s., the inbox of the actor; connect with the inbox prefix %s (--inbox-prefix of the nats command)",
		r.Reply(), bus.InboxPrefix(actors[0]), bus.InboxPrefix(actors[0]))
}

// admitAccount checks that the account that a request came from is the actor's.
// Each actor has an account of its own, of its name.
func admitAccount(origin string, actors []string) *lifecycle.Error {
	var from struct {
		Account string `json:"acc"`
	}
	if err := json.Unmarshal([]byte(origin), &from); err != nil {
		return lifecycle.ErrBadRequest("the header %s is not what a NATS server writes: %v", headerOrigin, err)
	}
	if !slices.Contains(actors, from.Account) {
		return forbidden("the request came from the account %q, and its actor is %s: each actor has an account of its own, of its name (see coppice nats-config)",
			from.Account, strings.Join(actors, " or "))
	}
	return nil
}

func forbidden(format string, args ...any) *lifecycle.Error {
	return &lifecycle.Error{Reason: lifecycle.ReasonForbidden, Message: fmt.Sprintf(format, args...)}
}
