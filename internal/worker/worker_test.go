package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	realm = bus.DefaultRealm
	// ackWait is short, so that what keeps silent is delivered again soon.
	ackWait = 400 * time.Millisecond
)

// durable is the consumer that the role of the example's finalizer may use.
var durable = bus.FinalizerDurable(bus.ExampleFinalizer)

// bench has a work stream, and connections to it.
type bench struct {
	t      *testing.T
	ctx    context.Context
	server *natsd.Server
	js     jetstream.JetStream // of who looks on
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, ctx: testkit.Context(t), server: testkit.NATS(t)}
	b.js = testkit.JetStream(t, b.server, bus.RoleGraph)
	return b
}

func (b *bench) streams() *bench {
	b.t.Helper()
	if err := bus.EnsureStreams(b.ctx, b.js, realm, 1); err != nil {
		b.t.Fatal(err)
	}
	return b
}

// subject is the subject of the i-th message.
func subject(i int) string {
	return bus.Finalize{Realm: realm, Plural: "pods", UID: fmt.Sprint("uid-", i), Finalizer: bus.ExampleFinalizer}.Subject()
}

func consumerConfig() *jetstream.ConsumerConfig {
	return &jetstream.ConsumerConfig{
		Durable: durable, FilterSubject: bus.FinalizeFilter(realm, bus.ExampleFinalizer), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 100, Metadata: map[string]string{worker.Meta: "the test"},
	}
}

func (b *bench) publish(n int) {
	b.t.Helper()
	for i := range n {
		if _, err := b.js.Publish(b.ctx, subject(i), fmt.Append(nil, i)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// config is that of a worker with a connection of its own.
func (b *bench) config(handle func(context.Context, jetstream.Msg) error) worker.Config {
	return worker.Config{
		JS: testkit.JetStream(b.t, b.server, bus.RoleFinalizer), Realm: realm, Stream: bus.FinalizeStream(realm), Durable: durable, Create: consumerConfig(),
		Handle: handle, By: "worker", Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
	}
}

// run runs a worker until the test has ended, or stop is called, which returns
// what Run did.
func (b *bench) run(c worker.Config) (stop func() error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, c) }()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	b.t.Cleanup(func() { _ = stop() })
	return stop
}

// info is the consumer's.
func (b *bench) info() *jetstream.ConsumerInfo {
	b.t.Helper()
	c, err := b.js.Consumer(b.ctx, bus.FinalizeStream(realm), durable)
	if err != nil {
		b.t.Fatal(err)
	}
	return c.CachedInfo()
}

func (b *bench) waitForEnd() {
	b.t.Helper()
	testkit.WaitFor(b.t, b.ctx, "the stream to be empty", func() bool {
		i := b.info()
		return i.NumPending == 0 && i.NumAckPending == 0
	})
}

func number(m jetstream.Msg) string { return string(m.Data()) }

// A message that takes longer than the consumer waits is not delivered again:
// the worker says that it is at it. One of which nobody says so is.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	b.publish(1)
	silent, calls := make(chan struct{}), atomic.Int32{}
	b.run(b.config(func(context.Context, jetstream.Msg) error {
		calls.Add(1)
		<-silent
		return nil
	}))
	testkit.WaitFor(t, b.ctx, "the message", func() bool { return calls.Load() > 0 })
	other := subject(1)
	if _, err := b.js.Publish(b.ctx, other, nil); err != nil {
		t.Fatal(err)
	}
	consumer, err := b.js.Consumer(b.ctx, bus.FinalizeStream(realm), durable)
	if err != nil {
		t.Fatal(err)
	}
	for delivery := uint64(1); delivery <= 4; delivery++ {
		m, err := consumer.Next(jetstream.FetchContext(b.ctx))
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject() != other || meta.NumDelivered != delivery {
			t.Fatalf("delivery %d of %s; want delivery %d of %s", meta.NumDelivered, m.Subject(), delivery, other)
		}
		if delivery == 4 {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(silent)
	b.waitForEnd()
	if n := calls.Load(); n != 1 {
		t.Errorf("handled %d times", n)
	}
}

// A worker takes no more messages than it handles at once: the next ones are
// for others, and do not wait behind what it is at.
func TestNothingWaitsInAWorker(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			b := newBench(t).streams()
			release := make(chan struct{})
			var held atomic.Int32
			slow := b.config(func(context.Context, jetstream.Msg) error {
				held.Add(1)
				<-release
				return nil
			})
			slow.Concurrency = concurrency
			b.run(slow)
			total := 3 * concurrency
			b.publish(total)
			testkit.WaitFor(t, b.ctx, "the slow worker to be busy", func() bool { return int(held.Load()) == concurrency })
			done := make(chan string, total)
			var redelivered atomic.Int32
			fast := b.config(func(_ context.Context, m jetstream.Msg) error {
				done <- number(m)
				return nil
			})
			fast.Observe = func(o worker.Outcome) {
				if o.Redelivered {
					redelivered.Add(1)
				}
			}
			b.run(fast)
			for range total - concurrency {
				testkit.Receive(t, b.ctx, "a message that the slow worker is not at", done)
			}
			close(release)
			b.waitForEnd()
			if n := redelivered.Load(); n > 0 {
				t.Errorf("%d messages had been with the slow worker", n)
			}
			if n := int(held.Load()); n != concurrency {
				t.Errorf("the slow worker handled %d messages", n)
			}
		})
	}
}

