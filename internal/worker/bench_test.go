package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/worker"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	realm = bus.DefaultRealm
	// ackWait is short, so that what keeps silent is delivered again soon.
	ackWait = 4 * time.Second
)

// durable is the consumer that the role of the example's finalizer may use.
var durable = bus.FinalizerDurable(bus.ExampleFinalizer)

// bench has a work stream, and connections to it.
type bench struct {
	t       *testing.T
	ctx     context.Context
	server  *natsd.Server
	servers []*natsd.Server
	js      jetstream.JetStream // of the test itself

	ackWait time.Duration
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, ctx: testkit.Context(t), server: testkit.NATS(t), ackWait: ackWait}
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

func (b *bench) consumerConfig() *jetstream.ConsumerConfig {
	return &jetstream.ConsumerConfig{
		Durable: durable, FilterSubject: bus.FinalizeFilter(realm, bus.ExampleFinalizer), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: b.ackWait, MaxDeliver: -1, MaxAckPending: 100,
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

// ensure creates the consumer, as the graph service does.
func (b *bench) ensure(ctx context.Context) (time.Duration, error) {
	_, err := b.js.CreateOrUpdateConsumer(ctx, bus.FinalizeStream(realm), *b.consumerConfig())
	return b.ackWait, err
}

// config is that of a worker with a connection of its own.
func (b *bench) config(handle func(context.Context, *worker.Message) error) worker.Config {
	return worker.Config{
		Conn: testkit.Conn(b.t, b.server, bus.RoleFinalizer), Realm: realm, Stream: bus.FinalizeStream(realm), Durable: durable,
		Ensure: b.ensure,
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

func number(m *worker.Message) string { return string(m.Data) }
