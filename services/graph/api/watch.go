package api

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// watch serves a watch to the inbox of the request. Each batch names an inbox
// of ours for its reply: nobody replies, but when the client is gone the server
// tells us so there.
func (s *replicaServer) watch(q *request) {
	at, err := s.target(q)
	var r coppicev1.WatchRequest
	if err == nil {
		err = q.read(&r)
	}
	labels, fail := selector.Parse(r.GetLabelSelector())
	if err == nil && fail != nil {
		err = lifecycle.ErrBadRequest("%v", fail)
	}
	if err == nil && s.State.Kinds().Resource(resource(at)) == nil {
		err = lifecycle.ErrUnknownKind(resource(at))
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	if !s.start(func() { s.serveWatch(q, at, &r, labels) }) {
		q.answer(nil, s.stopping())
	}
}

func (s *replicaServer) serveWatch(q *request, at bus.API, r *coppicev1.WatchRequest, labels selector.Selector) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	inbox := s.nc.NewInbox()
	gone, err := s.nc.Subscribe(inbox, func(m *nats.Msg) {
		if m.Header.Get("Status") == "503" {
			cancel()
		}
	})
	if err != nil {
		q.answer(nil, &lifecycle.Error{Reason: lifecycle.ReasonInternal, Message: err.Error()})
		return
	}
	defer func() { _ = gone.Unsubscribe() }()
	send := func(b *coppicev1.WatchBatch) error {
		data, err := q.encode(b)
		if err != nil {
			return err
		}
		return s.nc.PublishRequest(q.Reply(), inbox, data)
	}
	maxBytes := q.maxPayload / 2
	if q.json {
		maxBytes /= 2
	}
	err = s.r.Watch(ctx, watch.Target{
		Resource: resource(at), Namespace: at.Namespace, Labels: labels, Uninitialized: r.GetIncludeUninitialized(), From: r.GetFromRevision(),
		Heartbeat: s.r.Heartbeat, MaxBytes: maxBytes, Send: send,
	})
	var refusal *lifecycle.Error
	switch {
	case errors.As(err, &refusal):
		_ = send(&coppicev1.WatchBatch{Error: refusal.Truncated(q.maxError()).Status()})
	case ctx.Err() == nil:
		s.Log.Warn("watch ended", "realm", s.Realm, "resource", resource(at), "error", err)
		_ = send(&coppicev1.WatchBatch{Error: s.unreadable(err).Truncated(q.maxError()).Status()})
	case s.ctx.Err() != nil:
		_ = send(&coppicev1.WatchBatch{Error: (&lifecycle.Error{Reason: lifecycle.ReasonNotReady, Message: "this replica is shutting down; watch again"}).Status()})
	}
}
