package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// world is a realm whose services are killed, with a client that retries.
type world struct {
	t       *testing.T
	child   childConfig
	nc      *nats.Conn
	ledger  *ledger
	log     *auditor
	rand    *rand.Rand
	forests []*forest
	first   int // the number of the first forest
	// look lets the auditor read the log while no process runs.
	look func(context.Context)
	// deleting counts the deletions that are retried after a process was killed.
	deleting sync.WaitGroup
}

func newWorld(t *testing.T, i int, url string, opts ...nats.Option) *world {
	t.Helper()
	opts = append(opts, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))
	nc, err := nats.Connect(url, append(opts, nats.Timeout(testkit.Timeout))...)
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	t.Logf("drawn from -seed=%d", *seed)
	return &world{
		t: t, nc: nc, ledger: &ledger{nc: nc, actor: bus.RoleOperator}, log: newAuditor(t),
		rand: rand.New(rand.NewPCG(*seed, uint64(i))), first: 2 * i,
	}
}

// run kills the process a number of times, and then lets it complete its work.
func (w *world) run(kills int) {
	stopping, stop := context.WithCancel(w.t.Context())
	loading, ctx := errgroup.WithContext(stopping)
	for i := range loaders {
		loading.Go(func() error { return load(ctx, w.ledger, i) })
	}
	for i := range kills {
		step := steps[i%len(steps)]
		o := order{Step: step, Pass: 1 + w.rand.IntN(passes(step))}
		ok := w.t.Run(fmt.Sprintf("%02d %s %d", i, o.Step, o.Pass), func(t *testing.T) {
			w.log.t = t
			w.kill(t, o)
		})
		if !ok {
			break
		}
	}
	w.log.t = w.t
	stop()
	if err := loading.Wait(); err != nil {
		w.t.Error(err)
	}
	if !w.t.Failed() {
		w.settle()
	}
}

// kill lets the process work on a cascade and kill itself, and audits the log. If the
// cascade was complete before the kill, it kills again at the beginning of a cascade.
func (w *world) kill(t *testing.T, o order) {
	t.Helper()
	if w.killOnce(t, o, o.Step == propagator.FailScan || w.log.pending(w.namespace()) < forestObjects/3) > 0 {
		return
	}
	o.Pass = 1
	if w.killOnce(t, o, true) == 0 {
		t.Error("neither kill hit an unfinished cascade")
	}
}

// killOnce kills the process during the present cascade or a new one, and returns the
// number of objects that still had pending work.
func (w *world) killOnce(t *testing.T, o order, fresh bool) (pending int) {
	t.Helper()
	begun := time.Now()
	p := start(t, w.child)
	if fresh {
		w.cascade(t, p, o)
	} else {
		p.arm(o)
	}
	ctx := testkit.Context(t)
	p.killed(ctx, o.Step)
	w.look(ctx)
	w.log.check(t, w.ledger.take())
	pending = w.log.pending(w.namespace())
	t.Logf("%d of %d objects still had pending work, after %.1f s", pending, forestObjects, time.Since(begun).Seconds())
	return pending
}

// namespace returns the namespace of the last forest.
func (w *world) namespace() string {
	if len(w.forests) == 0 {
		return ""
	}
	return w.forests[len(w.forests)-1].ns
}

// cascade begins a cascade of a new forest, and arms the process. If the step is at the
// beginning of a cascade, it arms the process first.
func (w *world) cascade(t *testing.T, p *process, o order) {
	t.Helper()
	ctx := testkit.Context(t)
	s := newForest(w.first + len(w.forests))
	w.forests = append(w.forests, s)
	must.Succeed(t, s.create(ctx, w.ledger))
	if len(w.forests) > 1 {
		w.verify(t)
	}
	trees := s.trees
	if o.Step != propagator.FailScan {
		must.Succeed(t, s.delete(testkit.Context(t), w.ledger, trees[0]))
		trees = trees[1:]
	}
	p.arm(o)
	// The process may die before it has replied to a deletion. The client repeats it until
	// there is a reply, which the next process may send.
	w.deleting.Go(func() {
		for _, tree := range trees {
			if err := s.delete(w.t.Context(), w.ledger, tree); err != nil && w.t.Context().Err() == nil {
				w.t.Errorf("%s: delete %s: %v", s.ns, tree.name, err)
			}
		}
	})
}

// verify compares the state with its log. An error in the state persists, so the test need
// not verify after each kill.
func (w *world) verify(t *testing.T) {
	t.Helper()
	ctx := testkit.Context(t)
	reply, err := client.New(w.nc, client.WithActor(bus.RoleOperator)).Operations().Verify(ctx)
	switch {
	case err != nil:
		t.Fatal(err)
	case reply.GetDifference() != "":
		t.Fatalf("the state is not the fold of the log: %s", reply.GetDifference())
	}
}

// settle lets a process complete all cascades, and compares the remaining objects with the
// expected ones.
func (w *world) settle() {
	t := w.t
	p := start(t, w.child)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.deleting.Wait()
	}()
	testkit.Receive(t, testkit.Context(t), "the answers to all deletions", done)
	ctx := testkit.Context(t)
	c := client.New(w.nc, client.WithActor(bus.RoleOperator), client.WithTimeout(testkit.Timeout/2))
	testkit.WaitFor(t, ctx, "the end of all cascades", func() bool {
		if p.hasEnded() {
			t.Fatalf("the process has ended: %v", p.cmd.ProcessState)
		}
		status, err := c.Status(ctx)
		return err == nil && status.GetIdle()
	})
	for _, s := range w.forests {
		if err := s.check(ctx, c); err != nil {
			t.Error(err)
		}
	}
	w.verify(t)
	ctx = testkit.Context(t)
	p.stop(ctx)
	w.look(ctx)
	w.log.check(t, w.ledger.take())
	t.Logf("%d commands were acknowledged; the log has %d commits, %d events, %d epochs", w.ledger.all, w.log.sequence, w.log.revision, w.log.epoch)
}
