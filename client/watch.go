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

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// WatchOptions are options of Watch.
type WatchOptions struct {
	LabelSelector string
	// FromRevision is the revision after which changes are delivered; zero for
	// the objects as they are now, and then the changes.
	FromRevision uint64
	// Silence is how long nothing may come before the watch is restarted; 15 s.
	Silence time.Duration
}

// WatchEvent is a change of an object. Without an Object it says that everything
// up to Revision was delivered.
type WatchEvent struct {
	Type coppicev1.WatchEvent_Type
	// Object is the object as it is now, or, of one that was deleted or left the
	// selector, as it was before. Of one that was found to be gone after an
	// interruption it has only apiVersion, kind, namespace, name and uid.
	Object   *coppicev1.Object
	Reason   coppicev1.Reason
	Revision uint64
	// Synced is set in an event without an Object: all objects that there were when
	// the watch began have been delivered. After an interruption that could not be
	// made up for by the changes alone it comes again.
	Synced bool
}

// Watch iterates over what happens to objects. A consumer that applies every event
// to a cache, by namespace and name, has in it what List returns, up to what has not
// been delivered yet: also after a lost message, a restart of the server, a change of
// servers, and where it is slower than the changes. No object is delivered twice
// with the same revision, and none after a later revision of it.
//
// To that end a watch without FromRevision remembers the name, uid and revision of
// each object that it has delivered, in about 200 bytes. When it is interrupted and the
// server does not remember the changes since then, it reads all objects again, page by
// page, and delivers the difference, the deletions too, as the Replace of a client-go
// store does. Of more than 1,048,576 objects it remembers nothing once they all were
// delivered.
//
// Watch ends with the context, by the caller's break, or with an error. Forbidden says
// that the NATS user may not watch. With a patience (see WithPatience) a watch that no
// server serves for that long from its beginning on ends with the reason; one that was
// served goes on. Expired says
// that the changes since the last event are not remembered, neither by the server nor,
// because of FromRevision or of too many objects, by the watch: watch again without
// FromRevision, and drop what is not delivered before Synced.
//
// What the caller has not taken yet is kept up to 16 MiB; what comes beyond that is
// dropped and fetched again.
func (o *Objects) Watch(ctx context.Context, opts WatchOptions) iter.Seq2[WatchEvent, error] {
	if opts.Silence == 0 {
		opts.Silence = 15 * time.Second
	}
	return func(yield func(WatchEvent, error) bool) {
		w := watcher{o: o, opts: opts, revision: opts.FromRevision, reached: opts.FromRevision, complete: opts.FromRevision != 0, yield: yield}
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
			case errors.Is(err, Expired) && w.delivered != nil:
				w.complete = false // read all objects again
				continue
			case errors.As(err, &e) && !rpc.Retryable(err), errors.Is(err, nats.ErrConnectionClosed):
				yield(WatchEvent{}, err)
				return
			case !w.served && o.c.patience > 0 && time.Since(begun) >= o.c.patience && ctx.Err() == nil:
				if e == nil { // nothing came
					err = &Error{Reason: Timeout, Message: fmt.Sprintf("watch %s: no answer for %s", o.resource, o.c.patience)}
				}
				yield(WatchEvent{}, err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pauseAfter(e)):
			}
		}
	}
}

// pauseAfter is how long a watch waits after an interruption: 0.1 to 0.3 s, or about as
// long as the server asks for.
func pauseAfter(e *Error) time.Duration {
	pause := 200 * time.Millisecond
	if e != nil {
		pause = max(pause, e.RetryAfter)
	}
	return pause/2 + rand.N(pause)
}

// watcher is a watch, with what it knows over its sessions.
type watcher struct {
	o        *Objects
	opts     WatchOptions
	yield    func(WatchEvent, error) bool
	revision uint64 // every change up to it was delivered
	reached  uint64 // the highest revision that any replica has answered from
	complete bool   // the objects that there were have been delivered
	served   bool   // a server has answered
	// resumable says that the session has brought something since the objects that
	// there were have been delivered.
	resumable bool
	// delivered is what the caller has; nil if that is not remembered.
	delivered *delivered
}

var (
	// errGap is a lost message: the watch resumes from where it was.
	errGap = errors.New("a message was lost")
	// errBreak is the caller's break.
	errBreak = errors.New("break")
)

// Most that a watch keeps of what the caller has not taken.
const (
	pendingEvents = 1 << 16
	pendingBytes  = 16 << 20
)

// session watches until something is lost, and returns what.
func (w *watcher) session(ctx context.Context) error {
	w.resumable = false
	inbox := w.o.c.nc.NewInbox()
	sub, err := w.o.c.nc.SubscribeSync(inbox)
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
	subject := w.o.api(bus.VerbWatch).Subject()
	beginning, stop := rpc.Watched(ctx, w.o.c.nc, subject)
	defer stop()
	if err := w.o.c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Header: rpc.Header(subject, nil), Data: request}); err != nil {
		return err
	}
	if !w.complete {
		// The changes are on their way before the objects are read: none is missed,
		// and of those that come twice the earlier is left out.
		b, err := w.next(beginning, sub)
		if err != nil {
			return err
		}
		interrupted, err := w.readAll(ctx, b.GetRevision())
		if err != nil {
			return err
		}
		if interrupted {
			return errGap // do not wait for changes that may not come any more
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
		if err := w.deliver(WatchEvent{Revision: w.revision}); err != nil {
			return err
		}
	}
}

func (w *watcher) request() *coppicev1.WatchRequest {
	return &coppicev1.WatchRequest{LabelSelector: w.opts.LabelSelector, IncludeUninitialized: w.o.uninitialized}
}

// next waits for a batch. ctx is one of rpc.Watched.
func (w *watcher) next(ctx context.Context, sub *nats.Subscription) (*coppicev1.WatchBatch, error) {
	silence := w.opts.Silence
	if patience := w.o.c.patience; !w.served && patience > 0 {
		silence = min(silence, patience)
	}
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	m, err := sub.NextMsgWithContext(wait)
	if denied := rpc.DeniedBy(ctx); err != nil && denied != nil {
		return nil, denied
	}
	if err != nil {
		return nil, err
	}
	if m.Header.Get("Status") == "503" {
		return nil, &Error{Reason: NotReady, Message: "no graph service serves watches yet"}
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
		return nil, lifecycle.ErrorOf(b.GetError())
	}
	w.served = true
	return &b, nil
}

// readAll reads all objects, page by page, as fast as the caller takes them, and
// delivers those that it does not have, and the deletion of those that are gone. base
// is the revision after which the changes are on their way. interrupted reports that a
// server did not answer meanwhile: it may have been the one that sends the changes.
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
		if err := w.o.c.send(ctx, w.o.api(bus.VerbWatch), false, request, &b, func(err error) {
			interrupted = interrupted || errors.Is(err, NotReady) || errors.Is(err, Timeout)
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
	return interrupted, w.deliver(WatchEvent{Revision: base, Synced: true})
}

// changes delivers what changes mean to the caller, by what it has.
func (w *watcher) changes(events []*coppicev1.WatchEvent) error {
	for _, event := range events {
		all := []WatchEvent{{
			Type: event.GetType(), Object: event.GetObject(), Reason: event.GetReason(),
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

func (w *watcher) deliver(e WatchEvent) error {
	if !w.yield(e, nil) {
		return errBreak
	}
	return nil
}
