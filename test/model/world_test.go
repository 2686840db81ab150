package model_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// scanInterval is the time between two walks of the scanner. Work that only the scanner
// finds (docs/semantics.md) takes about this time to settle.
const scanInterval = 300 * time.Millisecond

// republishInterval is the time after which pending work is published again.
const republishInterval = time.Second

// world is a realm with all services on a real JetStream, and the auditor of its log.
// Scripts run in it in sequence and concurrently.
type world struct {
	tb         testing.TB
	server     *natsd.Server
	dir        string
	nc         *nats.Conn // of a client
	processors *nats.Conn // with the user of processors, for proposals
	finalizers *nats.Conn
	graphConn  *nats.Conn
	log        jetstream.Stream
	a          *auditor

	ahead  atomic.Int64    // how far time is ahead of the clock of the machine
	limits archiver.Limits // of the archiver

	operations, slow, confluent, racy, disturbed atomic.Int64

	first sync.Once // reports the first script that failed

	mu     sync.Mutex
	graphs [2]*service
	others map[string][]*service

	stopping sync.WaitGroup
}

// service is a running service.
type service struct {
	cancel context.CancelFunc
	done   chan struct{}
	nc     *nats.Conn
	graph  *graph.Service
	// answers is the connection on which the graph service replies.
	answers *nats.Conn
	ready   func() error
}

func newWorld(tb testing.TB, ctx context.Context) *world {
	tb.Helper()
	w := &world{tb: tb, server: testkit.NATS(tb), dir: tb.TempDir(), a: newAuditor(), others: map[string][]*service{}}
	w.nc = testkit.Conn(tb, w.server, bus.LocalUser)
	w.processors, w.finalizers, w.graphConn = testkit.Conn(tb, w.server, bus.RoleProcessor), testkit.Conn(tb, w.server, bus.RoleFinalizers), testkit.Conn(tb, w.server, bus.RoleGraph)
	for i := range w.graphs {
		w.startGraph(w.ctx(), i)
	}
	for _, kind := range []string{"processor", "processor", "finalizers", "scanner"} {
		w.start(w.ctx(), kind)
	}
	w.follow(tb, ctx)
	w.serve(tb, w.ctx())
	w.kinds(tb, ctx)
	tb.Cleanup(w.stop)
	return w
}

func (w *world) run1(ctx context.Context, nc *nats.Conn, run func(context.Context) error, ready func() error) *service {
	ctx, cancel := context.WithCancel(ctx)
	s := &service{cancel: cancel, done: make(chan struct{}), nc: nc, ready: ready}
	go func() {
		defer close(s.done)
		if err := run(ctx); err != nil && ctx.Err() == nil {
			w.fail(err)
		}
	}()
	return s
}

func (w *world) fail(err error) {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	if w.a.broken == "" {
		w.a.broken = fmt.Sprintf("a service has ended: %v", err)
	}
}

func (s *service) stop() {
	s.cancel()
	<-s.done
	s.nc.Close()
	if s.answers != nil {
		s.answers.Close()
	}
}

