// Package processor is the garbage processor. It takes chunks of dirty objects, asks a
// replica to resolve them, evaluates them, and proposes to the writer which to collect and
// which to strip of references.
//
// A processor is stateless, and any number of them share the work. The writer evaluates
// each proposal again, so that a processor that reads an old state, handles a chunk twice
// or crashes does no harm.
package processor

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
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/realmset"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	"github.com/coppice-gc/coppice/internal/worker/workermetrics"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config configures a Service.
type Config struct {
	// Conn is the connection, under the role bus.RoleProcessor. Required.
	Conn *nats.Conn
	// Realms are the realms until the list of realms has been read; bus.DefaultRealm.
	Realms []string
	// Concurrency is the number of chunks that are handled at the same time; 4 if zero.
	Concurrency int
	// Instance is a name of this process for operators.
	Instance string
	Log      *slog.Logger
	Registry prometheus.Registerer
	// TracerProvider records spans of messages; nil for none.
	TracerProvider trace.TracerProvider
	// MaxBackoff is the longest pause before a chunk is delivered again that could not be
	// handled; 1 minute.
	MaxBackoff time.Duration
	// Before is called before a chunk is handled; for tests.
	Before func(ctx context.Context)
}

// Service is a garbage processor.
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
	if c.Before == nil {
		c.Before = func(context.Context) {}
	}
	s := &Service{c: c, metrics: workermetrics.New(c.Registry, "processor")}
	for _, realm := range c.Realms {
		s.metrics.Opened(realm, bus.QueueDirty) // not ready before
	}
	return s, nil
}

// Run handles work until ctx ends, in all realms of the list.
func (s *Service) Run(ctx context.Context) error {
	return realmset.Run(ctx, realmset.Config{Conn: s.c.Conn, Realms: s.c.Realms, Work: s.work, Ended: s.metrics.Remove, Log: s.c.Log})
}

// work handles the work of a realm until ctx ends.
func (s *Service) work(ctx context.Context, realm string) error {
	p := &processor{Service: s, realm: realm, log: s.c.Log.With("realm", realm)}
	return worker.Run(ctx, worker.Config{
		Conn: s.c.Conn, Realm: realm, Stream: bus.WorkStream(realm), Durable: bus.DurableProcessors,
		Concurrency: s.c.Concurrency, MaxBackoff: s.c.MaxBackoff, Handle: p.handle, By: s.c.Instance, Log: p.log, Tracer: tracing.Tracer(s.c.TracerProvider),
		Peer: func(ctx context.Context) bool {
			return rpc.Answers(ctx, s.c.Conn, bus.InternalSubject(realm, bus.OpResolve))
		},
		Observe: s.metrics.Of(realm, bus.QueueDirty), Opened: s.metrics.Opened(realm, bus.QueueDirty),
	})
}

// Ready returns nil if the service takes work, and otherwise an error that says what it
// waits for. It is safe for concurrent use.
func (s *Service) Ready() error { return cmp.Or(bus.Connected(s.c.Conn), s.metrics.Ready()) }

// processor works for one realm.
type processor struct {
	*Service
	realm string
	log   *slog.Logger
}

const (
	// closure is the maximum number of direct and indirect dependents that are evaluated
	// together with the objects of a chunk.
	closure = 4096
	// rounds is the maximum number of times that a chunk is evaluated, if objects change between
	// evaluation and proposal. After that the worker handles other chunks, and the chunk is
	// delivered again after a pause.
	rounds = 4
	// timeout is the time for which a reply is awaited, and attempt the time after which
	// the request is repeated: if a graph service crashes before it replies, the next one
	// answers the repetition. Repetitions are harmless.
	timeout = 30 * time.Second
	attempt = 5 * time.Second
	// lookups is how often a chunk is delivered, over one to two minutes, before it is
	// parked because no replica has reached the revision that it names.
	lookups = 10
)

// errBehind is returned by evaluate if the replica has not reached the revision.
var errBehind = errors.New("the replica has not reached the revision of the chunk")

