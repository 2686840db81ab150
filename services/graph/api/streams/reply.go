package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// sender sends the messages of a streamed reply. It is not safe for concurrent use.
type sender struct {
	s     *Server
	q     *serve.Request
	inbox string // where the server reports that the client is gone
	sent  time.Time
}

// send sends a message. After an error the reply has ended.
func (o *sender) send(m proto.Message) error {
	data, err := o.q.Encode(m)
	if err != nil {
		return err
	}
	if len(data) > o.q.MaxPayload-serve.ReplyMargin {
		return &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf("a part of the reply has %d bytes and does not fit into a message", len(data))}
	}
	if len(data) == 0 {
		return fmt.Errorf("a %s without content would end the reply", m.ProtoReflect().Descriptor().Name())
	}
	o.sent = time.Now()
	return o.s.Conn.PublishRequest(o.q.Reply(), o.inbox, data)
}

// room returns how many bytes of content a message of the reply should have at most.
func (o *sender) room() int {
	n := min(o.q.MaxPayload/2, maxStreamed)
	if o.q.JSON {
		n /= 2
	}
	return n
}

// maxStreamed is the size in bytes that messages of streamed replies do not exceed, unless
// a message has a single larger commit. With messages of this size a client handles one
// while the next is sent.
const maxStreamed = 1 << 20

// stream replies with many messages, which report sends. The context of report ends when the
// service stops or the client is gone. Each message names an inbox as its reply subject:
// clients do not reply, but the NATS server reports there that a client is gone.
//
// The reply ends as Replier.End says.
func (s *Server) stream(q *serve.Request, release func(), report func(ctx context.Context, out *sender) error, failed func(*coppicev1.Status) proto.Message) {
	if q.Reply() == "" {
		release()
		return
	}
	if !s.Start(func() {
		defer release()
		ctx, cancel := context.WithCancel(s.Context)
		defer cancel()
		out := &sender{s: s, q: q, inbox: s.Conn.NewInbox()}
		gone, err := s.Conn.Subscribe(out.inbox, func(m *nats.Msg) {
			if m.Header.Get("Status") == "503" {
				cancel()
			}
		})
		if err != nil {
			q.Answer(nil, &lifecycle.Error{Reason: api.ErrInternalError, Message: err.Error()})
			return
		}
		defer func() { _ = gone.Unsubscribe() }()
		if why := s.ending(ctx, q, report(ctx, out)); why != nil {
			_ = out.send(failed(why.Status()))
		}
		if ctx.Err() == nil || s.Context.Err() != nil {
			q.End()
		}
	}) {
		release()
		q.Answer(nil, s.ErrStopping())
	}
}

// ending returns the error that a client receives at the end of a streamed reply, nil for
// none.
func (s *Server) ending(ctx context.Context, q *serve.Request, err error) *lifecycle.Error {
	var refusal *lifecycle.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		return refusal
	case s.Context.Err() != nil:
		return &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "this replica is shutting down; ask again", RetryAfter: 100 * time.Millisecond}
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the client is gone
	}
	s.Log.Warn("a streamed reply failed", "realm", s.Realm, "subject", q.Subject(), "error", err)
	if bus.IsNotReady(err) {
		return &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: err.Error(), RetryAfter: 250 * time.Millisecond}
	}
	return s.ErrUnreadable(err)
}

// The maximum duration of a watch, and of a reply with commits or warnings. The client then
// continues with another request. Without a maximum the service would not notice that a
// client in another account is gone: the NATS server (2.15.2) reports that a reply has no
// receiver only within one account. Until then the reply uses one of the actor's places:
// 1,024 for watches and 16 for each of the other replies.
const (
	watchTime  = 5 * time.Minute
	readerTime = time.Minute
)

// until returns the time at which a reply that begins now must end.
func (s *Server) until(most time.Duration) time.Time {
	return time.Now().Add(cmp.Or(s.c.ReplyTime, most))
}

// quota bounds the number of replies that are open at the same time, for each actor, in all, and for
// all realms of the process.
type quota struct {
	what   string
	places *admission.Limiter
	shared *admission.Limiter // nil for none
}

// enter admits an actor; leave must be called, and releases the place once.
func (u *quota) enter(actor string) (leave func(), err *lifecycle.Error) {
	why := u.places.Try(actor)
	if why == nil {
		return sync.OnceFunc(func() { u.places.Release(actor) }), nil
	}
	err = &lifecycle.Error{Reason: api.ErrTooManyRequests, RetryAfter: time.Second}
	open, its := u.places.Used(actor)
	if errors.Is(why, admission.ErrShared) {
		all, _ := u.shared.Used("")
		most, _ := u.shared.Limits()
		err.Message = fmt.Sprintf("this process has %d %s open, %d of them in this realm; at most %d may be in all realms, and a realm gets one more only while more are free than it has; close some, or try again later",
			all, u.what, open, most)
		return nil, err
	}
	most, each := u.places.Limits()
	err.Message = fmt.Sprintf("%d %s are open, %d of them as actor %q; at most %d may be, and %d for one actor; close some, or try again later",
		open, u.what, its, actor, most, each)
	return nil, err
}
