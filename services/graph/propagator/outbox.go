package propagator

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/poll"
)

// Publisher is what the propagator needs of JetStream.
type Publisher interface {
	PublishMsgAsync(m *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error)
}

// outbox publishes messages, many at a time, and publishes those that the stream does
// not accept again until it does.
type outbox struct {
	js      Publisher
	pending []sent
	skip    func(about callID, err error) // see Propagator.skip; nil: what cannot be published is an error
}

type sent struct {
	m      *nats.Msg
	future jetstream.PubAckFuture
	once   bool // a message with the same subject in the stream is equivalent
	about  callID
	stored func() // called when the message is in the stream; nil for nothing
	span   messageSpan
}

// Times and bounds of publishing.
const (
	maxPending = 128
	ackTimeout = 5 * time.Second
	fullPause  = 20 * time.Millisecond
)

// send publishes a chunk of work, in a span that it ends.
func (o *outbox) send(ctx context.Context, subject string, chunk proto.Message, span messageSpan) error {
	data, err := proto.Marshal(chunk)
	if err != nil {
		span.end(err)
		o.skip(callID{}, fmt.Errorf("%s: %w", subject, err))
		return nil
	}
	return o.put(ctx, sent{m: &nats.Msg{Subject: subject, Data: data, Header: span.inject(nil)}, span: span})
}

// call publishes the call of an external finalizer or agent of an object, as JSON, in a span that it ends. The stream keeps
// one message for each subject; if it has one already, nothing is published. It returns
// the size of the message, in bytes.
func (o *outbox) call(ctx context.Context, about callID, to string, call proto.Message, object []byte, span messageSpan) (size int64, err error) {
	data, err := manifest.MarshalWithObject(call, object)
	if err != nil {
		span.end(err)
		o.skip(about, fmt.Errorf("%s: %w", to, err))
		return 0, nil
	}
	header := nats.Header{bus.HeaderContentType: []string{bus.ContentJSON}}
	m := &nats.Msg{Subject: to, Header: span.inject(header), Data: data}
	return int64(m.Size()), o.put(ctx, sent{m: m, once: true, about: about, span: span})
}

// put publishes a message, and waits for earlier ones when there are many.
func (o *outbox) put(ctx context.Context, s sent) error {
	err := o.publish(ctx, s)
	for err == nil && len(o.pending) >= maxPending {
		err = o.settle(ctx, o.pop())
	}
	return o.giveUp(err)
}

// giveUp ends the spans of the messages that are not settled, unless err is nil, and returns err.
func (o *outbox) giveUp(err error) error {
	if err != nil {
		for _, s := range o.pending {
			s.span.end(err)
		}
	}
	return err
}

func (o *outbox) pop() sent {
	s := o.pending[0]
	o.pending = o.pending[1:]
	return s
}

func (o *outbox) publish(ctx context.Context, s sent) error {
	for {
		var err error
		if s.future, err = o.js.PublishMsgAsync(s.m); err == nil {
			o.pending = append(o.pending, s)
			return nil
		}
		if bus.Classify(err) == bus.Refused {
			return o.unsendable(s, err)
		}
		if err := poll.Sleep(ctx, fullPause); err != nil {
			s.span.end(err)
			return err
		}
	}
}

// settle waits for the acknowledgement of a message.
func (o *outbox) settle(ctx context.Context, s sent) error {
	var err error
	select {
	case <-s.future.Ok():
		s.span.end(nil)
		if s.stored != nil {
			s.stored()
		}
		return nil
	case err = <-s.future.Err():
	case <-ctx.Done():
		s.span.end(ctx.Err())
		return ctx.Err()
	case <-time.After(ackTimeout):
		err = nats.ErrTimeout
	}
	switch bus.Classify(err) {
	case bus.Refused:
		return o.unsendable(s, err)
	case bus.Full:
		switch {
		case s.once && (o.skip != nil || bus.SubjectTaken(err)):
			s.span.end(nil)
			return nil // or the stream is full: the row remains, and is published again
		case o.skip == nil:
			s.span.end(err)
			return fmt.Errorf("propagator: %s: %w", s.m.Subject, err)
		}
	}
	// Duplicate work has no effect, and the stream refuses a duplicate call.
	if err := poll.Sleep(ctx, fullPause); err != nil {
		s.span.end(err)
		return err
	}
	s.m = &nats.Msg{Subject: s.m.Subject, Header: s.m.Header, Data: s.m.Data}
	return o.publish(ctx, s)
}

// flush waits until everything that was sent is in its stream.
func (o *outbox) flush(ctx context.Context) error {
	for len(o.pending) > 0 {
		if err := o.settle(ctx, o.pop()); err != nil {
			return o.giveUp(err)
		}
	}
	return nil
}
