package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// EventType is the type of a WatchEvent. The values are those of Kubernetes.
type EventType string

// The types of watch events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	// Bookmark has no object. Every change up to its revision has been delivered.
	Bookmark EventType = "BOOKMARK"
)

// WatchEvent is a change of an object, or a bookmark.
type WatchEvent struct {
	Type EventType
	// Object is the object after the change. If it was deleted, or no longer matches
	// the selector, it is the object before the change. If the watch noticed a deletion
	// after an interruption, it has only apiVersion, kind, namespace, name and uid. Nil
	// for a Bookmark.
	Object *Object
	// Reason says why the object changed, such as REASON_OWNER_ABSENT.
	Reason coppicev1.Reason
	// Revision is the revision of the change.
	Revision uint64
	// Synced is set in a Bookmark when every object that existed when the watch
	// started has been delivered. After an interruption that the server's
	// memory of changes does not cover, there is another one.
	Synced bool
}

// defaultIdleTimeout is that of Watch. The service sends a message every 5 s.
const defaultIdleTimeout = 15 * time.Second

// Watch keeps a cache equal to what List returns, if the caller applies every event by
// namespace and name. That is true after lost messages, restarts and changes of servers,
// and for callers that are slower than the changes. No object is delivered twice with
// the same revision, or with a revision older than the last one.
//
// A watch without FromRevision remembers the name, uid and revision of each object that
// it has delivered, in about 200 bytes. After an interruption for which the server no
// longer has the changes, it reads all objects again, page by page, and delivers the
// difference with deletions, as Replace of a client-go store does. It does not
// remember more than 1,048,576 objects after all have been delivered.
//
// Watch returns when ctx ends, when the caller breaks, or with an error. ErrForbidden says
// that the NATS user may not watch. With WithRetryTimeout, Watch returns the reason if no
// server has replied for that long since the call; a watch that was served continues.
// ErrExpired says that the changes since the last event are lost, and that the watch cannot
// deliver the difference, because it began with FromRevision or has too many objects. Watch
// again without FromRevision, and remove the objects from the cache that are not delivered
// before the next event with Synced.
//
// Up to 16 MiB of events wait for the caller. Further events are dropped and read again.
func (r *resourceClient) Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		if r.c.past != nil {
			yield(WatchEvent{}, r.c.errPast(bus.VerbWatch))
			return
		}
		o := collect(opts, WatchOption.ApplyToWatch)
		if o.IdleTimeout == 0 {
			o.IdleTimeout = defaultIdleTimeout
		}
		w := watcher{r: r, opts: o, revision: o.FromRevision, reached: o.FromRevision, complete: o.FromRevision != 0, yield: yield}
		if !w.complete {
			w.delivered = newDelivered()
		}
		begun := time.Now()
		for ctx.Err() == nil {
			err := w.session(ctx)
			var e *Error
			switch {
			case errors.Is(err, errBreak):
				return
			case w.resumable && err == errEnded: //nolint:errorlint // this very one
				continue // the server ends each watch after a while
			case errors.Is(err, ErrExpired) && w.delivered != nil:
				w.complete = false // read all objects again
				r.c.report(err, o.OnError)
				continue
			case errors.As(err, &e) && !rpc.Retryable(err), errors.Is(err, nats.ErrConnectionClosed):
				yield(WatchEvent{}, err)
				return
			case !w.served && r.c.retryTimeout > 0 && time.Since(begun) >= r.c.retryTimeout && ctx.Err() == nil:
				if e == nil { // no message came
					err = &Error{Reason: ErrTimeout, Message: fmt.Sprintf("watch %s: no reply for %s", r.resource, r.c.retryTimeout)}
				}
				yield(WatchEvent{}, err)
				return
			}
			if ctx.Err() == nil {
				r.c.report(err, o.OnError)
			}
			select {
			case <-ctx.Done():
			case <-time.After(pauseAfter(e)):
			}
		}
	}
}

// pauseAfter returns the pause of a watch after an interruption: 0.1 to 0.3 s, or about
// as long as the server asks for.
func pauseAfter(e *Error) time.Duration {
	pause := 200 * time.Millisecond
	if e != nil {
		pause = max(pause, e.RetryAfter)
	}
	return pause/2 + rand.N(pause)
}

// watcher is the state of a watch that outlives its sessions.
type watcher struct {
	r        *resourceClient
	opts     WatchOptions
	yield    func(WatchEvent, error) bool
	revision uint64 // every change up to it has been delivered
	reached  uint64 // the highest revision from which a replica has replied
	complete bool   // the objects that existed at the start have been delivered
	served   bool   // a server has replied
	// resumable reports that the session has had a message since the objects that existed
	// at its start were delivered.
	resumable bool
	// delivered has the objects that the caller has; nil if they are not remembered.
	delivered *delivered
}

var (
	// errGap is a lost message: the watch resumes after its revision.
	errGap = errors.New("a message was lost")
	// errBreak is the caller's break.
	errBreak = errors.New("break")
)

// The limits of what waits for the caller.
const (
	pendingEvents = 1 << 16
	pendingBytes  = 16 << 20
)

