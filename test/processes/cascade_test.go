//go:build unix

package processes_test

import (
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Three processors share a cascade of 10,000 objects. One of them is killed while each has
// a part of it. The others receive its part, and the cascade completes.
func TestProcessesCascade(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	scanner := d.service(bus.RoleScanner)
	graph := d.graph()
	graph.waiting("waiting for NATS")
	server := d.nats()
	finalizers := d.service(bus.RoleFinalizers)
	graph.ready()

	tr := d.plant(2500, 3, 10)
	if tr.objects < 10000 {
		t.Fatalf("a tree of %d objects", tr.objects)
	}
	tr.blocked()

	// There are three chunks, and each processor has one pull request, so a stopped
	// processor cannot receive two chunks.
	var processors []*service
	for _, name := range []string{"processor-1", "processor-2", "processor-3"} {
		processors = append(processors, d.instance(name, bus.RoleProcessor, "--concurrency", "1"))
	}
	queue := d.queue()
	testkit.WaitFor(t, d.ctx, "the processors to ask for work", func() bool { return queue().NumWaiting == len(processors) })
	for _, p := range processors {
		p.signal(syscall.SIGSTOP)
	}
	tr.fell()
	testkit.WaitFor(t, d.ctx, "each processor to have work", func() bool { return queue().NumAckPending == len(processors) })

	victim, others := processors[1], []*service{processors[0], processors[2]}
	victim.kill()
	for _, p := range others {
		p.signal(syscall.SIGCONT)
	}
	tr.gone()
	testkit.WaitFor(t, d.ctx, "all work to be acknowledged", func() bool { i := queue(); return i.NumAckPending == 0 && i.NumPending == 0 })

	const redeliveries = `coppice_processor_redeliveries_total{queue="dirty",realm="default"}`
	const done = `coppice_processor_messages_total{outcome="done",queue="dirty",realm="default"}`
	testkit.WaitFor(t, d.ctx, "the work of the killed processor to be delivered to another", func() bool {
		return others[0].metric(redeliveries)+others[1].metric(redeliveries) >= 1
	})
	for _, p := range others {
		testkit.WaitFor(t, d.ctx, p.name+" to have done work", func() bool { return p.metric(done) >= 1 })
	}
	tr.measured(graph)
	if out := d.operate("verify"); !strings.Contains(out, "state equals the log") {
		t.Errorf("verify says %q", out)
	}
	for _, s := range []*service{others[0], graph, scanner, others[1], finalizers} {
		s.terminate()
	}
	server.terminate()
}

// blocked creates a Pod and deletes it. A finalizer that no program answers blocks it.
func (tr *tree) blocked() {
	tr.d.t.Helper()
	const elsewhere = "warehouse"
	objects := tr.client.Resource(pods, elsewhere)
	if _, err := objects.Create(tr.d.ctx, blockedObject("blocked")); err != nil {
		tr.d.t.Fatal(err)
	}
	if r, err := objects.Delete(tr.d.ctx, "blocked"); err != nil || r.State != client.Pending {
		tr.d.t.Fatalf("delete: %+v, %v", r, err)
	}
}

// measured checks the metrics of the graph service.
func (tr *tree) measured(graph *service) {
	t := tr.d.t
	t.Helper()
	// A proposal that is refused: the keeper has no absent owner.
	var refused coppicev1.ProposeReply
	processor := tr.d.conn(bus.RoleProcessor, nil)
	u, err := uid.Parse(tr.keeper.GetMetadata().GetUid())
	must.Succeed(t, err)
	err = rpc.Call(tr.d.ctx, processor, bus.InternalSubject(bus.DefaultRealm, bus.OpPropose), nil, &coppicev1.ProposeRequest{Collect: []byte(u)}, &refused)
	must.Succeed(t, err)
	if len(refused.GetRefused()) == 0 || refused.GetCollected() != 0 {
		t.Errorf("a proposal to collect what has no owner: %v", &refused)
	}
	// Pending work is counted every few seconds.
	testkit.WaitFor(t, tr.d.ctx, "the count of pending work", func() bool {
		return graph.metrics()[`coppice_graph_pending_rows{realm="default",type="finalize"}`] == 1
	})
	page, err := tr.client.Resource(pods, namespace).ListPage(tr.d.ctx, client.Limit(1))
	must.Succeed(t, err)
	revision := float64(page.Revision)
	const many = math.MaxFloat64
	got := graph.metrics()
	long := 10 * tr.d.age() // commits overlap
	for name, want := range map[string]struct{ least, most float64 }{
		`coppice_graph_revision{realm="default",state="applied"}`:               {revision, revision},
		`coppice_graph_revision{realm="default",state="committed"}`:             {revision, revision},
		`coppice_graph_events_total{realm="default"}`:                           {revision, revision},
		`coppice_graph_commits_total{realm="default"}`:                          {10, revision},
		`coppice_graph_commit_bytes_count{realm="default"}`:                     {10, revision},
		`coppice_graph_commit_bytes_sum{realm="default"}`:                       {float64(tr.objects) * uid.PackedUUID, many},
		`coppice_graph_commit_seconds_count{realm="default",stage="append"}`:    {10, revision},
		`coppice_graph_commit_seconds_sum{realm="default",stage="decide"}`:      {1e-6, long},
		`coppice_graph_commit_seconds_sum{realm="default",stage="append"}`:      {1e-6, long},
		`coppice_graph_commit_seconds_sum{realm="default",stage="apply"}`:       {1e-6, long},
		`coppice_graph_pending_rows{realm="default",type="evaluate"}`:           {0, float64(tr.objects)},
		`coppice_graph_queue_requests{realm="default"}`:                         {0, 16384},
		`coppice_graph_queue_bytes{realm="default"}`:                            {0, 64 << 20},
		`coppice_graph_work_messages{queue="dirty",realm="default"}`:            {0, float64(tr.objects)},
		`coppice_graph_pending_rows{realm="default",type="unknown"}`:            {0, 0},
		`coppice_graph_pending_rows{realm="default",type="orphan"}`:             {0, 0},
		`coppice_graph_pending_rows{realm="default",type="finish"}`:             {0, 0},
		`coppice_graph_pending_rows{realm="default",type="drain"}`:              {0, 0},
		`coppice_graph_pending_rows{realm="default",type="finalize"}`:           {1, 1},
		`coppice_graph_pending_oldest_seconds{realm="default",type="evaluate"}`: {0, long},
		`coppice_graph_pending_oldest_seconds{realm="default",type="finalize"}`: {1e-6, long},
		`coppice_graph_collected_total{action="collected",realm="default"}`:     {float64(tr.objects - 1), float64(tr.objects - 1)},
		`coppice_graph_collected_total{action="stripped",realm="default"}`:      {float64(tr.kept), float64(tr.kept)},
		`coppice_graph_collected_total{action="orphaned",realm="default"}`:      {0, 0},
		`coppice_graph_collected_total{action="drained",realm="default"}`:       {0, 0},
		`coppice_graph_collected_total{action="finished",realm="default"}`:      {0, 0},
		`coppice_graph_proposals_refused_total{realm="default"}`:                {1, float64(tr.objects)},
		`process_resident_memory_bytes`:                                         {1 << 20, 1 << 32},
	} {
		v, ok := got[name]
		if !ok || v < want.least || v > want.most {
			t.Errorf("%s is %v (there: %t), want %v to %v", name, v, ok, want.least, want.most)
		}
	}
}
