package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// CopyCounter knows, without reading a message, how many the copy of the log of one NATS server of a cluster
// has. It is for one goroutine.
type CopyCounter struct {
	// Server is the name of the server.
	Server string

	log      *Log
	consumer jetstream.Consumer
}

// counterIdle is the time after which NATS deletes the consumer of a CopyCounter, which never
// reads.
const counterIdle = 10 * time.Minute

// OpenCounter returns the counter of some server, which NATS draws. Close it.
//
// A counter is a consumer without replicas, as that of a Copy. NATS reports as pending what the
// server of the consumer has, and compares it with its store at each request.
func (l *Log) OpenCounter(ctx context.Context) (*CopyCounter, error) {
	consumer, err := l.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: counterIdle,
	})
	if err != nil {
		return nil, fmt.Errorf("log of realm %s: the messages of a NATS server: %w", l.realm, err)
	}
	c := &CopyCounter{log: l, consumer: consumer}
	if at := consumer.CachedInfo().Cluster; at != nil {
		c.Server = at.Leader
	}
	return c, nil
}

// Count returns the first position of the copy, and the number of messages that it has. It fails when NATS
// has deleted the consumer: open another counter.
func (c *CopyCounter) Count(ctx context.Context) (first, messages uint64, err error) {
	info, err := c.consumer.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("log of realm %s: the messages of NATS server %s: %w", c.log.realm, c.Server, err)
	}
	return info.Delivered.Stream + 1, info.NumPending, nil
}

// Close deletes the consumer.
func (c *CopyCounter) Close(ctx context.Context) {
	// If it fails, NATS deletes the consumer by itself.
	_ = c.log.js.DeleteConsumer(ctx, c.log.stream.CachedInfo().Config.Name, c.consumer.CachedInfo().Name)
}
