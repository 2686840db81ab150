package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Target says what to watch and how to send it.
type Target struct {
	// Actor is the actor that watches. It counts for the limits of each actor.
	Actor     string
	Resource  string
	Namespace string // empty: all
	Labels    selector.Selector
	// May reports whether the actor may watch objects of the resource in a namespace now; nil for all.
	May func(namespace string) bool
	// Uninitialized: also objects that are not initialized.
	Uninitialized bool
	// From is the revision after which changes are sent. If it is zero, the current objects
	// are sent first.
	From uint64
	// ChangesOnly leaves out the current objects: the first batch is empty, and has the
	// revision after which changes are sent.
	ChangesOnly bool
	// MinRevision is the revision for which the watch waits before it begins.
	MinRevision uint64
	// Heartbeat is the maximum time between two batches.
	Heartbeat time.Duration
	// MaxBytes is the approximate maximum size of a batch in bytes.
	MaxBytes int
	// Send sends a batch. An error ends the watch.
	Send func(*coppicev1.WatchBatch) error
}

// DefaultHeartbeat is the default maximum time between two batches.
const DefaultHeartbeat = 5 * time.Second

// revisionTimeout is the time for which a watch waits for the revision after which it
// begins; stateTimeout is the time for which it waits for its turn to send the current
// objects.
const (
	revisionTimeout = 2 * time.Second
	stateTimeout    = 10 * time.Second
)

// Admit takes a place for a watch of an actor, which leave releases. If no place is free,
// it returns a retryable error. It starts no goroutine, so that many refused watches cost
// little.
func (h *Hub) Admit(actor string) (leave func(), err *lifecycle.Error) {
	if err := h.watches.Try(actor); err != nil {
		return nil, h.tooMany(actor, err)
	}
	return func() { h.watches.Release(actor) }, nil
}

// Serve serves a watch that Admit has admitted, until ctx ends or it fails. An error that
// the client should receive is a *lifecycle.Error.
func (h *Hub) Serve(ctx context.Context, s *state.State, t Target) error {
	at, err := h.enter(ctx, start{resource: t.Resource, from: t.From, min: t.MinRevision})
	if err != nil {
		return err
	}
	defer h.leave(at)
	w := &session{t: t, last: at.revision}
	switch {
	case t.From != 0:
	case t.ChangesOnly:
		w.last = 0
		if err := w.send(nil, at.revision); err != nil {
			return err
		}
	default:
		w.last = 0
		if err := h.sendState(ctx, s, w, at); err != nil {
			return err
		}
	}
	return h.follow(ctx, w, at, t.Heartbeat)
}

// enter is join, with the errors that a client receives.
func (h *Hub) enter(ctx context.Context, t start) (*place, error) {
	joining, cancel := context.WithTimeout(ctx, revisionTimeout)
	defer cancel()
	at, err := h.join(joining, t)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, &lifecycle.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
			Message: fmt.Sprintf("this replica has not reached revision %d yet; watch again", max(t.from, t.min)),
		}
	case errors.Is(err, errExpired):
		return nil, expired(t.from)
	}
	return at, err
}

// batches encodes and sends the batches of a watch.
type batches interface {
	// sendChanges sends changes, in batches that fit into messages.
	sendChanges(changes []record, revision uint64) error
	// beat sends a batch without changes.
	beat(revision uint64) error
}

// follow sends the changes from a place on, until ctx ends or it fails.
func (h *Hub) follow(ctx context.Context, w batches, at *place, heartbeat time.Duration) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		wait, err := h.sendChanges(ctx, w, at)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		case <-beat.C:
			if err := w.beat(at.revision); err != nil {
				return err
			}
		}
	}
}

// sendChanges sends the changes in the queue, and returns the channel to wait for next. At
// most Limits.Sending watches do it at the same time, which bounds the memory of changes
// that are being encoded.
func (h *Hub) sendChanges(ctx context.Context, w batches, at *place) (wait <-chan struct{}, err error) {
	for {
		if err := h.sending.Acquire(ctx, ""); err != nil {
			return nil, err
		}
		changes, wait, err := h.collect(at)
		switch {
		case err != nil:
			err = expired(at.revision)
		case len(changes) > 0:
			err = w.sendChanges(changes, at.revision)
		}
		h.sending.Release("")
		if err != nil || len(changes) == 0 {
			return wait, err
		}
	}
}

func expired(revision uint64) error {
	return &lifecycle.Error{
		Reason:  api.ErrExpired,
		Message: fmt.Sprintf("the changes since revision %d are no longer stored; list again, and watch from the revision of the list", revision),
	}
}

// session is a watch that is being served.
type session struct {
	t    Target
	last uint64 // revision of the batch before
}

