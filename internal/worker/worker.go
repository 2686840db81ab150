// Package worker takes messages from a durable consumer and handles several of them
// concurrently. Garbage processors, finalizers and the SDK's finalizer runner use it.
//
// A message is acknowledged when its handler has succeeded. Until then the worker
// extends the acknowledgement deadline every few seconds, so that the server delivers
// the message to another worker only if this one died or lost its connection. When a
// handler fails, its message is delivered again with increasing delays. If it keeps
// failing for a reason that waiting does not cure, it is parked: copied to a stream
// where operators can inspect and retry it, and removed from the queue.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/tracing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config is how to work.
type Config struct {
	Conn    *nats.Conn
	Realm   string
	Stream  string
	Durable string
	// Ensure creates the consumer if it does not exist, and returns its ack wait. If
	// Ensure is nil, Run waits for a consumer with AckWait. An error of
	// api.ErrBadRequest or api.ErrConflict ends Run.
	Ensure func(ctx context.Context) (ackWait time.Duration, err error)
	// AckWait is the time after which the server delivers a message again that is
	// neither acknowledged nor in progress. The default is bus.WorkAckWait.
	AckWait time.Duration
	// Concurrency is how many messages are handled at once. The default is 1.
	Concurrency int
	// Handle handles a message. Its context ends Grace after that of Run, so that
	// handlers can finish, and has the trace of the message.
	Handle func(ctx context.Context, m *Message) error
	// ParkAfter is how often a message is tried before it is parked, if it fails for
	// a reason that waiting does not cure. The default is 5.
	ParkAfter uint64
	// Backoff is the pause after the first failure. It doubles with each further
	// failure, up to MaxBackoff. The defaults are 200 ms and 1 minute.
	Backoff, MaxBackoff time.Duration
	// Grace is how long handlers may continue after ctx has ended. The default is 5 s.
	Grace time.Duration
	// Peer reports whether the services that Handle calls are available; nil if it
	// calls none. After ctx has ended, handlers are canceled if it returns false,
	// since they could only wait until Grace is over. One goroutine calls it, with a
	// context that ends soon.
	Peer func(ctx context.Context) bool
	// By names this worker in parked messages.
	By  string
	Log *slog.Logger
	// Tracer starts the spans of messages that carry a trace; nil for none.
	Tracer trace.Tracer
	// Observe is called with the outcome of each message.
	Observe func(Outcome)
	// Opened is called when the consumer appears or disappears.
	Opened func(bool)
	// Waiting is called with the reason when Run begins to wait for the stream or the consumer,
	// and when the reason changes.
	Waiting func(error)

	failed *failures
}

// Outcome is the outcome of a message.
type Outcome struct {
	Err         error
	Redelivered bool
	Parked      bool
	Duration    time.Duration
}

// permanentError is an error that retries cannot fix.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error that retries cannot fix.
func Permanent(err error) error { return permanentError{err} }

// IsPermanent reports whether Permanent has marked an error.
func IsPermanent(err error) bool {
	var p permanentError
	return errors.As(err, &p)
}

