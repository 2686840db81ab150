package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leftOutTime is how long a message must stay in the stream after its acknowledgement to count as left out: the
// stream removes one that was just acknowledged a moment later.
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

// LeaveOut returns those consumers of a queue that never deliver a message of the stream, because they have
// acknowledged its sequence already. It takes 2 s if there may be one. A NATS server (2.15.2) that has forgotten a
// stream in a power loss can give the state of an earlier consumer to the consumer of that name in the new stream. While
// such a consumer waits for an acknowledgement, LeaveOut does not notice messages behind that one. Consumers of a
// stream with several replicas are never returned, as by Ahead.
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

// RenewConsumer deletes a consumer, and creates it again with the configuration c. It does nothing if the consumer
// is another one than was, so that of two processes that renew a consumer only one does. The new consumer delivers
// all messages of the stream, also those that the earlier one had delivered and that are not acknowledged.
func RenewConsumer(ctx context.Context, s jetstream.Stream, was *jetstream.ConsumerInfo, c jetstream.ConsumerConfig) error {
	is, err := s.Consumer(ctx, was.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil // Coppice has pull consumers only
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
