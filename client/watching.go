package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// watching is what Watch and WatchGraph have in common: a watch that continues in another
// session after an interruption.
type watching struct {
	c       *Client
	name    string        // in errors
	idle    time.Duration // the longest time between two messages
	onError func(error)
	served  bool // a server has replied
	// resumable reports that the session has had a message since the objects that existed
	// at its start were delivered.
	resumable bool
}

var (
	// errGap is a lost message: the watch resumes after its revision.
	errGap = errors.New("a message was lost")
	// errBreak is the caller's break.
	errBreak = errors.New("break")
)

// repeat runs sessions until ctx ends, the caller breaks, or a session has failed with an error that
// cannot be retried, which it returns. expired is called when the server does not have the changes
// since the last session any more, and reports whether to continue.
func (w *watching) repeat(ctx context.Context, session func(context.Context) error, expired func() bool) error {
	begun := time.Now()
	for ctx.Err() == nil {
		w.resumable = false
		err := session(ctx)
		var e *Error
		switch {
		case errors.Is(err, errBreak):
			return nil
		case w.resumable && err == errEnded: //nolint:errorlint // this very one
			continue // the server ends each watch after a while
		case errors.Is(err, ErrExpired) && expired():
			w.c.report(err, w.onError)
			continue
		case errors.As(err, &e) && !rpc.Retryable(err), errors.Is(err, nats.ErrConnectionClosed):
			return err
		case !w.served && w.c.retryTimeout > 0 && time.Since(begun) >= w.c.retryTimeout && ctx.Err() == nil:
			if e == nil { // no message came
				err = &Error{Reason: ErrTimeout, Message: fmt.Sprintf("%s: no reply for %s", w.name, w.c.retryTimeout)}
			}
			return err
		}
		if ctx.Err() == nil {
			w.c.report(err, w.onError)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauseAfter(e)):
		}
	}
	return nil
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

// The limits of what waits for the caller.
const (
	pendingEvents = 1 << 16
	pendingBytes  = 16 << 20
)

// watchReply is the reply to one request of a watch.
type watchReply struct {
	w    *watching
	ctx  context.Context // one of rpc.Watched
	sub  *nats.Subscription
	stop func()
}

// open sends the request of a session. After a success, close must follow.
func (w *watching) open(ctx context.Context, at bus.API, request proto.Message) (*watchReply, error) {
	if err := at.CheckTarget(); err != nil {
		return nil, &Error{Reason: ErrBadRequest, Message: err.Error()}
	}
	data, err := rpc.Encode(request)
	if err != nil {
		return nil, err
	}
	inbox := w.c.nc.NewInbox()
	sub, err := w.c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	subject := at.Subject()
	r := &watchReply{w: w, sub: sub}
	r.ctx, r.stop = rpc.Watched(ctx, w.c.nc, subject)
	err = sub.SetPendingLimits(pendingEvents, pendingBytes)
	if err == nil {
		err = w.c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Header: rpc.Header(subject, nil), Data: data})
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *watchReply) close() {
	r.stop()
	_ = r.sub.Unsubscribe()
}

// next waits for a batch.
func (r *watchReply) next(b interface {
	proto.Message
	GetError() *coppicev1.Status
},
) error {
	w, silence := r.w, r.w.idle
	if limit := w.c.retryTimeout; !w.served && limit > 0 {
		silence = min(silence, limit)
	}
	wait, cancel := context.WithTimeout(r.ctx, silence)
	defer cancel()
	m, err := r.sub.NextMsgWithContext(wait)
	denied := rpc.DeniedBy(r.ctx)
	switch {
	case err != nil && denied != nil:
		return denied
	case errors.Is(err, nats.ErrNoResponders):
		return &Error{Reason: ErrServiceUnavailable, Message: fmt.Sprintf("watch: no graph service serves realm %q: there is no such realm, it is just starting, or it has failed; /readyz and the log of the graph service say why", w.c.realm)}
	case err != nil:
		return err
	}
	if err := rpc.Refusal(m); err != nil {
		return err
	}
	if len(m.Data) == 0 && len(m.Header) == 0 {
		return errEnded
	}
	if err := proto.Unmarshal(m.Data, b); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if b.GetError() != nil {
		return api.ErrorOf(b.GetError())
	}
	w.served = true
	return nil
}
