// Package worker takes messages from a durable consumer and handles them, many
// at once. It is what garbage processors, finalizers and the SDK's finalizer
// runner have in common.
//
// A message is acknowledged when its handler has succeeded; before that it says
// every few seconds that it is being worked on, so that only a worker that died
// or lost its connection loses it to another. A handler that failed gets the
// message again, later and later. One that fails for a reason that waiting does
// not cure is parked after a number of attempts: copied to where people can see
// it and replay it, and taken out of the way.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config is how to work.
type Config struct {
	JS      jetstream.JetStream
	Realm   string
	Stream  string
	Durable string
	// Create is the consumer to create if there is none; nil to wait for one.
	Create *jetstream.ConsumerConfig
	// Concurrency is how many messages are handled at once; 1.
	Concurrency int
	// Handle handles a message. Its context ends some time after the
	// worker's, so that what was begun can be finished.
	Handle func(ctx context.Context, m jetstream.Msg) error
	// ParkAfter is how often a message is tried that fails for a reason that
	// waiting does not cure; 5.
	ParkAfter uint64
	// Backoff is the pause after the first failure, which doubles with each
	// up to MaxBackoff; 200 ms and 1 minute.
	Backoff, MaxBackoff time.Duration
	// Grace is how long what was begun may go on when ctx has ended; 5 s.
	Grace time.Duration
	// Peer reports whether those are there whom Handle needs; nil if it needs
	// nobody. When ctx has ended and they are not, what was begun does not go
	// on: it would wait for them for as long as it may. It is asked by one
	// goroutine, with a context that ends soon.
	Peer func(ctx context.Context) bool
	// By names this worker to people.
	By  string
	Log *slog.Logger
	// Observe gets what became of each message.
	Observe func(Outcome)
	// Opened is told whether the consumer is there.
	Opened func(bool)
}

// Outcome is what became of a message.
type Outcome struct {
	Err         error
	Redelivered bool
	Parked      bool
	Duration    time.Duration
}

// permanentError is an error that waiting does not cure.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error as one that waiting does not cure.
func Permanent(err error) error { return permanentError{err} }

func (c *Config) defaults() {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.ParkAfter == 0 {
		c.ParkAfter = 5
	}
	if c.Backoff == 0 {
		c.Backoff = 200 * time.Millisecond
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = time.Minute
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	if c.Opened == nil {
		c.Opened = func(bool) {}
	}
}

// ConflictError says that the durable consumer exists with other settings.
type ConflictError struct {
	Stream, Durable string
	// Holder is who created it, as far as it said.
	Holder string
	What   string
}

func (e *ConflictError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "somebody who did not say who it is"
	}
	return fmt.Sprintf("consumer %s of stream %s is held by %s with other settings: %s; use the same, or end it and delete the consumer", e.Durable, e.Stream, holder, e.What)
}

