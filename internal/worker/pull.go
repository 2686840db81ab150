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

	nc    *nats.Conn
	reply string
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

// Times of pull requests. While a request waits, the server sends a heartbeat.
const (
	pullNow     = `{"batch":1,"no_wait":true}`
	pullWaiting = `{"batch":1,"expires":30000000000,"idle_heartbeat":2000000000}`

	pullTimeout = 5 * time.Second // more than two heartbeats
)

var (
	errSilent     = errors.New("no answer to a pull request")
	errNoConsumer = errors.New("there is no such consumer yet")
)

// pull requests a message from the consumer, and returns nil if none arrives in time.
//
// It publishes to bus.PullSubject and to nothing else of JetStream's API, because
// permissions cannot restrict that API to what a client may do. Each request has a
// subscription of its own: if the request comes from another account, the server drops
// the reply mapping when the request ends.
func (c *Config) pull(ctx context.Context, request string) (*Message, error) {
	replies, err := bus.SubscribeReplies(c.Conn, 8) // a message, and heartbeats
	if err != nil {
		return nil, err
	}
	defer replies.Close()
	if err := c.Conn.PublishRequest(bus.PullSubject(c.Stream, c.Durable), replies.Inbox, []byte(request)); err != nil {
		return nil, err
	}
	for {
		m, err := replies.Next(ctx, pullTimeout)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return nil, errNoConsumer
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
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
				Subject: m.Subject, Data: m.Data, Sequence: meta.Sequence.Stream, Delivered: meta.NumDelivered, nc: c.Conn, reply: m.Reply,
			}, nil
		}
		switch status, why := m.Header.Get("Status"), m.Header.Get("Description"); {
		case status == "100": // a heartbeat
		case status == "404", status == "408": // none there, none in time
			return nil, nil
		case status == "409" && strings.Contains(strings.ToLower(why), "consumer deleted"):
			return nil, errNoConsumer
		default:
			return nil, fmt.Errorf("pull request: %s %s", status, why)
		}
	}
}