func (w *session) send(events []*coppicev1.WatchEvent, revision uint64) error {
	b := &coppicev1.WatchBatch{PreviousRevision: w.last, Revision: revision, Events: events}
	w.last = revision
	return w.t.Send(b)
}

func (w *session) beat(revision uint64) error { return w.send(nil, revision) }

// sendState sends the current objects, and moves the place behind them. At most
// Limits.States watches do it at the same time, each with a snapshot and one batch in
// memory.
func (h *Hub) sendState(ctx context.Context, s *state.State, w *session, at *place) error {
	waiting, cancel := context.WithTimeout(ctx, stateTimeout)
	err := h.states.Acquire(waiting, w.t.Actor)
	cancel()
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &lifecycle.Error{
			Reason: api.ErrTooManyRequests, RetryAfter: time.Second,
			Message: of(err) + ": too many watches are sending their initial objects at the same time; watch again later",
		}
	}
	defer h.states.Release(w.t.Actor)
	snap := s.Snapshot()
	defer snap.Close()
	if err := snap.Err(); err != nil {
		return err
	}
	kind := snap.Kinds().Resource(w.t.Resource)
	if kind == nil {
		return lifecycle.ErrUnknownKind(w.t.Resource)
	}
	var events []*coppicev1.WatchEvent
	var fail error
	size := 0
	snap.Nodes(kind, w.t.Namespace, state.NameCursor{}, func(n *lifecycle.Node) bool {
		if fail = ctx.Err(); fail != nil {
			return false
		}
		if !w.t.sees(n) || !w.t.may(n) {
			return true
		}
		o := lifecycle.Object{Node: n, Body: snap.Body(n)}
		if !w.t.Labels.Matches(o.Body.GetLabels()) {
			return true
		}
		e := &coppicev1.WatchEvent{Type: coppicev1.WatchEvent_TYPE_ADDED, Object: o.API()}
		if size += proto.Size(e); len(events) > 0 && size > w.t.MaxBytes || len(events) >= batchSize {
			// The state is incomplete: the batch has no revision.
			fail = w.t.Send(&coppicev1.WatchBatch{Events: events})
			events, size = nil, proto.Size(e)
		}
		events = append(events, e)
		return fail == nil
	})
	if err := errors.Join(fail, snap.Err()); err != nil {
		return err
	}
	at.revision = max(at.revision, snap.Revision())
	return w.send(events, at.revision)
}

func (w *session) sendChanges(changes []record, revision uint64) error {
	var events []*coppicev1.WatchEvent
	size := 0
	last := w.last
	for i := range changes {
		e := w.event(&changes[i])
		if e == nil {
			continue
		}
		n := proto.Size(e)
		if len(events) > 0 && size+n > w.t.MaxBytes {
			if err := w.send(events, last); err != nil {
				return err
			}
			events, size = nil, 0
		}
		events, size, last = append(events, e), size+n, changes[i].revision
	}
	if len(events) == 0 {
		return nil // the next heartbeat has the new revision
	}
	return w.send(events, revision)
}

// sees reports whether the watch includes an object, by its initialization (A8).
// may reports whether the actor may watch an object.
func (t *Target) may(n *lifecycle.Node) bool { return t.May == nil || t.May(n.Namespace) }

func (t *Target) sees(n *lifecycle.Node) bool { return t.Uninitialized || !n.Uninitialized() }

// event returns the event of a change for this watch, nil if it has none. An object that
// does not match the selector any more is deleted, with its previous content (A9). An object
// whose last initializer was removed is added (A8).
func (w *session) event(c *record) *coppicev1.WatchEvent {
	n := c.after
	if n == nil {
		n = c.before
	}
	if w.t.Namespace != "" && n.Namespace != w.t.Namespace || !w.t.may(n) {
		return nil
	}
	was := c.before != nil && w.t.sees(c.before) && w.t.Labels.Matches(c.beforeBody.GetLabels())
	if c.before != nil && c.beforeBody == nil && c.afterBody == nil { // it is unreadable (B8.3)
		if c.after != nil {
			return nil
		}
		was = w.t.sees(c.before) // any watch may have seen it
	}
	is := c.after != nil && w.t.sees(c.after) && w.t.Labels.Matches(c.afterBody.GetLabels())
	e := &coppicev1.WatchEvent{Reason: c.reason}
	switch {
	case is && was:
		e.Type = coppicev1.WatchEvent_TYPE_MODIFIED
	case is:
		e.Type = coppicev1.WatchEvent_TYPE_ADDED
	case was:
		e.Type = coppicev1.WatchEvent_TYPE_DELETED
		e.Object = lifecycle.Object{Node: c.before, Body: c.beforeBody}.API()
		e.Object.Metadata.ResourceVersion = c.revision
		return e
	default:
		return nil
	}
	e.Object = lifecycle.Object{Node: c.after, Body: c.afterBody}.API()
	return e
}
