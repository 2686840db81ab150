package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DirectRead is a request of ReadDirect.
type DirectRead struct {
	Stream string
	// From is the first sequence, from one.
	From uint64
	// Filter is the subject of the messages, with wildcards; empty for all messages.
	Filter string
	// Batch is the maximum number of messages.
	Batch int
	// MaxBytes is the number of bytes after which the reply ends, if it is positive.
	MaxBytes int
}

// DirectMessage is a message of a stream.
type DirectMessage struct {
	Sequence uint64
	Subject  string
	Data     []byte
	// Time is when the NATS server stored the message, if ReadFromLeader has read it.
	Time time.Time
	// Pending is the number of messages that followed it when the read began.
	Pending uint64
}

// directTimeout is the time for which ReadDirect waits for each message.
const directTimeout = 5 * time.Second

// ReadDirect reads messages of a stream with AllowDirect by one batched direct get, in
// order, and calls visit with each. It needs no consumer. pending is the number of messages
// after the last one that was visited, in the view of the server that replied: a server
// that lags behind the others has fewer.
//
// It returns the error of visit unchanged. If the stream or its leader is absent, the error
// is jetstream.ErrNoStreamResponse.
func ReadDirect(ctx context.Context, nc *nats.Conn, r DirectRead, visit func(DirectMessage) error) (pending uint64, err error) {
	request, err := json.Marshal(struct {
		Seq      uint64 `json:"seq"`
		NextFor  string `json:"next_by_subj,omitempty"`
		Batch    int    `json:"batch"`
		MaxBytes int    `json:"max_bytes,omitempty"`
	}{max(r.From, 1), r.Filter, max(r.Batch, 1), r.MaxBytes})
	if err != nil {
		return 0, err
	}
	replies, err := SubscribeReplies(nc, max(r.Batch, 1)+1) // and the end of the batch
	if err != nil {
		return 0, err
	}
	defer replies.Close()
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+r.Stream, replies.Inbox, request); err != nil {
		return 0, err
	}
	for {
		m, err := replies.Next(ctx, directTimeout)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return 0, fmt.Errorf("stream %s: %w", r.Stream, jetstream.ErrNoStreamResponse)
		case err != nil:
			return 0, fmt.Errorf("stream %s: direct get from sequence %d: %w", r.Stream, r.From, err)
		}
		switch status := directStatus(m); status {
		case "":
		case "204": // the end of the batch
			pending, _ := strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
			return pending, nil
		case "404": // no message at the sequence or after it
			return 0, nil
		default:
			return 0, fmt.Errorf("stream %s: direct get from sequence %d: %s %s", r.Stream, r.From, status, m.Header.Get("Description"))
		}
		sequence, err := strconv.ParseUint(appended(m, jetstream.SequenceHeader), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stream %s: direct get from sequence %d: a message without a sequence", r.Stream, r.From)
		}
		left, _ := strconv.ParseUint(appended(m, "Nats-Num-Pending"), 10, 64)
		if err := visit(DirectMessage{Sequence: sequence, Subject: appended(m, jetstream.SubjectHeader), Data: m.Data, Pending: left}); err != nil {
			return 0, err
		}
	}
}

// directStatus returns the status of a reply, empty for a stored message. A stored message
// may have any header; the server appends its own headers.
func directStatus(m *nats.Msg) string {
	if len(m.Header[jetstream.StreamHeader]) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}

// appended returns the value of a header that the server appended, which follows stored
// values with the same name.
func appended(m *nats.Msg, name string) string {
	values := m.Header[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
