package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Message is a message that was delivered. Its methods are for this package.
type Message struct {
	Subject string
	Data    []byte
	// Sequence is the message's in the stream.
	Sequence uint64
	// Delivered counts the deliveries of the message, from one.
	Delivered uint64

	nc     *nats.Conn
	reply  string
	header nats.Header
}

// The acknowledgements of a message.
const (
	ack        = "+ACK"
	nak        = "-NAK"
	inProgress = "+WPI"
)

// answer sends an acknowledgement. If it is lost the server delivers the message again,
// which does no harm.
func (m *Message) answer(what string) { m.answerWith(what, nil) }

// answerWith is answer with headers, which the server ignores. The graph service reads them to
// show what became of a call.
func (m *Message) answerWith(what string, h nats.Header) {
	_ = m.nc.PublishMsg(&nats.Msg{Subject: m.reply, Header: h, Data: []byte(what)})
}

// nakWithDelay has the server deliver the message again after d. why is the error of this
// attempt.
func (m *Message) nakWithDelay(d time.Duration, why error) {
	m.answerWith(fmt.Sprintf(nak+` {"delay":%d}`, d.Nanoseconds()), nats.Header{bus.HeaderError: {headerText(why)}})
}

// handBack has the server deliver the message to another worker at once. This attempt has not
// failed.
func (m *Message) handBack() {
	m.answerWith(nak, nats.Header{bus.HeaderReturned: {"the program stops"}})
}

// progress reports that the message is being handled since a time. why is the error of the
// attempt before; nil if there was none in this process.
func (m *Message) progress(since time.Time, why error) {
	h := nats.Header{bus.HeaderSince: {strconv.FormatInt(since.UnixMilli(), 10)}}
	if why != nil {
		h.Set(bus.HeaderError, headerText(why))
	}
	m.answerWith(inProgress, h)
}

// headerText returns the text of an error as a header can have it.
func headerText(why error) string {
	const longest = 512
	text := why.Error()
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}

// failures has the errors of messages that were not handled yet. Its memory is bounded: with
// more failures, the heartbeats of some messages do not name their last error.
type failures struct {
	mu sync.Mutex
	of map[uint64]error
}

// maxFailures is the maximum number of messages whose last error is remembered.
const maxFailures = 1024

func (f *failures) set(sequence uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.of, sequence)
	} else if len(f.of) < maxFailures {
		f.of[sequence] = err
	}
}

func (f *failures) get(sequence uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[sequence]
}

// Times of pull requests.
const (
	// pullExpiry is the time after which the server ends a pull request that got no message. It
	// bounds the time that a worker needs to stop: on a cluster, nothing ends a pull request
	// earlier than its expiry or its message.
	pullExpiry = 2 * time.Second
	// pullTimeout is the time after which a pull request counts as lost.
	pullTimeout = 5 * time.Second
	// endTimeout is the maximum time for which the end of a pull request is awaited when the worker stops.
	endTimeout = pullExpiry + time.Second
	// endUnclustered is the time for which a message is awaited where unsubscribing ends a pull request.
	endUnclustered = 50 * time.Millisecond
)

// Pull requests.
var (
	pullNow     = `{"batch":1,"no_wait":true}`
	pullWaiting = fmt.Sprintf(`{"batch":1,"expires":%d}`, pullExpiry.Nanoseconds())
)

var (
	errSilent     = errors.New("no answer to a pull request")
	errNoConsumer = errors.New("there is no such consumer yet")
)

// pull requests a message from the consumer, and returns nil if none arrives in time. If ctx ends, pull
// waits until the request has ended, for at most endTimeout, and returns a message that arrives
// meanwhile: the server would deliver it again only after the ack wait.
//
// It publishes to bus.PullSubject and to nothing else of JetStream's API, because
// permissions cannot restrict that API to what a client may do. Each request has a
// subscription of its own: if the request comes from another account, the server drops
// the reply mapping when the request ends.
func (c *Config) pull(ctx context.Context, request string) (*Message, error) {
	replies, err := bus.SubscribeReplies(c.Conn, 8) // a message, and a status
	if err != nil {
		return nil, err
	}
	defer replies.Close()
	if err := c.Conn.PublishRequest(bus.PullSubject(c.Stream, c.Durable), replies.Inbox, []byte(request)); err != nil {
		return nil, err
	}
	m, err := replies.Next(ctx, pullTimeout)
	if err != nil && ctx.Err() != nil {
		if m = lastReply(c.Conn, replies); m == nil {
			return nil, ctx.Err()
		}
		err = nil
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errNoConsumer
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errSilent
	case err != nil:
		return nil, err
	}
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		meta, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("a message on %s without metadata: %w", m.Subject, err)
		}
		return &Message{
			Subject: m.Subject, Data: m.Data, Sequence: meta.Sequence.Stream, Delivered: meta.NumDelivered, nc: c.Conn, reply: m.Reply, header: m.Header,
		}, nil
	}
	switch status, why := m.Header.Get("Status"), m.Header.Get("Description"); {
	case status == "404", status == "408": // none there, none in time
		return nil, nil
	case status == "409" && strings.Contains(strings.ToLower(why), "consumer deleted"):
		return nil, errNoConsumer
	default:
		return nil, fmt.Errorf("pull request: %s %s", status, why)
	}
}

// lastReply ends a pull request, and returns the reply that has arrived until then; nil if
// there is none.
//
// On a cluster whose actors have accounts, the server that leads the consumer does not learn that a
// client has unsubscribed from the reply subject, or was disconnected. It keeps the pull request until it expires,
// and would deliver a message that nothing receives. So the subscription stays until the server
// has ended the request. A server without a cluster ends the request when the client unsubscribes.
func lastReply(nc *nats.Conn, replies *bus.Replies) *nats.Msg {
	if !nc.IsConnected() {
		return nil
	}
	wait := endTimeout
	unclustered := nc.ConnectedClusterName() == ""
	if unclustered {
		wait = endUnclustered
	}
	m, err := replies.Next(context.Background(), wait)
	if err != nil && unclustered {
		m, _ = replies.Drain(endTimeout)
	}
	return m
}
