package api_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/processor"
)

var hintRounds = flag.Int("hints", 6, "how often TestNothingWaitsForTheScanner deletes all owners; two of the first six rounds restart the graph service")

// Pending work is published when it arises, and again after a restart, without the scanner,
// which does not run in this test. Owners are deleted repeatedly with other policies while
// their finalizers complete, and the graph service is restarted meanwhile. In the end
// everything that was deleted is removed.
func TestNothingWaitsForTheScanner(t *testing.T) {
	t.Parallel()
	services := testkit.NewRealm(t)
	ctx := services.Ctx
	g := &graphService{Realm: services, dir: t.TempDir()}
	g.start()
	processors, err := processor.New(processor.Config{Conn: services.Conn(bus.RoleProcessor)})
	runs(t, processors, err)
	builtin, err := finalizers.New(finalizers.Config{Conn: services.Conn(bus.RoleFinalizers)})
	runs(t, builtin, err)
	r := &realm{&stack.Stack{TB: t, Ctx: ctx, Client: client.New(services.Conn(bus.LocalUser), client.WithActor("ana"), client.WithTimeout(2*time.Second))}}

	const owners, deletes = 400, 3
	const hold = "example.com/hold"
	name := func(i int) string { return fmt.Sprintf("o-%03d", i) }
	each := func(do func(ctx context.Context, i int) error) *errgroup.Group {
		g, ctx := errgroup.WithContext(ctx)
		for i := range owners {
			g.Go(func() error { return do(ctx, i) })
		}
		return g
	}
	must.Succeed(t, each(func(ctx context.Context, i int) error {
		owner := named(name(i))
		owner.Metadata.Finalizers = []string{hold}
		created, err := r.Resource(deployments, "shop").Create(ctx, owner)
		for k := 0; k < 3 && err == nil; k++ {
			dependent, blocks := named(fmt.Sprintf("%s-%d", name(i), k), created), k > 0
			dependent.Metadata.OwnerReferences[0].BlockOwnerDeletion = &blocks
			_, err = r.Resource(replicasets, "shop").Create(ctx, dependent)
		}
		return err
	}).Wait())
	seed := nightly.Seed(t)
	for round := range *hintRounds {
		deleting := each(func(ctx context.Context, i int) error {
			random := rand.New(rand.NewPCG(seed, uint64(round*owners+i)))
			policies := []string{lifecycle.Orphan, lifecycle.Foreground}
			random.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
			for range deletes {
				policy := policies[0] // mostly the policy that the finalizer completes
				switch random.IntN(8) {
				case 0:
					policy = policies[1]
				case 1:
					policy = lifecycle.Background
				}
				if _, err := r.Resource(deployments, "shop").Delete(ctx, name(i), client.PropagationPolicy(policy)); err != nil {
					return fmt.Errorf("%s: %w", name(i), err)
				}
			}
			return nil
		})
		// A restart publishes all pending work and would hide a missing message, so most
		// rounds have none.
		if round%4 == 1 {
			g.restart(round%8 == 1)
		}
		must.Succeed(t, deleting.Wait())
		// The completion of the external finalizer publishes it as well, so it comes last.
		r.WaitFor(fmt.Sprintf("the built-in finalizers of round %d of seed %d to complete", round, seed), func() bool {
			for o, err := range r.Resource(deployments, "shop").List(ctx) {
				if err != nil || !slices.Equal(o.GetMetadata().GetFinalizers(), []string{hold}) {
					return false
				}
			}
			return true
		})
	}
	for i := range owners {
		if _, err := r.Resource(deployments, "shop").RemoveFinalizer(ctx, name(i), hold, client.Note("done")); err != nil {
			t.Fatal(err)
		}
	}
	r.WaitFor("the owners to be removed", func() bool { return len(r.names(deployments, "shop")) == 0 })
	r.WaitFor("the dependents to be removed or to have no owner", func() bool {
		for o, err := range r.Resource(replicasets, "shop").List(ctx) {
			if err != nil || len(o.GetMetadata().GetOwnerReferences()) > 0 {
				return false
			}
		}
		return true
	})
}

// runs runs a service, which New has returned with an error or without.
func runs(tb testing.TB, service interface{ Run(context.Context) error }, err error) *testkit.Running {
	tb.Helper()
	must.Succeed(tb, err)
	return testkit.Run(tb, service.Run)
}

// graphService is a graph service that can be started again.
type graphService struct {
	*testkit.Realm
	dir   string
	conns []*nats.Conn // of the service that runs
	now   *testkit.Running
}

func (g *graphService) start() {
	g.Helper()
	g.conns = []*nats.Conn{g.Conn(bus.RoleGraph), g.Conn(bus.RoleAnswers)}
	s, err := graph.New(graph.Config{Secrets: testkit.Secrets(), Conn: g.conns[0], Answers: g.conns[1], AnyActor: true, Dir: g.dir, LeaseTTL: time.Second})
	g.now = runs(g, s, err)
}

// restart stops the service and starts it again. If abruptly, the service does not
// tell NATS that it leaves.
func (g *graphService) restart(abruptly bool) {
	g.Helper()
	if abruptly {
		g.now.MayFail()
		for _, nc := range g.conns {
			nc.Close()
		}
	}
	g.now.Cancel()
	if err := g.now.Wait(); err != nil && !abruptly {
		g.Errorf("the graph service: %v", err)
	}
	g.start()
}
