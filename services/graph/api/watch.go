package api

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// watch serves a watch, or a page of the current objects. Each batch names an inbox of this
// service as its reply subject: clients do not reply, but the NATS server reports there
// that a client is gone.
func (s *streamsServer) watch(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.WatchRequest
	if err := q.read(&r); err != nil {
		return err
	}
	labels, err := labelsOf(r.GetLabelSelector())
	if err != nil {
		return err
	}
	if err := checkWatch(&r); err != nil {
		return err
	}
	if s.State.Kinds().Resource(resource(at)) == nil {
		return lifecycle.ErrUnknownKind(resource(at))
	}
	if r.GetPage() {
		return s.watchPage(q, at, &r, labels)
	}
	leave, err := s.c.Admit(at.Actor) // before a goroutine is started, because many requests may be refused
	if err != nil {
		return err
	}
	if !s.start(func() {
		defer leave()
		s.serveWatch(q, at, &r, labels)
	}) {
		leave()
		return s.stopping()
	}
	return nil
}

// checkWatch checks that the fields of a request do not contradict each other.
func checkWatch(r *coppicev1.WatchRequest) *lifecycle.Error {
	switch {
	case r.GetPage() && (r.GetFromRevision() != 0 || r.GetChangesOnly()):
		return lifecycle.ErrBadRequest("watch: page goes with neither from_revision nor changes_only")
	case r.GetContinue() != "" && !r.GetPage():
		return lifecycle.ErrBadRequest("watch: continue goes with page")
	case r.GetFromRevision() != 0 && r.GetChangesOnly():
		return lifecycle.ErrBadRequest("watch: changes_only goes without from_revision, which has the same effect")
	}
	return nil
}

// watchBytes is the approximate maximum size of a batch in bytes, so that many watches that
// begin at once use little memory. A larger object is sent as a batch of its own.
const watchBytes = 1 << 20

// batchBytes returns the maximum size in bytes of a batch in the encoding that the client
// accepts.
func batchBytes(q *request) int {
	n := min(q.maxPayload/2, watchBytes)
	if q.json {
		n /= 2
	}
	return n
}

// watchPage replies with a page of the current objects.
func (s *streamsServer) watchPage(q *request, at bus.API, r *coppicev1.WatchRequest, labels selector.Selector) *lifecycle.Error {
	after, err := decodeToken(r.GetContinue())
	if err != nil {
		return err
	}
	s.atLeast(q, r.GetMinRevision(), func(snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		kind := snap.Kinds().Resource(resource(at))
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(resource(at))
		}
		p := page{
			kind: kind, namespace: at.Namespace, labels: labels, uninitialized: r.GetIncludeUninitialized(), after: after,
			maxBytes: batchBytes(q), maxLooks: 1 << 18,
		}
		b := &coppicev1.WatchBatch{Revision: snap.Revision()}
		if next := p.each(snap, func(o lifecycle.Object) {
			b.Events = append(b.Events, &coppicev1.WatchEvent{Type: coppicev1.WatchEvent_TYPE_ADDED, Object: o.API()})
		}); next != (state.NameCursor{}) {
			b.Continue = encodeToken(next)
		}
		return b, nil
	})
	return nil
}

func (s *streamsServer) serveWatch(q *request, at bus.API, r *coppicev1.WatchRequest, labels selector.Selector) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	inbox := s.Conn.NewInbox()
	gone, err := s.Conn.Subscribe(inbox, func(m *nats.Msg) {
		if m.Header.Get("Status") == "503" {
			cancel()
		}
	})
	if err != nil {
		q.answer(nil, &lifecycle.Error{Reason: api.ErrInternalError, Message: err.Error()})
		return
	}
	defer func() { _ = gone.Unsubscribe() }()
	unflushed := 0
	send := func(b *coppicev1.WatchBatch) error {
		data, err := q.encode(b)
		if err != nil {
			return err
		}
		if err := s.Conn.PublishRequest(q.Reply(), inbox, data); err != nil {
			return err
		}
		// At most watchBytes of each watch are unacknowledged by the NATS server.
		if unflushed += len(data); unflushed < watchBytes {
			return nil
		}
		unflushed = 0
		flushing, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		return s.Conn.FlushWithContext(flushing)
	}
	limited, release := context.WithDeadline(ctx, s.until(watchTime))
	defer release()
	err = s.c.Watch(limited, watch.Target{
		Actor: at.Actor, Resource: resource(at), Namespace: at.Namespace, Labels: labels, Uninitialized: r.GetIncludeUninitialized(),
		From: r.GetFromRevision(), ChangesOnly: r.GetChangesOnly(), MinRevision: r.GetMinRevision(),
		Heartbeat: s.c.Heartbeat, MaxBytes: batchBytes(q), Send: send,
	})
	if ctx.Err() == nil || s.ctx.Err() != nil { // the client is still connected
		defer q.end()
	}
	var refusal *lifecycle.Error
	switch {
	case errors.As(err, &refusal):
		_ = send(&coppicev1.WatchBatch{Error: lifecycle.Truncate(refusal, q.maxError()).Status()})
	case ctx.Err() == nil && limited.Err() != nil: // the client watches again
	case ctx.Err() == nil:
		s.Log.Warn("watch ended", "realm", s.Realm, "resource", resource(at), "error", err)
		_ = send(&coppicev1.WatchBatch{Error: lifecycle.Truncate(s.unreadable(err), q.maxError()).Status()})
	case s.ctx.Err() != nil:
		_ = send(&coppicev1.WatchBatch{Error: (&lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "this replica is shutting down; watch again"}).Status()})
	}
}