// A failed message comes again, later and later, for as long as it takes.
func TestRetry(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	b.publish(1)
	var attempts []uint64
	done := make(chan struct{})
	c := b.config(func(_ context.Context, m jetstream.Msg) error {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		attempts = append(attempts, meta.NumDelivered)
		if len(attempts) < 10 {
			return errors.New("not yet")
		}
		close(done)
		return nil
	})
	c.ParkAfter = 3
	var failed, parked atomic.Int32
	c.Observe = func(o worker.Outcome) {
		if o.Err != nil {
			failed.Add(1)
		}
		if o.Parked {
			parked.Add(1)
		}
	}
	b.run(c)
	testkit.Receive(t, b.ctx, "the last attempt", done)
	b.waitForEnd()
	if failed.Load() != 9 || parked.Load() != 0 {
		t.Errorf("%d failed, %d parked", failed.Load(), parked.Load())
	}
}

// What fails for a reason that waiting does not cure is put aside after some
// attempts, with all that is needed to replay it, and holds up nothing.
func TestPark(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	b.publish(2)
	c := b.config(func(_ context.Context, m jetstream.Msg) error {
		if number(m) == "0" {
			return fmt.Errorf("handling: %w", worker.Permanent(errors.New("poison")))
		}
		return nil
	})
	c.ParkAfter = 3
	outcomes := make(chan worker.Outcome, 100)
	c.Observe = func(o worker.Outcome) { outcomes <- o }
	b.run(c)
	attempts, parked := 0, 0
	for parked == 0 {
		o := testkit.Receive(t, b.ctx, "an outcome", outcomes)
		if o.Err != nil {
			attempts++
		}
		if o.Parked {
			parked++
		}
	}
	if attempts != 3 {
		t.Errorf("parked after %d attempts", attempts)
	}
	b.waitForEnd()
	stream, err := b.js.Stream(b.ctx, bus.ParkedStream(realm))
	if err != nil {
		t.Fatal(err)
	}
	original := subject(0)
	m, err := stream.GetLastMsgForSubject(b.ctx, bus.ParkedSubject(realm, original, 1))
	if err != nil {
		t.Fatal(err)
	}
	var p coppicev1.Parked
	if err := proto.Unmarshal(m.Data, &p); err != nil {
		t.Fatal(err)
	}
	if p.GetSubject() != original || string(p.GetMessage()) != "0" || p.GetAttempts() != 3 || p.GetBy() != "worker" ||
		!strings.Contains(p.GetError(), "poison") || p.GetTime() == 0 {
		t.Errorf("parked as %v", &p)
	}
}

// A message that cannot be parked is not lost.
func TestParkFails(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	parked := bus.WorkConfigs(realm, 1)[2]
	if err := b.js.DeleteStream(b.ctx, parked.Name); err != nil {
		t.Fatal(err)
	}
	b.publish(1)
	var attempts atomic.Int32
	c := b.config(func(context.Context, jetstream.Msg) error {
		attempts.Add(1)
		return worker.Permanent(errors.New("poison"))
	})
	c.ParkAfter = 1
	b.run(c)
	testkit.WaitFor(t, b.ctx, "several attempts", func() bool { return attempts.Load() > 3 })
	if _, err := b.js.CreateStream(b.ctx, parked); err != nil {
		t.Fatal(err)
	}
	b.waitForEnd()
	stream, err := b.js.Stream(b.ctx, parked.Name)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages are parked", n)
	}
}

