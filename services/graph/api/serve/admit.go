package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// NATS checks the subject that a client publishes to, and not the reply subject that it
// names. So a client could have a reply sent to a subject that it may not publish to. Two
// rules prevent that before a request is read:
//
//   - The graph service replies to inboxes only: a message with another reply subject is
//     dropped. The connection that replies has permission to publish to inboxes only, so
//     that the server refuses a mistake in this code.
//   - A reply, of this service or of the NATS server, is not a request: it has no reply
//     subject of its own, does not name a verb in its headers, and has no field protocol.
//     Messages that a stream has stored are recognised by their headers.

// The prefixes of reply subjects to which requests are answered.
const (
	inboxes = "_INBOX."
	// mapped is the prefix of the reply subject that a server sets on a request from
	// another account. The server delivers replies on it to the client's inbox only.
	mapped = "_R_."
	// maxReply is the maximum length of a reply subject in bytes. The NATS server ends a
	// connection that sends a line of more than 4 KiB: the messages of a stream have this
	// subject and one more.
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

// answerable reports whether this service replies to a reply subject. Requests with other
// reply subjects are dropped without a reply.
func answerable(reply string) bool {
	return len(reply) <= maxReply && (strings.HasPrefix(reply, inboxes) || strings.HasPrefix(reply, mapped))
}

// admit checks that a message with an answerable reply subject is a request, and that its
// actor may send it.
func (c *Config) admit(e *Endpoint, r micro.Request) *lifecycle.Error {
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
		return c.admitAccount(h.Get(headerOrigin), actors, e.actors == nil)
	case fromAccount: // the server maps the reply subject of each request on which it sets the header
		return forbidden("the request has the header %s, which only the server sets, and the reply subject %s", headerOrigin, r.Reply())
	case strings.HasPrefix(r.Reply(), mapped):
		return forbidden("a request to the reply subject %s has no header %s, which the server sets on those from another account", r.Reply(), headerOrigin)
	case c.AnyActor || slices.ContainsFunc(actors, func(a string) bool { return strings.HasPrefix(r.Reply(), bus.InboxPrefix(a)+".") }):
		return nil
	}
	return forbidden("the reply subject %s does not lie under %s., the inbox of the actor; connect with the inbox prefix %s (--inbox-prefix of the nats command)",
		r.Reply(), bus.InboxPrefix(actors[0]), bus.InboxPrefix(actors[0]))
}

// admitAccount checks that the account that a request came from is the actor's.
// Each actor has an account of its own, of its name unless Actors says whose it is. With AnyActor the local user
// may name any actor in a request of a client.
func (c *Config) admitAccount(origin string, actors []string, ofClient bool) *lifecycle.Error {
	var from struct {
		Account string `json:"acc"`
	}
	if err := json.Unmarshal([]byte(origin), &from); err != nil {
		return lifecycle.ErrBadRequest("the header %s is not what a NATS server writes: %v", headerOrigin, err)
	}
	if c.AnyActor && ofClient && from.Account == bus.LocalUser {
		return nil
	}
	account := from.Account
	if c.Actors != nil {
		name, known := c.Actors(account)
		if !known {
			return forbidden("the request came from the account %q, and the graph service does not know whose it is: copy the current accounts.json of coppice nats-config --jwt to the file that its --account-keys names",
				account)
		}
		account = name
	}
	if slices.Contains(actors, c.Access.Table().Actor(account)) {
		return nil
	}
	if user, ofFile := strings.CutPrefix(account, bus.UsersAccount("")); ofFile {
		return forbidden("the request came from the account %q, of a users file, and this graph service has no user %s: give it the users file of the NATS server's configuration (--users-file)", account, user)
	}
	if c.Actors == nil && nkeys.IsValidPublicAccountKey(account) {
		return forbidden("the request came from the account with the public key %s, and the graph service does not know whose it is: start it with --account-keys and the file accounts.json of coppice nats-config --jwt", account)
	}
	return forbidden("the request came from the account %q, and its actor is %s: each actor has an account of its own, of its name (see coppice nats-config)",
		account, strings.Join(actors, " or "))
}

func forbidden(format string, args ...any) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrForbidden, Message: fmt.Sprintf(format, args...)}
}