func (w *world) connect(role string) *nats.Conn {
	nc, err := nats.Connect(w.server.URL(), append(w.server.Options(role), nats.Timeout(testkit.Timeout), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		panic(err)
	}
	return nc
}

func (w *world) startGraph(ctx context.Context, i int) {
	nc, answers := w.connect(bus.RoleGraph), w.connect(bus.RoleAnswers)
	g, err := graph.New(graph.Config{
		Secrets: testkit.Secrets(), Conn: nc, Answers: answers, AnyActor: true, Dir: filepath.Join(w.dir, fmt.Sprint("graph-", i)), Instance: fmt.Sprint("graph-", i),
		Archive: w.store(), ArchiveLimits: w.limits, Now: w.now, MaxClockSkew: 24 * time.Hour,
	})
	if err != nil {
		panic(err)
	}
	w.graphs[i] = w.run1(ctx, nc, g.Run, g.Ready)
	w.graphs[i].graph, w.graphs[i].answers = g, answers
}

// start starts one of the other services. If it cannot be created, the test is wrong.
func (w *world) start(ctx context.Context, kind string) {
	var run func(context.Context) error
	var ready func() error
	var err error
	nc := w.connect(kind)
	switch kind {
	case "processor":
		var p *processor.Service
		if p, err = processor.New(processor.Config{Conn: nc}); err == nil {
			run, ready = p.Run, p.Ready
		}
	case "finalizers":
		var f *finalizers.Service
		if f, err = finalizers.New(finalizers.Config{Conn: nc}); err == nil {
			run, ready = f.Run, f.Ready
		}
	case "scanner":
		var s *scanner.Service
		if s, err = scanner.New(scanner.Config{Conn: nc, Interval: scanInterval, RepublishInterval: republishInterval, RepublishAge: republishInterval,
			ExpiryInterval: scanInterval, PolicyInterval: republishInterval, Wall: w.now}); err == nil {
			run, ready = s.Run, s.Ready
		}
	default:
		err = fmt.Errorf("%q is no service", kind)
	}
	if err != nil {
		panic(err)
	}
	w.others[kind] = append(w.others[kind], w.run1(ctx, nc, run, ready))
}

// wanted is the number of services of each type before disturb stops any.
var wanted = map[string]int{"processor": 2, "finalizers": 1, "scanner": 1}

// disturb restarts, rebuilds or stops services while scripts run.
func (w *world) disturb(how, what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturbed.Add(1)
	if what == "graph" {
		for i, g := range w.graphs {
			if !g.graph.Writing() && how == "restart" {
				continue // the one that stands by takes over
			}
			g.stop()
			if how == "rebuild" {
				if err := os.RemoveAll(filepath.Join(w.dir, fmt.Sprint("graph-", i))); err != nil {
					return err
				}
			}
			w.startGraph(w.ctx(), i)
			break
		}
		return nil
	}
	list := w.others[what]
	if len(list) > 0 {
		w.stopping.Go(list[0].stop) // it may be processing a message
		w.others[what] = list[1:]
	}
	if how == "restart" {
		w.start(w.ctx(), what)
	}
	return nil
}

func (w *world) ctx() context.Context { return context.WithoutCancel(w.tb.Context()) }

// restore starts the stopped services.
func (w *world) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, n := range wanted {
		for len(w.others[kind]) < n {
			w.start(w.ctx(), kind)
		}
	}
}

// stop ends the services, and the graph services last.
func (w *world) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wg sync.WaitGroup
	for _, list := range w.others {
		for _, s := range list {
			wg.Go(s.stop)
		}
	}
	wg.Wait()
	w.stopping.Wait()
	for _, g := range w.graphs {
		wg.Go(g.stop)
	}
	wg.Wait()
}

// follow lets the auditor read commits as they are appended.
func (w *world) follow(tb testing.TB, ctx context.Context) {
	tb.Helper()
	js, err := jetstream.New(w.graphConn)
	must.Succeed(tb, err)
	testkit.WaitFor(tb, ctx, "the log", func() bool {
		w.log, err = js.Stream(ctx, bus.LogStream(bus.DefaultRealm))
		return err == nil
	})
	consumer, err := w.log.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	must.Succeed(tb, err)
	reading, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			w.fail(err)
			return
		}
		w.a.fold(meta.Sequence.Stream, m.Data())
	})
	must.Succeed(tb, err)
	tb.Cleanup(func() {
		reading.Stop()
		<-reading.Closed()
	})
}

// sync waits until the auditor has read all present commits of the log.
func (w *world) sync(ctx context.Context) error {
	info, err := w.log.Info(ctx)
	if err != nil {
		return err
	}
	return w.a.await(ctx, "the end of the log", func() bool { return w.a.sequence >= info.State.LastSeq || w.a.broken != "" })
}

// serve answers the calls of a finalizer and of the agent of a kind.
func (w *world) serve(tb testing.TB, ctx context.Context) {
	tb.Helper()
	c := client.New(w.connect(bus.LocalUser), client.WithActor(served))
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := c.RunFinalizer(ctx, servedFinalizer, func(context.Context, *client.Call) error { return nil })
		if err != nil && ctx.Err() == nil {
			w.fail(err)
		}
	})
	wg.Go(func() {
		err := c.RunAgent(ctx, client.Resource{Group: "test.example.com", Plural: "engines"}, func(context.Context, *client.Termination) error { return nil })
		if err != nil && ctx.Err() == nil {
			w.fail(err)
		}
	})
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
		c.Conn().Close()
	})
}