// Workers that share a durable consumer must agree on it; who does not is told
// who made it, and why it cannot work.
func TestConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	if _, err := b.js.CreateConsumer(b.ctx, bus.FinalizeStream(realm), *consumerConfig()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"ack wait":        func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour },
		"max ack pending": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 },
		"max deliver":     func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 },
		"filter":          func(c *jetstream.ConsumerConfig) { c.FilterSubject = subject(0) },
	} {
		c := b.config(nil)
		change(c.Create)
		err := worker.Run(b.ctx, c)
		var conflict *worker.ConflictError
		if !errors.As(err, &conflict) || !strings.Contains(conflict.What, name) || conflict.Holder != "the test" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A worker may be there before stream and consumer are, and outlives the
// consumer.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	done := make(chan string, 10)
	var open atomic.Bool
	c := b.config(func(_ context.Context, m jetstream.Msg) error {
		done <- number(m)
		return nil
	})
	c.Opened = func(is bool) { open.Store(is) }
	create := *c.Create
	c.Create = nil // somebody else makes it
	b.run(c)
	b.streams()
	if open.Load() {
		t.Error("open without a consumer")
	}
	for range 2 {
		if _, err := b.js.CreateConsumer(b.ctx, bus.FinalizeStream(realm), create); err != nil {
			t.Fatal(err)
		}
		b.publish(1)
		testkit.Receive(t, b.ctx, "the message", done)
		b.waitForEnd()
		testkit.WaitFor(t, b.ctx, "open", open.Load)
		if err := b.js.DeleteConsumer(b.ctx, bus.FinalizeStream(realm), durable); err != nil {
			t.Fatal(err)
		}
		testkit.WaitFor(t, b.ctx, "the loss to be noticed", func() bool { return !open.Load() })
	}
}

// What was begun is brought to its end when the worker is to end, for a while;
// then it is given to another.
func TestEnd(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"in time": testkit.Timeout, "not in time": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t).streams()
			b.publish(1)
			begun, finish := make(chan struct{}), make(chan struct{})
			c := b.config(func(ctx context.Context, _ jetstream.Msg) error {
				close(begun)
				select {
				case <-finish:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			c.Grace = grace
			stop := b.run(c)
			testkit.Receive(t, b.ctx, "the message", begun)
			ended := make(chan error, 1)
			go func() { ended <- stop() }()
			if name == "in time" {
				close(finish)
			}
			if err := testkit.Receive(t, b.ctx, "the end", ended); err != nil {
				t.Fatal(err)
			}
			if name == "in time" {
				b.waitForEnd()
				return
			}
			again := make(chan string, 1)
			b.run(b.config(func(_ context.Context, m jetstream.Msg) error {
				again <- number(m)
				return nil
			}))
			testkit.Receive(t, b.ctx, "the message, by another", again)
		})
	}
}

// What a worker held that died is delivered to another.
func TestDeath(t *testing.T) {
	t.Parallel()
	b := newBench(t).streams()
	b.publish(4)
	other := testkit.Conn(t, b.server, bus.RoleFinalizer)
	var held atomic.Int32
	dying := b.config(func(ctx context.Context, _ jetstream.Msg) error {
		held.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	js, err := jetstream.New(other)
	if err != nil {
		t.Fatal(err)
	}
	dying.JS, dying.Concurrency, dying.Grace = js, 2, time.Millisecond
	b.run(dying)
	testkit.WaitFor(t, b.ctx, "messages to be held", func() bool { return held.Load() == 2 })
	other.Close()
	var redelivered, done atomic.Int32
	c := b.config(func(context.Context, jetstream.Msg) error { return nil })
	c.Observe = func(o worker.Outcome) {
		done.Add(1)
		if o.Redelivered {
			redelivered.Add(1)
		}
	}
	b.run(c)
	testkit.WaitFor(t, b.ctx, "all messages", func() bool { return done.Load() == 4 })
	if n := redelivered.Load(); n != 2 {
		t.Errorf("%d were delivered again", n)
	}
}