func (p *processor) handle(ctx context.Context, m *worker.Message) error {
	p.c.Before(ctx)
	var chunk coppicev1.DirtyChunk
	if err := proto.Unmarshal(m.Data, &chunk); err != nil {
		return worker.Permanent(fmt.Errorf("not a DirtyChunk: %w", err))
	}
	if err := m.Known(chunk.GetFormat()); err != nil {
		return err
	}
	var dirty []byte
	revision := uint64(0)
	for _, g := range chunk.GetGroups() {
		dirty = append(dirty, g.GetDependents()...)
		revision = max(revision, g.GetRevision())
	}
	for range rounds {
		if len(dirty) == 0 {
			return nil
		}
		refused, at, err := p.evaluateAll(ctx, dirty, revision)
		switch {
		case errors.Is(err, errBehind):
			// The chunk is put back: it must not occupy the worker while a replica lags, and
			// the revision may not exist, since a chunk can name any.
			err = fmt.Errorf("resolve %d objects at revision %d: %w", len(dirty)/uid.PackedUUID, revision, err)
			if m.Delivered >= lookups {
				err = worker.Permanent(err)
			}
			return err
		case err != nil:
			return permanent(err)
		}
		dirty, revision = refused, at
	}
	if len(dirty) == 0 {
		return nil
	}
	return fmt.Errorf("%d objects changed during each of %d evaluations", len(dirty)/uid.PackedUUID, rounds)
}

// permanent marks errors that no later attempt can cure.
func permanent(err error) error {
	var e *lifecycle.Error
	if err == nil || rpc.Retryable(err) || !errors.As(err, &e) {
		return err
	}
	return worker.Permanent(err)
}

// evaluateAll evaluates objects, part by part if they have many owner references: see evaluate.
func (p *processor) evaluateAll(ctx context.Context, dirty []byte, revision uint64) (refused []byte, at uint64, err error) {
	for len(dirty) > 0 {
		again, left, of, err := p.evaluate(ctx, dirty, revision)
		if err != nil {
			return nil, 0, err
		}
		if len(left) >= len(dirty) {
			return nil, 0, worker.Permanent(errors.New("resolve: the reply leaves out all objects"))
		}
		refused, at, dirty, revision = append(refused, again...), max(at, of), left, max(revision, of)
	}
	return refused, at, nil
}

// evaluate resolves objects at a revision or later, evaluates them, and proposes to collect
// or strip them. It returns the objects for which the writer reached another decision, those that the
// replica left out, and the revision of the writer's evaluation. It returns errBehind if the replica that
// answers has not reached the revision.
func (p *processor) evaluate(ctx context.Context, dirty []byte, revision uint64) (refused, left []byte, at uint64, err error) {
	var facts coppicev1.ResolveReply
	err = p.call(ctx, bus.OpResolve, &coppicev1.ResolveRequest{Uids: dirty, MinRevision: revision, Closure: closure, Partial: true}, &facts)
	if err != nil {
		return nil, nil, 0, err
	}
	if facts.GetRevision() < revision {
		return nil, nil, 0, errBehind
	}
	proposal := &coppicev1.ProposeRequest{}
	err = resolution.Each(&facts, func(u uid.UID, t lifecycle.Traits, classes []lifecycle.Class) {
		switch lifecycle.Decide(t, classes) {
		case lifecycle.CollectObject, lifecycle.CollectForeground:
			proposal.Collect = append(proposal.Collect, u...)
		case lifecycle.StripReferences:
			proposal.Strip = append(proposal.Strip, u...)
		}
	})
	if err != nil {
		return nil, nil, 0, worker.Permanent(err)
	}
	if len(proposal.Collect) == 0 && len(proposal.Strip) == 0 {
		return nil, facts.GetLeft(), 0, nil
	}
	var reply coppicev1.ProposeReply
	if err := p.call(ctx, bus.OpPropose, proposal, &reply); err != nil {
		return nil, nil, 0, err
	}
	p.log.Debug("proposed", "collected", reply.GetCollected(), "stripped", reply.GetStripped(), "refused", len(reply.GetRefused()))
	return reply.GetRefused(), facts.GetLeft(), reply.GetRevision(), nil
}

func (p *processor) call(ctx context.Context, op string, request, reply proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return rpc.Retry(ctx, attempt, func(ctx context.Context) error {
		return rpc.Call(ctx, p.c.Conn, bus.InternalSubject(p.realm, op), nil, request, reply)
	})
}
