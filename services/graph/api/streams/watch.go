package streams

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
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// Watch serves a watch, or a page of the current objects. Each batch names an inbox of this
// service as its reply subject: clients do not reply, but the NATS server reports there
// that a client is gone.
func (s *Server) Watch(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.WatchRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	labels, err := serve.ParseLabels(r.GetLabelSelector())
	if err != nil {
		return err
	}
	if err := checkWatch(&r); err != nil {
		return err
	}
	if s.State.Kinds().Resource(serve.Resource(at)) == nil {
		return lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	if r.GetPage() {
		return s.watchPage(q, at, &r, labels)
	}
	return s.admitted(at, func() { s.serveWatch(q, at, &r, labels) })
}

// admitted starts a watch if there is a place for it.
func (s *Server) admitted(at bus.API, serve func()) *lifecycle.Error {
	leave, err := s.c.Admit(at.Actor) // before a goroutine is started, because many requests may be refused
	if err != nil {
		return err
	}
	if !s.Start(func() {
		defer leave()
		serve()
	}) {
		leave()
		return s.ErrStopping()
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
func batchBytes(q *serve.Request) int {
	n := min(q.MaxPayload/2, watchBytes)
	if q.JSON {
		n /= 2
	}
	return n
}

// watchPage replies with a page of the current objects.
func (s *Server) watchPage(q *serve.Request, at bus.API, r *coppicev1.WatchRequest, labels selector.Selector) *lifecycle.Error {
	after, err := serve.DecodeToken(r.GetContinue())
	if err != nil {
		return err
	}
	s.AtLeast(s.Pages, q, r.GetMinRevision(), func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		kind := snap.Kinds().Resource(serve.Resource(at))
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(serve.Resource(at))
		}
		if err := q.Allows(at, kind); err != nil {
			return nil, err
		}
		p := serve.Page{
			Kind: kind, Namespace: at.Namespace, Labels: labels, Uninitialized: r.GetIncludeUninitialized(), After: after,
			MaxBytes: batchBytes(q), MaxLooks: 1 << 18,
		}
		b := &coppicev1.WatchBatch{Revision: snap.Revision()}
		if next := p.Each(snap, func(o lifecycle.Object) {
			b.Events = append(b.Events, &coppicev1.WatchEvent{Type: coppicev1.WatchEvent_TYPE_ADDED, Object: o.API()})
		}); next != (state.NameCursor{}) {
			b.Continue = serve.EncodeToken(next)
		}
		return b, nil
	})
	return nil
}

func (s *Server) serveWatch(q *serve.Request, at bus.API, r *coppicev1.WatchRequest, labels selector.Selector) {
	s.sendWatch(q, at, func(ctx context.Context, send func(proto.Message) error) error {
		return s.c.Watch(ctx, watch.Target{
			Actor: at.Actor, Resource: serve.Resource(at), Namespace: at.Namespace, Labels: labels, Uninitialized: r.GetIncludeUninitialized(),
			May:  func(namespace string) bool { return q.RulesNow().May(bus.VerbWatch, serve.Resource(at), namespace) },
			From: r.GetFromRevision(), ChangesOnly: r.GetChangesOnly(), MinRevision: r.GetMinRevision(),
			Heartbeat: s.c.Heartbeat, MaxBytes: batchBytes(q), Send: func(b *coppicev1.WatchBatch) error { return send(b) },
		})
	}, func(why *coppicev1.Status) proto.Message { return &coppicev1.WatchBatch{Error: why} })
}

// sendWatch sends the batches of a watch until run returns, its time is over or the client is gone. failed
// returns the last batch of a watch that has failed.
func (s *Server) sendWatch(
	q *serve.Request, at bus.API, run func(ctx context.Context, send func(proto.Message) error) error, failed func(*coppicev1.Status) proto.Message,
) {
	ctx, cancel := context.WithCancel(s.Context)
	defer cancel()
	inbox := s.Conn.NewInbox()
	gone, err := s.Conn.Subscribe(inbox, func(m *nats.Msg) {
		if m.Header.Get("Status") == "503" {
			cancel()
		}
	})
	if err != nil {
		q.Answer(nil, &lifecycle.Error{Reason: api.ErrInternalError, Message: err.Error()})
		return
	}
	defer func() { _ = gone.Unsubscribe() }()
	unflushed := 0
	send := func(b proto.Message) error {
		data, err := q.Encode(b)
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
		flushing, cancel := context.WithTimeout(ctx, serve.ReadTime)
		defer cancel()
		return s.Conn.FlushWithContext(flushing)
	}
	limited, release := context.WithDeadline(ctx, s.until(watchTime))
	defer release()
	err = run(limited, send)
	if ctx.Err() == nil || s.Context.Err() != nil { // the client is still connected
		defer q.End()
	}
	var refusal *lifecycle.Error
	switch {
	case errors.As(err, &refusal):
		_ = send(failed(lifecycle.Truncate(refusal, q.MaxError()).Status()))
	case ctx.Err() == nil && limited.Err() != nil: // the client watches again
	case ctx.Err() == nil:
		s.Log.Warn("watch ended", "realm", s.Realm, "verb", at.Verb, "resource", serve.Resource(at), "error", err)
		_ = send(failed(lifecycle.Truncate(s.ErrUnreadable(err), q.MaxError()).Status()))
	case s.Context.Err() != nil:
		_ = send(failed((&lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "this replica is shutting down; watch again"}).Status()))
	}
}