// Run works until ctx ends. It waits for the stream and the consumer to be
// there, and returns an error only for what waiting does not cure.
func Run(ctx context.Context, c Config) error {
	c.defaults()
	said, pause := "", firstPause
	for {
		consumer, err := open(ctx, &c)
		if err == nil {
			said, pause = "", firstPause
			c.Opened(true)
			err = work(ctx, &c, consumer)
			c.Opened(false)
		}
		var conflict *ConflictError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case errors.As(err, &conflict):
			return err
		case err != nil && err.Error() != said:
			said = err.Error()
			c.Log.Info("waiting for work", "stream", c.Stream, "consumer", c.Durable, "reason", said)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// How long to wait for what is not there yet.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// Meta is the key of a consumer's metadata under which its creator says who it is.
const Meta = "coppice-holder"

func open(ctx context.Context, c *Config) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	consumer, err := c.JS.Consumer(ctx, c.Stream, c.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && c.Create != nil {
		consumer, err = c.JS.CreateConsumer(ctx, c.Stream, *c.Create)
	}
	if err != nil {
		return nil, err
	}
	if c.Create == nil {
		return consumer, nil
	}
	is, want := consumer.CachedInfo().Config, c.Create
	for _, f := range []struct {
		name     string
		is, want any
	}{
		{"filter", is.FilterSubject, want.FilterSubject},
		{"ack wait", is.AckWait, want.AckWait},
		{"max ack pending", is.MaxAckPending, want.MaxAckPending},
		{"max deliver", is.MaxDeliver, want.MaxDeliver},
		{"ack policy", is.AckPolicy, want.AckPolicy},
	} {
		if f.is != f.want {
			return nil, &ConflictError{
				Stream: c.Stream, Durable: c.Durable, Holder: is.Metadata[Meta],
				What: fmt.Sprintf("its %s is %v, not %v", f.name, f.is, f.want),
			}
		}
	}
	return consumer, nil
}

// work handles messages until ctx ends or the consumer is lost.
func work(ctx context.Context, c *Config, consumer jetstream.Consumer) error {
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	end := context.AfterFunc(ctx, func() { giveUp(handling, cancel, c) })
	defer end()
	ackWait := consumer.CachedInfo().Config.AckWait
	g, pulling := errgroup.WithContext(ctx)
	for range c.Concurrency {
		g.Go(func() error { return pull(pulling, handling, c, consumer, ackWait) })
	}
	return g.Wait()
}

// giveUp cancels what was begun when it has had its time, or when nobody is
// there whom it needs.
func giveUp(handling context.Context, cancel context.CancelFunc, c *Config) {
	time.AfterFunc(c.Grace, cancel)
	for c.Peer != nil && handling.Err() == nil {
		ctx, done := context.WithTimeout(handling, peerTimeout)
		there := c.Peer(ctx)
		done()
		if !there {
			cancel()
		}
		select {
		case <-handling.Done():
		case <-time.After(peerPause):
		}
	}
}

// How long to wait for an answer of Config.Peer, and before it is asked again.
const (
	peerTimeout = 250 * time.Millisecond
	peerPause   = 50 * time.Millisecond
)

// pull handles messages one after the other. A message is asked for when there
// is somebody to handle it: one that waited here for its turn would say nothing
// of itself, and be delivered to another meanwhile.
func pull(ctx, handling context.Context, c *Config, consumer jetstream.Consumer, ackWait time.Duration) error {
	messages, err := consumer.Messages(
		jetstream.PullMaxMessages(1), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			// The server is away, and the iterator asks again; or the
			// consumer is gone, of which the iterator does not tell.
			if err := exists(ctx, consumer); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		handle(handling, c, m, ackWait)
	}
}

// exists returns an error if a consumer is known not to exist any more.
func exists(ctx context.Context, consumer jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := consumer.Info(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return nil
}

// handle handles one message, and says that it does while it does.
func handle(ctx context.Context, c *Config, m jetstream.Msg, ackWait time.Duration) {
	meta, err := m.Metadata()
	if err != nil {
		c.Log.Error("a message without metadata", "subject", m.Subject(), "error", err)
		return
	}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(max(ackWait/4, 50*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = m.InProgress() // the next tick tries again
			}
		}
	}()
	start := time.Now()
	err = c.Handle(ctx, m)
	close(done)
	o := Outcome{Err: err, Redelivered: meta.NumDelivered > 1, Duration: time.Since(start)}
	var permanent permanentError
	switch {
	case err == nil:
		// Without the acknowledgement it comes again, which does no harm.
		_ = m.Ack()
	case ctx.Err() != nil:
		_ = m.Nak()
	case errors.As(err, &permanent) && meta.NumDelivered >= c.ParkAfter:
		o.Parked = park(ctx, c, m, meta, err)
	default:
		pause := backoff(c, meta.NumDelivered)
		c.Log.Warn("work failed", "subject", m.Subject(), "attempt", meta.NumDelivered, "again_in", pause, "error", err)
		_ = m.NakWithDelay(pause)
	}
	c.Observe(o)
}

func backoff(c *Config, attempts uint64) time.Duration {
	pause := c.Backoff
	for range min(attempts, 32) - 1 {
		if pause >= c.MaxBackoff {
			break
		}
		pause *= 2
	}
	return min(pause, c.MaxBackoff)
}

// park puts a message where people can see it. If that fails, it comes again.
func park(ctx context.Context, c *Config, m jetstream.Msg, meta *jetstream.MsgMetadata, why error) bool {
	data, err := proto.Marshal(&coppicev1.Parked{
		Subject: m.Subject(), Message: m.Data(), Error: why.Error(), Attempts: uint32(meta.NumDelivered),
		Time: time.Now().UnixMicro(), By: c.By,
	})
	if err == nil {
		_, err = c.JS.PublishMsg(ctx, &nats.Msg{Subject: bus.ParkedSubject(c.Realm, m.Subject(), meta.Sequence.Stream), Data: data})
	}
	if err != nil {
		c.Log.Error("cannot park", "subject", m.Subject(), "error", err)
		_ = m.NakWithDelay(c.MaxBackoff)
		return false
	}
	c.Log.Error("parked; see `coppice parked`", "subject", m.Subject(), "attempts", meta.NumDelivered, "error", why)
	_ = m.Ack()
	return true
}