func (c *Config) defaults() {
	c.failed = &failures{of: map[uint64]error{}}
	if c.AckWait == 0 {
		c.AckWait = bus.WorkAckWait
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 1
	}
	if c.ParkAfter == 0 {
		c.ParkAfter = 5
	}
	if c.Backoff == 0 {
		c.Backoff = 200 * time.Millisecond
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(time.Minute, c.Backoff)
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tracer == nil {
		c.Tracer = tracing.Tracer(nil)
	}
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	if c.Opened == nil {
		c.Opened = func(bool) {}
	}
	if c.Waiting == nil {
		c.Waiting = func(error) {}
	}
}

// Run handles messages until ctx ends. It waits until the stream and the consumer
// exist, and returns an error only if waiting does not help.
//
// When ctx ends, no handler begins. Run returns when its pull requests have ended, which takes up to 2 s on a
// cluster of NATS servers (4 s if they do not reply), and running handlers have returned, for which they have Grace. A message
// that arrives meanwhile is returned to the queue, and so is one whose handler did not
// finish. The NATS server has received all acknowledgements then, unless it is unavailable.
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
		var refusal *api.Error
		switch {
		case ctx.Err() != nil:
			if c.Conn.IsConnected() {
				_ = c.Conn.FlushTimeout(time.Second)
			}
			return nil
		case errors.As(err, &refusal) && (refusal.Reason == api.ErrBadRequest || refusal.Reason == api.ErrConflict):
			return err
		case err != nil && err.Error() != said:
			said = err.Error()
			c.Log.Info("waiting for work", "stream", c.Stream, "consumer", c.Durable, "reason", said)
			c.Waiting(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// Pauses between attempts to find the stream or the consumer.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// open fails unless the consumer exists, which Config.Ensure may create. It pulls once
// to find out, and may therefore return a message.
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

// work handles messages, beginning with first unless that is nil, until ctx ends or the
// consumer is lost.
func work(ctx context.Context, c *Config, first *Message, ackWait time.Duration) error {
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	end := context.AfterFunc(ctx, func() { giveUp(handling, cancel, c) })
	defer end()
	p := &pool{c: c, handling: handling, ackWait: ackWait, loops: 1}
	p.group, p.pulling = errgroup.WithContext(ctx)
	p.group.Go(func() error { return p.loop(first) })
	return p.group.Wait()
}

// giveUp cancels running handlers when Config.Grace is over, or earlier when
// Config.Peer returns false.
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

// The timeout of Config.Peer, and the pause between two calls of it.
const (
	peerTimeout = 250 * time.Millisecond
	peerPause   = 50 * time.Millisecond
)

// firstReport is the maximum time until the first report that a message is being handled.
const firstReport = time.Second

// handle handles one message, and extends its deadline until the handler returns.
func handle(ctx context.Context, c *Config, m *Message, ackWait time.Duration) {
	done, ended := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(ended)
		every := max(ackWait/4, 50*time.Millisecond)
		// The first report is early, so that it soon shows that the message is being handled.
		next := time.NewTimer(min(every, firstReport))
		defer next.Stop()
		for {
			select {
			case <-done:
				return
			case <-next.C:
				m.progress(start, c.failed.get(m.Sequence)) // if it is lost, the next one is in time
				next.Reset(every)
			}
		}
	}()
	traced, span := c.startSpan(ctx, m)
	err := c.Handle(traced, m)
	tracing.End(span, err)
	close(done)
	<-ended // a report after the outcome would replace the delay of the outcome by the ack wait
	c.failed.set(m.Sequence, err)
	o := Outcome{Err: err, Redelivered: m.Delivered > 1, Duration: time.Since(start)}
	switch {
	case err == nil:
		// If the acknowledgement is lost the message is delivered again, which does no harm.
		m.answer(ack)
	case ctx.Err() != nil:
		m.handBack()
	case IsPermanent(err) && m.Delivered >= c.ParkAfter:
		o.Parked = park(ctx, c, m, err)
	default:
		pause := backoff(c, m.Delivered)
		c.Log.Warn("work failed", "subject", m.Subject, "attempt", m.Delivered, "again_in", pause, "error", err)
		m.nakWithDelay(pause, err)
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

// park copies a message to the stream of parked work and acknowledges it. If the copy
// cannot be stored, the message is delivered again.
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
		c.Log.Warn("cannot park", "subject", m.Subject, "again_in", c.MaxBackoff, "error", err)
		m.nakWithDelay(c.MaxBackoff, err)
		return false
	}
	c.Log.Error("parked; see `coppice parked`", "subject", m.Subject, "attempts", m.Delivered, "error", why)
	m.answer(ack)
	return true
}

// shortened truncates the text of an error to the size that parked work has room for.
func shortened(text string) string {
	const longest = 4 << 10
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}
