package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leftOutTime is the time after which a message counts as left out: the stream still has one for a moment that
// was just acknowledged.
const leftOutTime = 2 * time.Second

// Consumers returns what the NATS server says about the consumers of a stream.
func Consumers(ctx context.Context, s jetstream.Stream) (consumers []*jetstream.ConsumerInfo, err error) {
	list := s.ListConsumers(ctx)
	for c := range list.Info() {
		consumers = append(consumers, c)
	}
	return consumers, list.Err()
}

// Ahead returns those consumers that have delivered sequences which their stream never had: they will leave out
// messages. A power loss can take a stream whose newest messages were acknowledged and removed back to an earlier
// sequence, but not the state of its consumers. The copies of a stream with several replicas may differ for a
// moment; their consumers are never returned.
func Ahead(ctx context.Context, s jetstream.Stream, consumers []*jetstream.ConsumerInfo) (ahead []*jetstream.ConsumerInfo, err error) {
	info, err := s.Info(ctx) // after the state of the consumers
	if err != nil || info.Config.Replicas > 1 {
		return nil, err
	}
	for _, c := range consumers {
		if c.Delivered.Stream > info.State.LastSeq {
			ahead = append(ahead, c)
		}
	}
	return ahead, nil
}

// LeaveOut returns those consumers of a queue that have acknowledged a message which is still there, and never deliver
// it. A NATS server (2.15.2) that has forgotten a stream in a power loss gives what it has kept of a consumer to
// the one of that name in a new stream. While such a consumer waits for an acknowledgement, what it leaves out behind
// that message is not noticed. See Ahead for replicas.
func LeaveOut(ctx context.Context, s jetstream.Stream, consumers []*jetstream.ConsumerInfo) (leave []*jetstream.ConsumerInfo, err error) {
	if s.CachedInfo().Config.Replicas > 1 {
		return nil, nil
	}
	suspects := map[*jetstream.ConsumerInfo]uint64{} // with a message that each may leave out
	for _, c := range consumers {
		sequence, err := acknowledged(ctx, s, c)
		if err != nil {
			return nil, err
		}
		if sequence > 0 {
			suspects[c] = sequence
		}
	}
	if len(suspects) == 0 {
		return nil, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(leftOutTime):
	}
	for c, sequence := range suspects {
		switch still, err := acknowledged(ctx, s, c); {
		case err != nil:
			return nil, err
		case still == sequence:
			leave = append(leave, c)
		}
	}
	return leave, nil
}

// acknowledged returns the sequence of the oldest message for a consumer if the consumer has acknowledged that
// sequence, and 0 if it has not or there is no message.
func acknowledged(ctx context.Context, s jetstream.Stream, c *jetstream.ConsumerInfo) (sequence uint64, err error) {
	m, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(c.Config.FilterSubject))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case m.Sequence > c.AckFloor.Stream:
		return 0, nil
	}
	return m.Sequence, nil
}

// RenewConsumer deletes a consumer and creates it with a configuration again, unless that was done since was, what the
// server said about it. The new one delivers all messages of the stream, also those that the earlier one had
// delivered and that are not acknowledged.
func RenewConsumer(ctx context.Context, s jetstream.Stream, was *jetstream.ConsumerInfo, c jetstream.ConsumerConfig) error {
	is, err := s.Consumer(ctx, was.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil // it is none of Coppice
	case err != nil:
		return err
	case !is.CachedInfo().Created.Equal(was.Created):
		return nil
	}
	if err := s.DeleteConsumer(ctx, was.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	_, err = s.CreateOrUpdateConsumer(ctx, c)
	return err
}
