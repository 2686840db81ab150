package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
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
		w := watcher{
			watching: watching{c: r.c, name: "watch " + r.resource.String(), idle: o.IdleTimeout, onError: o.OnError},
			r:        r, opts: o, revision: o.FromRevision, reached: o.FromRevision, complete: o.FromRevision != 0, yield: yield,
		}
		if !w.complete {
			w.delivered = newDelivered()
		}
		err := w.repeat(ctx, w.session, func() bool {
			if w.delivered != nil {
				w.complete = false // read all objects again
			}
			return w.delivered != nil
		})
		if err != nil {
			yield(WatchEvent{}, err)
		}
	}
}

// watcher is the state of a watch that outlives its sessions.
type watcher struct {
	watching
	r        *resourceClient
	opts     WatchOptions
	yield    func(WatchEvent, error) bool
	revision uint64 // every change up to it has been delivered
	reached  uint64 // the highest revision from which a replica has replied
	complete bool   // the objects that existed at the start have been delivered
	// delivered has the objects that the caller has; nil if they are not remembered.
	delivered *delivered
}

// session watches until something is lost, and returns the reason.
func (w *watcher) session(ctx context.Context) error {
	r := w.request()
	if w.complete {
		r.FromRevision = w.revision
	} else {
		r.ChangesOnly, r.MinRevision = true, w.reached
	}
	in, err := w.open(ctx, w.r.api(bus.VerbWatch), r)
	if err != nil {
		return err
	}
	defer in.close()
	if !w.complete {
		// The watch starts before the objects are read, so that no change is missed. Of a
		// change and an object that was read, the older one is dropped.
		var b coppicev1.WatchBatch
		if err := in.next(&b); err != nil {
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
		var b coppicev1.WatchBatch
		if err := in.next(&b); err != nil {
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