// session watches until something is lost, and returns the reason.
func (w *watcher) session(ctx context.Context) error {
	w.resumable = false
	inbox := w.r.c.nc.NewInbox()
	sub, err := w.r.c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sub.SetPendingLimits(pendingEvents, pendingBytes); err != nil {
		return err
	}
	r := w.request()
	if w.complete {
		r.FromRevision = w.revision
	} else {
		r.ChangesOnly, r.MinRevision = true, w.reached
	}
	request, err := rpc.Encode(r)
	if err != nil {
		return err
	}
	at := w.r.api(bus.VerbWatch)
	if err := at.CheckTarget(); err != nil {
		return &Error{Reason: ErrBadRequest, Message: err.Error()}
	}
	subject := at.Subject()
	beginning, stop := rpc.Watched(ctx, w.r.c.nc, subject)
	defer stop()
	if err := w.r.c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Header: rpc.Header(subject, nil), Data: request}); err != nil {
		return err
	}
	if !w.complete {
		// The watch starts before the objects are read, so that no change is missed. Of a
		// change and an object that was read, the older one is dropped.
		b, err := w.next(beginning, sub)
		if err != nil {
			return err
		}
		interrupted, err := w.readAll(ctx, b.GetRevision())
		if err != nil {
			return err
		}
		if interrupted {
			return errGap // the server that sends the changes may be gone
		}
	}
	for {
		b, err := w.next(beginning, sub)
		if err != nil {
			return err
		}
		if b.GetPreviousRevision() != w.revision {
			return errGap
		}
		if err := w.changes(b.GetEvents()); err != nil {
			return err
		}
		w.resumable = true
		w.revision = b.GetRevision()
		w.reached = max(w.reached, w.revision)
		if w.delivered.tooMany() && w.revision >= w.reached {
			w.delivered = nil
		}
		if err := w.deliver(WatchEvent{Type: Bookmark, Revision: w.revision}); err != nil {
			return err
		}
	}
}

func (w *watcher) request() *coppicev1.WatchRequest {
	return &coppicev1.WatchRequest{LabelSelector: w.opts.LabelSelector, IncludeUninitialized: w.opts.IncludeUninitialized}
}

// next waits for a batch. ctx is one of rpc.Watched.
func (w *watcher) next(ctx context.Context, sub *nats.Subscription) (*coppicev1.WatchBatch, error) {
	silence := w.opts.IdleTimeout
	if limit := w.r.c.retryTimeout; !w.served && limit > 0 {
		silence = min(silence, limit)
	}
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	m, err := sub.NextMsgWithContext(wait)
	denied := rpc.DeniedBy(ctx)
	switch {
	case err != nil && denied != nil:
		return nil, denied
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &Error{Reason: ErrServiceUnavailable, Message: fmt.Sprintf("watch: no graph service serves realm %q: there is no such realm, it is just starting, or it has failed; /readyz and the log of the graph service say why", w.r.c.realm)}
	case err != nil:
		return nil, err
	}
	if err := rpc.Refusal(m); err != nil {
		return nil, err
	}
	if len(m.Data) == 0 && len(m.Header) == 0 {
		return nil, errEnded
	}
	var b coppicev1.WatchBatch
	if err := proto.Unmarshal(m.Data, &b); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	if b.GetError() != nil {
		return nil, api.ErrorOf(b.GetError())
	}
	w.served = true
	return &b, nil
}

// readAll reads all objects, page by page, at the caller's pace. It delivers those that the
// caller does not have, and the deletion of those that no longer exist. base is the
// revision after which the session's changes begin. interrupted reports that a server
// did not reply meanwhile: it may be the one that sends the changes.
func (w *watcher) readAll(ctx context.Context, base uint64) (interrupted bool, err error) {
	w.reached = max(w.reached, base)
	w.delivered.begin()
	for next, more := "", true; more; more = next != "" {
		r := w.request()
		r.Page, r.Continue, r.MinRevision = true, next, w.reached
		var b coppicev1.WatchBatch
		request, err := encode(r)
		if err != nil {
			return interrupted, err
		}
		if err := w.r.c.send(ctx, w.r.api(bus.VerbWatch), request, &b, func(err error) {
			interrupted = interrupted || errors.Is(err, ErrServiceUnavailable) || errors.Is(err, ErrTimeout)
		}); err != nil {
			return interrupted, err
		}
		if err := w.changes(b.GetEvents()); err != nil {
			return interrupted, err
		}
		w.reached = max(w.reached, b.GetRevision())
		next = b.GetContinue()
	}
	for key, d := range w.delivered.unseen() {
		delete(w.delivered.objects, key)
		if err := w.deliver(d.gone(key, w.reached)); err != nil {
			return interrupted, err
		}
	}
	w.revision, w.complete = base, true
	return interrupted, w.deliver(WatchEvent{Type: Bookmark, Revision: base, Synced: true})
}

// changes delivers changes, relative to what the caller has.
func (w *watcher) changes(events []*coppicev1.WatchEvent) error {
	for _, event := range events {
		all := []WatchEvent{{
			Type: eventType(event.GetType()), Object: event.GetObject(), Reason: event.GetReason(),
			Revision: event.GetObject().GetMetadata().GetResourceVersion(),
		}}
		if w.delivered != nil {
			all = w.delivered.apply(all[0])
		}
		for _, e := range all {
			if err := w.deliver(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventType returns the type of an event on the wire.
func eventType(t coppicev1.WatchEvent_Type) EventType {
	switch t {
	case coppicev1.WatchEvent_TYPE_ADDED:
		return Added
	case coppicev1.WatchEvent_TYPE_DELETED:
		return Deleted
	}
	return Modified
}

func (w *watcher) deliver(e WatchEvent) error {
	if !w.yield(e, nil) {
		return errBreak
	}
	return nil
}
