package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Target is what is watched, and who is told.
type Target struct {
	Resource  string
	Namespace string // empty: all
	Labels    selector.Selector
	// Uninitialized: also objects that are not initialized.
	Uninitialized bool
	// From is the revision after which changes are told; zero for the
	// objects as they are now, and then the changes.
	From uint64
	// Heartbeat is how often a batch is sent at least.
	Heartbeat time.Duration
	// MaxBytes is how large a batch may become, about.
	MaxBytes int
	// Send sends a batch. Its failure ends the watch.
	Send func(*coppicev1.WatchBatch) error
}

// DefaultHeartbeat is how often a watch says that it is alive.
const DefaultHeartbeat = 5 * time.Second

// batchSize is how many changes are told at once.
const batchSize = 500

// patience is how long a watch waits for the revision after which it begins.
const patience = 2 * time.Second

// Serve serves a watch until ctx ends or it fails. What the client should know
// of a failure is a *lifecycle.Error.
func (h *Hub) Serve(ctx context.Context, s *state.State, t Target) error {
	joining, cancel := context.WithTimeout(ctx, patience)
	at, err := h.join(joining, t.Resource, t.From)
	cancel()
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return &lifecycle.Error{
			Reason: lifecycle.ReasonNotReady, RetryAfter: 100 * time.Millisecond,
			Message: fmt.Sprintf("this replica has not reached revision %d yet; watch again", t.From),
		}
	case errors.Is(err, errExpired):
		return expired(t.From)
	case errors.Is(err, errTooMany):
		return &lifecycle.Error{Reason: lifecycle.ReasonOverloaded, Message: "too many watches are open; try again later", RetryAfter: time.Second}
	case err != nil:
		return err
	}
	defer h.leave(t.Resource)
	w := &session{t: t, last: at.revision}
	if t.From == 0 {
		w.last = 0
		if err := w.tellState(s, &at); err != nil {
			return err
		}
	}
	beat := time.NewTicker(t.Heartbeat)
	defer beat.Stop()
	for {
		changes, wait, err := h.collect(t.Resource, &at, batchSize)
		if err != nil {
			return expired(at.revision)
		}
		if len(changes) > 0 {
			if err := w.tell(changes, at.revision); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		case <-beat.C:
			if err := w.send(nil, at.revision); err != nil {
				return err
			}
		}
	}
}

func expired(revision uint64) error {
	return &lifecycle.Error{
		Reason:  lifecycle.ReasonExpired,
		Message: fmt.Sprintf("what happened since revision %d is not remembered any more; list again, and watch from the list's revision", revision),
	}
}

// session is a watch that is being told.
type session struct {
	t    Target
	last uint64 // revision of the batch before
}

func (w *session) send(events []*coppicev1.WatchEvent, revision uint64) error {
	b := &coppicev1.WatchBatch{PreviousRevision: w.last, Revision: revision, Events: events}
	w.last = revision
	return w.t.Send(b)
}

// tellState tells the objects as they are, and moves the place behind that.
func (w *session) tellState(s *state.State, at *place) error {
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
		if !w.t.sees(n) {
			return true
		}
		o := lifecycle.Object{Node: n, Body: snap.Body(n)}
		if !w.t.Labels.Matches(o.Body.GetLabels()) {
			return true
		}
		e := &coppicev1.WatchEvent{Type: coppicev1.WatchEvent_TYPE_ADDED, Object: o.API()}
		if size += proto.Size(e); size > w.t.MaxBytes || len(events) >= batchSize {
			// Not the whole state yet: nothing is told up to a revision.
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

// tell tells changes, in batches that fit into messages.
func (w *session) tell(changes []state.Change, revision uint64) error {
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
		events, size, last = append(events, e), size+n, changes[i].Revision
	}
	if len(events) == 0 {
		return nil // the heartbeat tells how far it is
	}
	return w.send(events, revision)
}

// sees reports whether the watch is told of an object, by its initialization (A8).
func (t *Target) sees(n *lifecycle.Node) bool { return t.Uninitialized || !n.Uninitialized() }

// event is what a change means to this watch, nil if nothing. An object that
// leaves the selector is told as deleted, with what it was (A9); one whose last
// initializer has gone as added (A8).
func (w *session) event(c *state.Change) *coppicev1.WatchEvent {
	n := c.After
	if n == nil {
		n = c.Before
	}
	if w.t.Namespace != "" && n.Namespace != w.t.Namespace {
		return nil
	}
	was := c.Before != nil && w.t.sees(c.Before) && w.t.Labels.Matches(c.BeforeBody.GetLabels())
	is := c.After != nil && w.t.sees(c.After) && w.t.Labels.Matches(c.AfterBody.GetLabels())
	e := &coppicev1.WatchEvent{Reason: c.Event.Reason}
	switch {
	case is && was:
		e.Type = coppicev1.WatchEvent_TYPE_MODIFIED
	case is:
		e.Type = coppicev1.WatchEvent_TYPE_ADDED
	case was:
		e.Type = coppicev1.WatchEvent_TYPE_DELETED
		e.Object = lifecycle.Object{Node: c.Before, Body: c.BeforeBody}.API()
		e.Object.Metadata.ResourceVersion = c.Revision
		return e
	default:
		return nil
	}
	e.Object = lifecycle.Object{Node: c.After, Body: c.AfterBody}.API()
	return e
}
