// Package rpc sends requests to the graph service and decodes its replies. The SDK
// and the services share it.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/tracing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Call sends a request and decodes its reply. It does not retry.
//
// A refusal is a *api.Error. The reason is api.ErrServiceUnavailable if no service
// answers the subject, and api.ErrTimeout if no reply arrives in time. After a
// timeout the outcome of the request is unknown.
func Call(ctx context.Context, nc *nats.Conn, subject string, header nats.Header, request, reply proto.Message) error {
	data, err := Encode(request)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return Send(ctx, nc, subject, header, data, reply)
}

// Encode encodes a request and its version, the field protocol of every request
// message. The concatenation of two encodings is the encoding of the merged request.
func Encode(request proto.Message) ([]byte, error) {
	data, err := objectcodec.Marshal(request)
	if err != nil {
		return nil, err
	}
	return protowire.AppendVarint(protowire.AppendTag(data, protocolField, protowire.VarintType), bus.Protocol), nil
}

// protocolField is the number of the field protocol, the same in every request.
const protocolField protowire.Number = 15

// Header adds the header that names the verb to the headers of a request, and returns
// them. It may change the map.
func Header(subject string, header nats.Header) nats.Header {
	if header == nil {
		header = nats.Header{}
	}
	header[bus.HeaderRequest] = []string{bus.RequestName(subject)}
	return header
}

// Send is Call for a request that Encode has encoded. It may change header. If ctx has a
// deadline, the request says for how long its reply is waited for. If ctx has a trace, the request carries it.
func Send(ctx context.Context, nc *nats.Conn, subject string, header nats.Header, data []byte, reply proto.Message) error {
	if max := nc.MaxPayload(); max > 0 && int64(len(data)) > max {
		return &api.Error{
			Reason:  api.ErrRequestEntityTooLarge,
			Message: fmt.Sprintf("the request has %d bytes; the NATS server takes messages of up to %d", len(data), max),
		}
	}
	ctx, stop := Watched(ctx, nc, subject)
	defer stop()
	header = tracing.Inject(ctx, Header(subject, header))
	if end, ok := ctx.Deadline(); ok {
		header[bus.HeaderTimeout] = []string{strconv.FormatInt(max(time.Until(end).Milliseconds(), 1), 10)}
	}
	m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		if denied := DeniedBy(ctx); denied != nil {
			return denied
		}
		return transport(subject, err)
	}
	if err := Refusal(m); err != nil {
		return err
	}
	if err := objectcodec.Unmarshal(m.Data, reply); err != nil {
		return fmt.Errorf("%s: the reply is not a %T: %w", subject, reply, err)
	}
	return nil
}

func transport(subject string, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return undelivered{&api.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
			Message: unanswered(subject),
		}}
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return &api.Error{Reason: api.ErrTimeout, Message: "no answer in time; it is not known whether the request was carried out"}
	case errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected):
		return &api.Error{Reason: api.ErrServiceUnavailable, Message: "not connected to NATS; reconnecting", RetryAfter: 250 * time.Millisecond}
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// unanswered says that no service receives requests on a subject.
func unanswered(subject string) string {
	why := "there"
	switch bus.RequestName(subject) {
	case bus.VerbCreateRealm, bus.VerbDeleteRealm, bus.VerbListRealms, bus.OpRealms:
		return "no graph service answers"
	case bus.VerbArchive: // the newest verb
		why = "the graph services are of a version without this verb, there"
	}
	return fmt.Sprintf("no graph service answers for realm %q: %s is no such realm, its writer is just starting, or it has failed; /readyz and the log of the graph service say why", bus.RealmOf(subject), why)
}

// Answers reports whether a service answers requests on a subject. It returns false
// only if the server reports that no service does, or if there is no connection. It
// sends an empty message, which services refuse.
func Answers(ctx context.Context, nc *nats.Conn, subject string) bool {
	_, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject})
	return !errors.Is(err, nats.ErrNoResponders) && nc.IsConnected()
}

// Refusal returns the error in a reply, nil if it has none.
func Refusal(m *nats.Msg) error {
	code := m.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	var now time.Time
	if ms, err := strconv.ParseInt(m.Header.Get(bus.HeaderTime), 10, 64); err == nil {
		now = time.UnixMilli(ms)
	}
	var status coppicev1.Status
	if len(m.Data) > 0 && m.Header.Get(bus.HeaderContentType) == bus.ContentProtobuf && proto.Unmarshal(m.Data, &status) == nil && status.GetReason() != "" {
		e := api.ErrorOf(&status)
		e.ServerTime = now
		return e
	}
	e := &api.Error{
		Reason:     api.Reason(m.Header.Get(bus.HeaderReason)),
		Message:    m.Header.Get(micro.ErrorHeader),
		ServerTime: now,
	}
	if e.Reason == "" {
		e.Reason = api.ErrInternalError
	}
	if ms, err := strconv.Atoi(m.Header.Get(bus.HeaderRetryAfter)); err == nil {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	return e
}

// Retryable reports whether the same request may succeed later. After api.ErrTimeout it may
// have been carried out: a command must be repeated with the same id.
func Retryable(err error) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Reason {
	case api.ErrServiceUnavailable, api.ErrTooManyRequests, api.ErrTimeout:
		return true
	}
	return e.RetryAfter > 0
}

// Times of Retry.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// Ended returns the error of a request that ctx has ended: it matches both the
// error of the last attempt and that of the context.
func Ended(ctx context.Context, last error) error {
	if err := ctx.Err(); err != nil && !errors.Is(last, err) {
		return fmt.Errorf("%w; %w", last, err)
	}
	return last
}

// Retry calls do until it succeeds, fails with an error that is not Retryable, or
// ctx ends; each attempt has at most the timeout. It returns the last error. If the
// context ends first, the error also matches ctx.Err().
func Retry(ctx context.Context, timeout time.Duration, do func(ctx context.Context) error) error {
	pause := firstPause
	for {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := do(attempt)
		cancel()
		if err == nil || !Retryable(err) {
			return err
		}
		var e *api.Error
		wait := pause
		if errors.As(err, &e) {
			wait = max(wait, min(e.RetryAfter, longestPause))
		}
		select {
		case <-ctx.Done():
			return Ended(ctx, err)
		case <-time.After(wait):
		}
		pause = min(2*pause, longestPause)
	}
}
