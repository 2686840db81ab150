package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
)

// silence is the longest time between two messages of a streamed reply. The graph
// service sends a message at least every 5 s.
const silence = 15 * time.Second

// errEnded is returned by stream if the reply ended before visit was done.
var errEnded = &Error{Reason: ErrServiceUnavailable, Message: "the reply ended early; send the request again", RetryAfter: 100 * time.Millisecond}

// errRenewed is returned by visit to continue with another request where this reply ended.
var errRenewed = &Error{Reason: ErrServiceUnavailable, Message: "the reply has ended; ask again", RetryAfter: firstPause}

// errSlow is returned by stream if the NATS client dropped a part of the reply, because the
// program read it too slowly.
var errSlow = &Error{Reason: ErrServiceUnavailable, Message: "the program read the reply too slowly, and the NATS client dropped a part of it; send the request again", RetryAfter: 100 * time.Millisecond}

// stream sends a request and calls visit with each message of the reply, until
// visit returns done or an error. It does not retry.
func (c *Client) stream(ctx context.Context, a bus.API, request proto.Message, visit func(data []byte) (done bool, err error)) error {
	if c.past != nil && a.Verb != bus.VerbReadLog {
		return c.errPast(a.Verb)
	}
	if err := errors.Join(bus.CheckRealm(a.Realm), bus.CheckActor(a.Actor), a.CheckTarget()); err != nil {
		return &Error{Reason: ErrBadRequest, Message: err.Error()}
	}
	data, err := encode(request)
	if err != nil {
		return err
	}
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	beginning, stop := rpc.Watched(ctx, c.nc, a.Subject())
	defer stop()
	m := &nats.Msg{Subject: a.Subject(), Reply: inbox, Header: rpc.Header(a.Subject(), nil), Data: data}
	if err := c.nc.PublishMsg(m); err != nil {
		return err
	}
	for wait := c.timeout; ; wait = silence {
		m, err := next(beginning, sub, wait)
		if refusal := rpc.DeniedBy(beginning); err != nil && refusal != nil {
			return refusal
		}
		stop() // the request was received, or has failed
		beginning = ctx
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return &Error{Reason: ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
				Message: fmt.Sprintf("no graph service answers for realm %q: there is no such realm, it is just starting, or it has failed; /readyz and the log of the graph service say why", a.Realm)}
		case errors.Is(err, nats.ErrSlowConsumer):
			return errSlow
		case errors.Is(err, context.DeadlineExceeded):
			return &Error{Reason: ErrTimeout, Message: fmt.Sprintf("%s: no reply for %s", a.Verb, wait)}
		case err != nil:
			return err
		}
		if err := rpc.Refusal(m); err != nil {
			return err
		}
		if len(m.Data) == 0 && len(m.Header) == 0 {
			return errEnded
		}
		if done, err := visit(m.Data); done || err != nil {
			return err
		}
	}
}

func next(ctx context.Context, sub *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// streamed is stream with retries, until visit is done, the error cannot be retried or
// ctx ends; with a retry timeout, until requests have failed for that long. request is
// called for each attempt. onError, if not nil, is called with each error that is retried.
func (c *Client) streamed(ctx context.Context, a bus.API, request func() proto.Message, visit func(data []byte) (done bool, err error), onError func(error)) error {
	pause, since := firstPause, time.Now() // since: when the first of the requests that have failed did so
	accepted := false                      // by the last ones, which then have failed all the same
	for {
		n := 0 // messages that are no failures
		err := c.stream(ctx, a, request(), func(data []byte) (bool, error) {
			done, err := visit(data)
			if err != nil {
				return done, err
			}
			if n++; n > 1 { // the first only says that the request is served
				pause = firstPause
			}
			return done, nil
		})
		if err == nil || !rpc.Retryable(err) {
			return err
		}
		renewed := errors.Is(err, errRenewed)
		if n > 1 || renewed {
			since, accepted = time.Now(), false
		} else if n == 1 && !accepted {
			since, accepted = time.Now(), true
		}
		if c.retryTimeout > 0 && !renewed && time.Since(since) >= c.retryTimeout {
			return fmt.Errorf("%w; %w", err, context.DeadlineExceeded)
		}
		if !renewed {
			c.report(err, onError)
		}
		select {
		case <-ctx.Done():
			return rpc.Ended(ctx, err)
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// Pauses between attempts.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)
