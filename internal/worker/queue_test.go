package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
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

// queue is a realm with a stream of calls of a finalizer, which workers handle.
type queue struct {
	*testkit.Realm
	ackWait time.Duration
}

// newQueue returns a queue whose streams exist.
func newQueue(t *testing.T) *queue {
	t.Helper()
	b := &queue{testkit.NewRealm(t), ackWait}
	b.Streams()
	return b
}

// subject is the subject of the i-th message.
func subject(i int) string {
	return bus.Finalize{Realm: realm, Plural: "pods", UID: fmt.Sprint("uid-", i), Finalizer: bus.ExampleFinalizer}.Subject()
}

func (b *queue) consumerConfig() *jetstream.ConsumerConfig {
	return &jetstream.ConsumerConfig{
		Durable: durable, FilterSubject: bus.FinalizeFilter(realm, bus.ExampleFinalizer), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: b.ackWait, MaxDeliver: -1, MaxAckPending: 100,
	}
}

func (b *queue) publish(n int) {
	b.Helper()
	for i := range n {
		b.Publish(subject(i), fmt.Append(nil, i))
	}
}

// ensure creates the consumer, as the graph service does.
func (b *queue) ensure(ctx context.Context) (time.Duration, error) {
	_, err := b.JS().CreateOrUpdateConsumer(ctx, bus.FinalizeStream(realm), *b.consumerConfig())
	return b.ackWait, err
}

// config is that of a worker with a connection of its own.
func (b *queue) config(handle func(context.Context, *worker.Message) error) worker.Config {
	return worker.Config{
		Conn: b.Conn(bus.RoleFinalizer), Realm: realm, Stream: bus.FinalizeStream(realm), Durable: durable,
		Ensure: b.ensure,
		Handle: handle, By: "worker", Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
	}
}

// run runs a worker.
func (b *queue) run(c worker.Config) *testkit.Running {
	b.Helper()
	return testkit.Run(b, func(ctx context.Context) error { return worker.Run(ctx, c) }).MayFail()
}

// info is the consumer's.
func (b *queue) info() *jetstream.ConsumerInfo {
	b.Helper()
	c, err := b.JS().Consumer(b.Ctx, bus.FinalizeStream(realm), durable)
	must.Succeed(b, err)
	return c.CachedInfo()
}

func (b *queue) waitForEnd() {
	b.Helper()
	b.WaitFor("the stream to be empty", func() bool {
		i := b.info()
		return i.NumPending == 0 && i.NumAckPending == 0
	})
}

func number(m *worker.Message) string { return string(m.Data) }
