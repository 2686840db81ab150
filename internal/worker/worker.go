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
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config is how to work.
type Config struct {
	Conn    *nats.Conn
	Realm   string
	Stream  string
	Durable string
	// Ensure has the consumer created if there is none, and returns its ack wait;
	// nil to wait for a consumer with AckWait. An error of lifecycle.ReasonBadRequest
	// or lifecycle.ReasonConflict ends Run.
	Ensure func(ctx context.Context) (ackWait time.Duration, err error)
	// AckWait is after how long a message is delivered again of which nothing is
	// said; bus.WorkAckWait.
	AckWait time.Duration
	// Concurrency is how many messages are handled at once; 1.
	Concurrency int
	// Handle handles a message. Its context ends some time after the
	// worker's, so that what was begun can be finished.
	Handle func(ctx context.Context, m *Message) error
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
	if c.AckWait == 0 {
		c.AckWait = bus.WorkAckWait
	}
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

// Run works until ctx ends. It waits for the stream and the consumer to be
// there, and returns an error only for what waiting does not cure.
func Run(ctx context.Context, c Config) error {
	c.defaults()
	said, pause := "", firstPause
	for {
		ackWait, first, err := open(ctx, &c)
		if err == nil {
			said, pause = "", firstPause
			c.Opened(true)
			err = work(ctx, &c, first, ackWait)
			c.Opened(false)
		}
		var refusal *lifecycle.Error
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case errors.As(err, &refusal) && (refusal.Reason == lifecycle.ReasonBadRequest || refusal.Reason == lifecycle.ReasonConflict):
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

// open makes sure that the consumer is there. That it does by pulling once, so that it
// may get a message.
func open(ctx context.Context, c *Config) (ackWait time.Duration, first *Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ackWait = c.AckWait
	if c.Ensure != nil {
		if ackWait, err = c.Ensure(ctx); err != nil {
			return 0, nil, err
		}
	}
	first, err = c.pull(ctx, pullNow)
	return ackWait, first, err
}

// work handles messages, the first of which may be there already, until ctx ends
// or the consumer is lost.
func work(ctx context.Context, c *Config, first *Message, ackWait time.Duration) error {
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	end := context.AfterFunc(ctx, func() { giveUp(handling, cancel, c) })
	defer end()
	g, pulling := errgroup.WithContext(ctx)
	for i := range c.Concurrency {
		m := first
		if i > 0 {
			m = nil
		}
		g.Go(func() error { return loop(pulling, handling, c, m, ackWait) })
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

// loop handles messages one after the other. A message is asked for when there
// is somebody to handle it: one that waited here for its turn would say nothing
// of itself, and be delivered to another meanwhile.
func loop(ctx, handling context.Context, c *Config, m *Message, ackWait time.Duration) error {
	for {
		if m != nil {
			handle(handling, c, m, ackWait)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		m, err = c.pull(ctx, pullWaiting)
		if errors.Is(err, errSilent) {
			// The server is away, and is asked again; or the consumer is gone.
			if m, err = c.pull(ctx, pullNow); errors.Is(err, errSilent) {
				m, err = nil, nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// handle handles one message, and says that it does while it does.
func handle(ctx context.Context, c *Config, m *Message, ackWait time.Duration) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(max(ackWait/4, 50*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				m.answer(inProgress) // the next tick tries again
			}
		}
	}()
	start := time.Now()
	err := c.Handle(ctx, m)
	close(done)
	o := Outcome{Err: err, Redelivered: m.Delivered > 1, Duration: time.Since(start)}
	var permanent permanentError
	switch {
	case err == nil:
		// Without the acknowledgement it comes again, which does no harm.
		m.answer(ack)
	case ctx.Err() != nil:
		m.answer(nak)
	case errors.As(err, &permanent) && m.Delivered >= c.ParkAfter:
		o.Parked = park(ctx, c, m, err)
	default:
		pause := backoff(c, m.Delivered)
		c.Log.Warn("work failed", "subject", m.Subject, "attempt", m.Delivered, "again_in", pause, "error", err)
		m.nakWithDelay(pause)
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
func park(ctx context.Context, c *Config, m *Message, why error) bool {
	data, err := proto.Marshal(&coppicev1.Parked{
		Subject: m.Subject, Message: m.Data, Error: shortened(why.Error()), Attempts: uint32(m.Delivered),
		Time: time.Now().UnixMicro(), By: c.By,
	})
	var js jetstream.JetStream
	if err == nil {
		js, err = jetstream.New(c.Conn)
	}
	if err == nil {
		_, err = js.PublishMsg(ctx, &nats.Msg{Subject: bus.ParkedSubject(c.Realm, m.Subject, m.Sequence), Data: data})
	}
	if err != nil {
		c.Log.Error("cannot park", "subject", m.Subject, "error", err)
		m.nakWithDelay(c.MaxBackoff)
		return false
	}
	c.Log.Error("parked; see `coppice parked`", "subject", m.Subject, "attempts", m.Delivered, "error", why)
	m.answer(ack)
	return true
}

// shortened cuts off the text of an error that parked work has no room for.
func shortened(text string) string {
	const longest = 4 << 10
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}
