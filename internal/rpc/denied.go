package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
)

// A NATS server does not answer a message that a user may not publish. It reports
// the violation on the connection, without naming the request. So each request
// that waits for a reply is noted by its subject, and a violation for the subject
// ends the wait: the client's user may not publish there, and no reply will come.

// waits are the requests of one connection that wait for replies.
type waits struct {
	listen sync.Once
	mu     sync.Mutex
	of     map[string]map[*wait]struct{} // by subject
}

type wait struct{ cancel context.CancelCauseFunc }

// conns has the waits of each connection until the garbage collector frees the connection.
// No method of a connection is called while connsMu is locked: a method may wait for a
// write that blocks, and so would the requests on all other connections.
var (
	connsMu sync.Mutex
	conns   = map[weak.Pointer[nats.Conn]]*waits{}
)

// waitsOf returns the waits of a connection. At the first call for a connection it
// starts to listen for violations; the connection's own error handler is still called.
func waitsOf(nc *nats.Conn) *waits {
	key := weak.Make(nc)
	connsMu.Lock()
	w := conns[key]
	if w == nil {
		w = &waits{of: map[string]map[*wait]struct{}{}}
		conns[key] = w
		runtime.AddCleanup(nc, forget, key)
	}
	connsMu.Unlock()
	w.listen.Do(func() {
		next := nc.ErrorHandler()
		nc.SetErrorHandler(func(nc *nats.Conn, s *nats.Subscription, err error) {
			w.violated(nc, err)
			if next != nil {
				next(nc, s, err)
			}
		})
	})
	return w
}

// forget removes the waits of a connection that was freed.
func forget(nc weak.Pointer[nats.Conn]) {
	connsMu.Lock()
	defer connsMu.Unlock()
	delete(conns, nc)
}

// violated ends the requests to the subject that a violation names, or all requests
// if replies cannot be received.
func (w *waits) violated(nc *nats.Conn, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if subject, ok := named(err, "Publish"); ok {
		for one := range w.of[subject] {
			one.cancel(Denied(subject))
		}
		return
	}
	inbox := cmp.Or(nc.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	if subject, ok := named(err, "Subscription"); ok && strings.HasPrefix(subject, inbox+".") {
		for _, of := range w.of {
			for one := range of {
				one.cancel(noInbox(inbox))
			}
		}
	}
}

// named returns the subject that a violation names, if it is about an action.
func named(violation error, action string) (subject string, ok bool) {
	_, rest, ok := strings.Cut(violation.Error(), action+` to "`)
	subject, _, _ = strings.Cut(rest, `"`)
	return subject, ok
}

// noInbox is the error of a request to which no reply could be received.
func noInbox(prefix string) *api.Error {
	return &api.Error{Reason: api.ErrForbidden, Message: fmt.Sprintf(
		"the NATS user may not receive replies below %s: set the inbox prefix that the user's permissions allow (--inbox-prefix)", prefix)}
}

// Denied is the error of a request that the client's user may not make.
func Denied(subject string) *api.Error {
	e := &api.Error{Reason: api.ErrForbidden}
	what := "publish to " + subject
	if at, err := bus.ParseAPI(subject); err == nil {
		if at.Plural != "" {
			e.Resource = api.Kind{Group: at.Group, Plural: at.Plural}.Resource()
		}
		what = strings.TrimSpace(at.Verb+" "+e.Resource) + fmt.Sprintf(" as actor %q", at.Actor)
	}
	if bus.RealmOf(subject) == bus.SystemRealm {
		e.Message = fmt.Sprintf("the NATS user may not %s: the user's permissions do not allow it", what)
		return e
	}
	e.Message = fmt.Sprintf("the NATS user may not %s in realm %q: there is no such realm, or the user's permissions do not allow it", what, bus.RealmOf(subject))
	return e
}

// Watched returns a context that ends, with a Denied error as its cause, when the
// server refuses a message to the subject. stop releases it. Messages that are not
// requests of Send use it: those whose reply is a stream.
func Watched(ctx context.Context, nc *nats.Conn, subject string) (watched context.Context, stop func()) {
	w := waitsOf(nc)
	ctx, cancel := context.WithCancelCause(ctx)
	one := &wait{cancel}
	w.mu.Lock()
	if w.of[subject] == nil {
		w.of[subject] = map[*wait]struct{}{}
	}
	w.of[subject][one] = struct{}{}
	w.mu.Unlock()
	return ctx, func() {
		w.mu.Lock()
		if delete(w.of[subject], one); len(w.of[subject]) == 0 {
			delete(w.of, subject)
		}
		w.mu.Unlock()
		cancel(nil)
	}
}

// DeniedBy returns the Denied error that ended a context of Watched, nil if
// something else did.
func DeniedBy(ctx context.Context) error {
	var e *api.Error
	if errors.As(context.Cause(ctx), &e) && e.Reason == api.ErrForbidden {
		return e
	}
	return nil
}