// kinds registers the kinds that the scripts share.
func (w *world) kinds(tb testing.TB, ctx context.Context) {
	tb.Helper()
	for name, spec := range map[string]string{
		"widgets.test.example.com": `{"group":"test.example.com","kind":"Widget","plural":"widgets","scope":"Namespaced","observesGeneration":true,"finalizeAfterDependents":true,
			"versions":[{"name":"v1"},{"name":"v2","defaultDeletion":"OrphanDependents"}]}`,
		"widgets." + oldGroup: `{"group":"` + oldGroup + `","kind":"Widget","plural":"widgets","scope":"Namespaced","versions":[{"name":"v1"}]}`,
		"engines.test.example.com": `{"group":"test.example.com","kind":"Engine","plural":"engines","scope":"Namespaced","gracefulDeletion":{"defaultSeconds":5},
			"versions":[{"name":"v1"}]}`,
	} {
		w.a.mu.Lock()
		w.a.scripts["setup"] = &script{tag: "setup"}
		w.a.mu.Unlock()
		s := &script{tag: "setup", w: w, a: w.a}
		c := &command{verb: bus.VerbCreate, resource: resource{"coppice.dev", "kinds"}, items: []item{{name: name, object: &object{version: "v1", spec: canonical([]byte(spec)), grace: none, agent: none}}}}
		must.Succeed(tb, s.perform(ctx, c, false))
	}
}

// propose sends requests of the collector, or publishes them as work.
func (w *world) propose(ctx context.Context, how string, packed []byte, groups []*coppicev1.DependentsOf) error {
	if how == "work" {
		js, err := jetstream.New(w.graphConn)
		if err != nil {
			return err
		}
		var errs []error
		for queue, m := range map[string]proto.Message{
			bus.QueueDirty: &coppicev1.DirtyChunk{Groups: groups[:1]}, bus.QueueOrphan: &coppicev1.OrphanChunk{Groups: groups[1:]},
			bus.QueueFinish: &coppicev1.FinishChunk{Finalizer: foregroundFinalizer, Uids: packed},
		} {
			b, err := proto.Marshal(m)
			if err == nil {
				_, err = js.Publish(ctx, bus.WorkSubject(bus.DefaultRealm, queue), b)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	for _, p := range []struct {
		nc      *nats.Conn
		op      string
		request proto.Message
		reply   proto.Message
	}{
		{w.processors, bus.OpPropose, &coppicev1.ProposeRequest{Collect: packed, Strip: packed}, &coppicev1.ProposeReply{}},
		{w.finalizers, bus.OpOrphan, &coppicev1.OrphanRequest{Groups: groups[1:]}, &coppicev1.OrphanReply{}},
		{w.finalizers, bus.OpFinish, &coppicev1.FinishRequest{Finalizer: orphanFinalizer, Uids: packed}, &coppicev1.FinishReply{}},
		{w.finalizers, bus.OpFinish, &coppicev1.FinishRequest{Finalizer: foregroundFinalizer, Uids: packed}, &coppicev1.FinishReply{}},
		{w.finalizers, bus.OpDrain, &coppicev1.DrainRequest{Groups: groups[1:]}, &coppicev1.DrainReply{}},
	} {
		if err := rpc.Retry(ctx, attempt, func(ctx context.Context) error {
			return rpc.Call(ctx, p.nc, bus.InternalSubject(bus.DefaultRealm, p.op), nil, p.request, p.reply)
		}); err != nil {
			return fmt.Errorf("%s: %w", p.op, err)
		}
	}
	return nil
}

// atRest waits until all work is acknowledged and none comes (L6), and compares
// the state with the log (S11).
func (w *world) atRest(tb testing.TB) {
	tb.Helper()
	w.restore()
	ctx := testkit.Context(tb)
	js, err := jetstream.New(w.graphConn)
	must.Succeed(tb, err)
	testkit.WaitFor(tb, ctx, "the end of all work", func() bool {
		work, err := js.Stream(ctx, bus.WorkStream(bus.DefaultRealm))
		return err == nil && work.CachedInfo().State.Msgs == 0
	})
	if err := w.verify(ctx); err != nil {
		tb.Error(err)
	}
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	if w.a.broken != "" {
		tb.Error(w.a.broken)
	}
}

// verify compares the state with a fold of the log (S11).
func (w *world) verify(ctx context.Context) error {
	reply, err := client.New(w.nc, client.WithActor(bus.RoleOperator)).Operations().Verify(ctx)
	if err == nil && reply.GetDifference() != "" {
		err = fmt.Errorf("S11: the state is not the fold of the log: %s", reply.GetDifference())
	}
	return err
}
