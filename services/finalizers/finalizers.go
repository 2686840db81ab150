// Package finalizers implements the service that does the work of Coppice's built-in
// finalizers, except for coppice.dev/protection, for which the graph service walks: orphan removes the references of an object's dependents to it,
// foregroundDeletion waits until no dependent delays the object, coppice.dev/contents
// deletes the contents of a namespace or kind, and coppice.dev/in-use waits until no
// object uses the object.
//
// The service is stateless, and any number of instances share the work. The writer decides,
// in the commit that removes a finalizer, whether the finalizer has done its part.
package finalizers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/realmset"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/worker"
	"github.com/coppice-gc/coppice/internal/worker/workermetrics"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config configures a Service.
type Config struct {
	// Conn is the connection, under the role bus.RoleFinalizers. Required.
	Conn *nats.Conn
	// Realms are the realms until the list of realms has been read; bus.DefaultRealm.
	Realms []string
	// Concurrency is the number of chunks of each queue that are handled at the same time;
	// 4 if zero.
	Concurrency int
	// Instance is a name of this process for operators.
	Instance string
	Log      *slog.Logger
	Registry prometheus.Registerer
	// TracerProvider records spans of messages; nil for none.
	TracerProvider trace.TracerProvider
}

// Service does the work of the built-in finalizers.
type Service struct {
	c       Config
	metrics *workermetrics.Metrics
}

// New returns a service. Run starts it.
func New(c Config) (*Service, error) {
	if len(c.Realms) == 0 {
		c.Realms = []string{bus.DefaultRealm}
	}
	if c.Concurrency == 0 {
		c.Concurrency = 4
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{c: c, metrics: workermetrics.New(c.Registry, "finalizers")}
	for _, realm := range c.Realms {
		for _, q := range queues() {
			s.metrics.Opened(realm, q.name) // not ready before
		}
	}
	return s, nil
}

// Run handles work until ctx ends, in all realms of the list.
func (s *Service) Run(ctx context.Context) error {
	return realmset.Run(ctx, realmset.Config{Conn: s.c.Conn, Realms: s.c.Realms, Work: s.work, Ended: s.metrics.Remove, Log: s.c.Log})
}

// queue is a queue with the durable consumer and the operation of its work.
type queue struct {
	name, durable, op string
	handle            func(*finalizer, context.Context, *worker.Message) error
}

func queues() []queue {
	return []queue{
		{bus.QueueOrphan, bus.DurableOrphan, bus.OpOrphan, (*finalizer).orphan},
		{bus.QueueFinish, bus.DurableFinish, bus.OpFinish, (*finalizer).finish},
		{bus.QueueDrain, bus.DurableDrain, bus.OpDrain, (*finalizer).drain},
	}
}

// work handles the work of a realm until ctx ends.
func (s *Service) work(ctx context.Context, realm string) error {
	g, ctx := errgroup.WithContext(ctx)
	f := &finalizer{Service: s, realm: realm}
	for _, q := range queues() {
		g.Go(func() error {
			return worker.Run(ctx, worker.Config{
				Conn: s.c.Conn, Realm: realm, Stream: bus.WorkStream(realm), Durable: q.durable, Concurrency: s.c.Concurrency,
				Handle: func(ctx context.Context, m *worker.Message) error { return q.handle(f, ctx, m) }, By: s.c.Instance, Log: s.c.Log.With("realm", realm),
				Tracer:  tracing.Tracer(s.c.TracerProvider),
				Peer:    func(ctx context.Context) bool { return rpc.Answers(ctx, s.c.Conn, bus.InternalSubject(realm, q.op)) },
				Observe: s.metrics.Of(realm, q.name), Opened: s.metrics.Opened(realm, q.name),
			})
		})
	}
	return g.Wait()
}

// Ready returns nil if the service takes work, and otherwise an error that says what it
// waits for. It is safe for concurrent use.
func (s *Service) Ready() error { return cmp.Or(bus.Connected(s.c.Conn), s.metrics.Ready()) }

// finalizer works for one realm.
type finalizer struct {
	*Service
	realm string
}

// timeout is the time for which a reply is awaited, and attempt the time after which the
// request is repeated: if a graph service crashes before it replies, the next one answers
// the repetition. Repetitions are harmless.
const (
	timeout = 30 * time.Second
	attempt = 5 * time.Second
)

// orphan removes the references of dependents to an owner that is being deleted with the
// orphan finalizer. When no valid reference is left, the removal of the finalizer becomes
// pending work.
func (f *finalizer) orphan(ctx context.Context, m *worker.Message) error {
	var chunk coppicev1.OrphanChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not an OrphanChunk: %w", err))
	}
	if err := m.Known(chunk.GetFormat()); err != nil {
		return err
	}
	return f.call(ctx, bus.OpOrphan, &coppicev1.OrphanRequest{Groups: chunk.GetGroups()}, &coppicev1.OrphanReply{})
}

// drain deletes the contents of namespaces or kinds that are being deleted.
func (f *finalizer) drain(ctx context.Context, m *worker.Message) error {
	var chunk coppicev1.DrainChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not a DrainChunk: %w", err))
	}
	if err := m.Known(chunk.GetFormat()); err != nil {
		return err
	}
	return f.call(ctx, bus.OpDrain, &coppicev1.DrainRequest{Groups: chunk.GetGroups()}, &coppicev1.DrainReply{})
}

// finish requests the removal of a built-in finalizer that may have done its part. If
// dependents were added meanwhile, the writer refuses the removal. It becomes pending work again
// when the work for these dependents is done.
func (f *finalizer) finish(ctx context.Context, m *worker.Message) error {
	var chunk coppicev1.FinishChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not a FinishChunk: %w", err))
	}
	if err := m.Known(chunk.GetFormat()); err != nil {
		return err
	}
	return f.call(ctx, bus.OpFinish, &coppicev1.FinishRequest{Finalizer: chunk.GetFinalizer(), Uids: chunk.GetUids()}, &coppicev1.FinishReply{})
}

func (f *finalizer) call(ctx context.Context, op string, request, reply proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := rpc.Retry(ctx, attempt, func(ctx context.Context) error {
		return rpc.Call(ctx, f.c.Conn, bus.InternalSubject(f.realm, op), nil, request, reply)
	})
	var e *lifecycle.Error
	if errors.As(err, &e) && !rpc.Retryable(err) {
		return worker.Permanent(err)
	}
	return err
}
