package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Replies receives the replies to one request in an inbox of its own.
//
// It exists because a subscription of nats.go that is read by NextMsg allocates 512 KiB,
// room for 65,536 messages, which is more than a short request costs otherwise. It is not
// safe for concurrent use.
type Replies struct {
	// Inbox is the subject to name as the reply subject.
	Inbox string

	nc       *nats.Conn
	sub      *nats.Subscription
	messages chan *nats.Msg
}

// SubscribeReplies subscribes to an inbox that nothing else uses. At most buffered
// messages wait to be read; the client library drops more. The caller must call
// Close.
func SubscribeReplies(nc *nats.Conn, buffered int) (*Replies, error) {
	r := &Replies{Inbox: nc.NewInbox(), nc: nc, messages: make(chan *nats.Msg, buffered)}
	var err error
	r.sub, err = nc.ChanSubscribe(r.Inbox, r.messages)
	return r, err
}

// Next returns the next message. Its error is nats.ErrNoResponders if nothing
// subscribes to the request's subject, nats.ErrConnectionClosed,
// context.DeadlineExceeded if no message comes within timeout, or that of ctx.
func (r *Replies) Next(ctx context.Context, timeout time.Duration) (*nats.Msg, error) {
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	select {
	case m := <-r.messages:
		return answer(m)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-expired.C:
	}
	select {
	case m := <-r.messages: // it may be a message of a queue, which would come again only after its ack wait
		return answer(m)
	default:
	}
	if r.nc.IsClosed() {
		return nil, nats.ErrConnectionClosed
	}
	return nil, context.DeadlineExceeded
}

func answer(m *nats.Msg) (*nats.Msg, error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return m, nil
}

// Drain ends the subscription, and returns a message that the server has sent before it learned
// that; context.DeadlineExceeded if there is none. It waits for the server for at most timeout.
func (r *Replies) Drain(timeout time.Duration) (*nats.Msg, error) {
	if err := r.sub.Drain(); err != nil {
		return nil, err
	}
	_ = r.nc.FlushTimeout(timeout) // then everything that the server has sent is here
	return r.Next(context.Background(), 0)
}

// Close ends the subscription.
func (r *Replies) Close() { _ = r.sub.Unsubscribe() }
