// Package finalizers answers the finalizers that Coppice itself has: orphan,
// which parts an object's dependents from it, foregroundDeletion, which waits
// until those that block are gone, and coppice.dev/contents, which deletes what
// is in a namespace or of a kind that is being deleted.
//
// It is stateless, and any number of them share the work. That an object's
// dependents, or a namespace's objects, have been dealt with is the writer's to
// find, in the commit that removes the finalizer.
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
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/worker"
	"github.com/coppice-gc/coppice/internal/worker/workermetrics"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config is how to run the finalizers.
type Config struct {
	// Conn is the connection, under the role bus.RoleFinalizers. Required.
	Conn   *nats.Conn
	Realms []string
	// Concurrency is how many chunks of each queue are worked on at once; 4.
	Concurrency int
	// Instance names this process to people.
	Instance string
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Service answers the built-in finalizers.
type Service struct {
	c       Config
	metrics *workermetrics.Metrics
}

// New returns a service that Run runs.
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
	return &Service{c: c, metrics: workermetrics.New(c.Registry, "finalizers")}, nil
}

// Run works until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, realm := range s.c.Realms {
		f := &finalizer{Service: s, realm: realm}
		for _, q := range []struct {
			queue, durable, op string
			handle             func(context.Context, *worker.Message) error
		}{
			{bus.QueueOrphan, bus.DurableOrphan, bus.OpOrphan, f.orphan},
			{bus.QueueFinish, bus.DurableFinish, bus.OpFinish, f.finish},
			{bus.QueueDrain, bus.DurableDrain, bus.OpDrain, f.drain},
		} {
			g.Go(func() error {
				return worker.Run(ctx, worker.Config{
					Conn: s.c.Conn, Realm: realm, Stream: bus.WorkStream(realm), Durable: q.durable,
					Concurrency: s.c.Concurrency, Handle: q.handle, By: s.c.Instance, Log: s.c.Log.With("realm", realm),
					Peer:    func(ctx context.Context) bool { return rpc.Answers(ctx, s.c.Conn, bus.InternalSubject(realm, q.op)) },
					Observe: s.metrics.Of(realm, q.queue), Opened: s.metrics.Opened,
				})
			})
		}
	}
	return g.Wait()
}

// Ready returns nil when work is being taken, and otherwise what is missing.
func (s *Service) Ready() error { return cmp.Or(bus.Connected(s.c.Conn), s.metrics.Ready()) }

// finalizer works for one realm.
type finalizer struct {
	*Service
	realm string
}

// timeout is how long an answer is waited for, and attempt how long after one
// request: a graph service that is killed does not answer, and the next one
// answers the repetition, which does no harm.
const (
	timeout = 30 * time.Second
	attempt = 5 * time.Second
)

// orphan parts dependents from an owner that is being deleted with the orphan
// finalizer. When no valid reference is left the owner is pending to finish.
func (f *finalizer) orphan(ctx context.Context, m *worker.Message) error {
	var chunk coppicev1.OrphanChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not an OrphanChunk: %w", err))
	}
	return f.call(ctx, bus.OpOrphan, &coppicev1.OrphanRequest{Groups: chunk.GetGroups()}, &coppicev1.OrphanReply{})
}

// drain deletes what is in namespaces, or of kinds, that are being deleted.
func (f *finalizer) drain(ctx context.Context, m *worker.Message) error {
	var chunk coppicev1.DrainChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not an DrainChunk: %w", err))
	}
	return f.call(ctx, bus.OpDrain, &coppicev1.DrainRequest{Groups: chunk.GetGroups()}, &coppicev1.DrainReply{})
}

// finish removes a built-in finalizer that may be done. Where the writer finds
// that it is not, dependents have come meanwhile: they are dealt with first,
// and then it is pending again.
func (f *finalizer) finish(ctx context.Context, m *worker.Message) error {
	var chunk coppicev1.FinishChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not a FinishChunk: %w", err))
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
