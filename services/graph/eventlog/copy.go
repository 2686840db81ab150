package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Copy reads the copy of the log that one NATS server of a cluster has. It is for one
// goroutine.
type Copy struct {
	// Server is the name of the server.
	Server string

	log       *Log
	consumer  jetstream.Consumer
	delivered uint64 // messages, as the server counts them
	silent    int    // reads in a row that returned nothing, although the log has more
}

// Servers returns the names of the NATS servers that have a copy of the log, and of those that are
// offline; nil if there is one copy.
func (l *Log) Servers(ctx context.Context) (names, offline []string, err error) {
	info, err := l.info(ctx)
	if err != nil || info.Cluster == nil || len(info.Cluster.Replicas) == 0 {
		return nil, nil, err
	}
	if info.Cluster.Leader != "" {
		names = append(names, info.Cluster.Leader)
	}
	for _, p := range info.Cluster.Replicas {
		names = append(names, p.Name)
		if p.Offline {
			offline = append(offline, p.Name)
		}
	}
	return names, offline, nil
}

// OpenCopy opens the copy of one server, which NATS chooses, to read it from a position on. The
// caller must close it. The copy is read through a consumer without replicas, which is on one of
// the servers with a copy, delivers what that server has, and ends when that server does.
func (l *Log) OpenCopy(ctx context.Context, from uint64) (*Copy, error) {
	consumer, err := l.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1), AckPolicy: jetstream.AckNonePolicy,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: copyIdle,
	})
	if err != nil {
		return nil, fmt.Errorf("log of realm %s: the copy of a NATS server: %w", l.realm, err)
	}
	c := &Copy{log: l, consumer: consumer}
	if at := consumer.CachedInfo().Cluster; at != nil {
		c.Server = at.Leader
	}
	return c, nil
}

const (
	// copyIdle is the time after which NATS deletes the consumer of a Copy that is not read.
	copyIdle = 2 * time.Minute
	// copyWait is the time for which Read waits for messages, and copySilence the number of
	// such waits after which messages that the log has count as missing.
	copyWait    = time.Second
	copySilence = 10
	// copyBytes bounds one Read. It is more than the largest message.
	copyBytes = 16 << 20
)

// Read calls visit for the next messages of the copy, up to 16 MiB of them. last is the position
// of the last message that was visited, and known that of the last message of the log. Read
// returns the error of visit. If the server has repeatedly delivered nothing, the error is a
// BrokenError if the server has more messages, and otherwise wraps ErrBehind. Any other error
// says nothing about the copy: close it. One of them is that messages were delivered and did not
// arrive, because the request for them had ended. NATS does not deliver them again, and they are
// not missing in the copy.
func (c *Copy) Read(ctx context.Context, last, known uint64, visit func(Message) error) error {
	batch, err := c.consumer.FetchBytes(copyBytes, jetstream.FetchMaxWait(copyWait))
	if err != nil {
		return fmt.Errorf("log of realm %s: the copy of NATS server %s: %w", c.log.realm, c.Server, err)
	}
	read := false
	for m := range batch.Messages() {
		meta, fail := m.Metadata()
		if fail == nil {
			fail = c.arrived(meta.Sequence.Consumer - 1)
			c.delivered = meta.Sequence.Consumer
		}
		if err == nil {
			err = fail
		}
		if err != nil {
			continue // the rest of the batch is only counted
		}
		read = true
		err = visit(Message{Position: meta.Sequence.Stream, Data: m.Data(), Pending: meta.NumPending})
	}
	if err != nil {
		return err
	}
	if err := batch.Error(); err != nil {
		return fmt.Errorf("log of realm %s: the copy of NATS server %s: %w", c.log.realm, c.Server, err)
	}
	if read || last >= known {
		c.silent = 0
		return nil
	}
	info, err := c.consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("log of realm %s: the copy of NATS server %s: %w", c.log.realm, c.Server, err)
	}
	if err := c.arrived(info.Delivered.Consumer); err != nil {
		return err
	}
	switch c.silent++; {
	case c.silent < copySilence:
		return nil
	case info.NumPending == 0:
		return fmt.Errorf("log of realm %s: the copy of NATS server %s ends at sequence %d: %w", c.log.realm, c.Server, last, ErrBehind)
	}
	return &BrokenError{Position: last + 1, Last: last + 1, What: "it is not delivered"}
}

// arrived returns an error if the server has delivered more messages than have arrived.
func (c *Copy) arrived(delivered uint64) error {
	if delivered == c.delivered {
		return nil
	}
	return fmt.Errorf("log of realm %s: NATS server %s has delivered %d messages of its copy, of which %d have arrived", c.log.realm, c.Server, delivered, c.delivered)
}

// ErrBehind is wrapped by the error of Copy.Read if a server does not have all messages yet.
var ErrBehind = errors.New("the server lags behind")

// Close deletes the consumer.
func (c *Copy) Close(ctx context.Context) {
	// If it fails, NATS deletes the consumer by itself.
	_ = c.log.js.DeleteConsumer(ctx, c.log.stream.CachedInfo().Config.Name, c.consumer.CachedInfo().Name)
}
