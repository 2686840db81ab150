// Package families_test holds the plans of deletions against what real services then
// do: it draws small graphs of objects, each in a namespace of its own, plans the
// deletion of one object, deletes it, and compares what is left.
//
//	go test ./test/families -families=10000            draws so many
//	go test ./test/families -families=1 -seed=4711     draws one again
package families_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/scanner"
)

var (
	families = flag.Int("families", 40, "how many families are drawn")
	seed     = nightly.SeedFlag("seed", "of the first family; the next ones follow")
)

// atOnce is the number of families that are deleted at the same time.
const atOnce = 32

// orders is the number of orders of work that are tried to find all results of an
// order-dependent deletion.
const orders = 500

func TestMain(m *testing.M) { testkit.Main(m) }

// TestFamilies: what is left is what the plan said at its revision, when nothing else
// happens meanwhile; where the plan says that something depends on the order, it is
// what some order leads to.
//
// R1: the outcome depends on the order of work only if the plan says so.
func TestFamilies(t *testing.T) {
	t.Parallel()
	r := start(t)
	var left []*played
	for range *families {
		left = append(left, nil)
	}
	var shown atomic.Int64
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(atOnce)
	for i := range left {
		g.Go(func() error {
			p := &played{realm: r, seed: *seed + uint64(i)}
			left[i] = p
			if err := p.play(ctx); err != nil {
				return fmt.Errorf("the family of -seed=%d, %+v: %w", p.seed, p.family, err)
			}
			if p.depends {
				shown.Add(1)
			}
			return nil
		})
	}
	must.Succeed(t, g.Wait())
	// A last object, whose work comes after all pending work.
	last := &played{realm: r, seed: *seed - 1}
	must.Succeed(t, last.play(t.Context()))
	for _, p := range left {
		if is, err := p.left(t.Context()); err != nil || !p.allowed(is) {
			t.Errorf("the family of -seed=%d, %+v: in the end %q is left: %v", p.seed, p.family, is, err)
		}
	}
	t.Logf("%d of %d depended on the order", shown.Load(), len(left))
}

// start starts a realm in which the scanner has no work, with a program that serves the
// families' external finalizer.
func start(t *testing.T) *client.Client {
	t.Helper()
	s := stack.Start(t, allinone.Config{
		Graph:   func(c *graph.Config) { c.PlanTime = testkit.Timeout }, // the machine may be slow
		Scanner: func(c *scanner.Config) { c.Interval, c.RepublishInterval = time.Hour, time.Hour },
	}, client.WithActor("families"))
	testkit.Run(t, func(ctx context.Context) error {
		return s.RunFinalizer(ctx, lifecycletest.ServedFinalizer, func(context.Context, *client.Call) error { return nil })
	})
	return s.Client
}

// played is a family that is played, in a namespace of its own.
type played struct {
	realm  *client.Client
	seed   uint64
	family lifecycletest.Family
	plan   *client.Plan

	depends bool // on the order of work
	said    lifecycletest.Settled
	reached []lifecycletest.Settled // what other orders lead to
}

func (p *played) play(ctx context.Context) error {
	p.family = lifecycletest.DrawFamily(rand.New(rand.NewPCG(p.seed, 0)).IntN)
	if err := p.create(ctx); err != nil {
		return err
	}
	root := p.family.Members[p.family.Root]
	objects := p.objects(root)
	options := client.PropagationPolicy(p.family.Policy)
	plan, err := objects.Plan(ctx, []string{root.Name}, options, client.MinRevision(p.realm.Revision()))
	if err != nil {
		return err
	}
	p.plan = plan
	before, err := p.left(ctx)
	if err != nil {
		return err
	}
	p.matchesPlan(before)
	if _, err := objects.DeleteBatch(ctx, []string{root.Name}, options, client.ByPlan(plan.GetPlan())); err != nil {
		return err
	}
	var is lifecycletest.Settled
	var next time.Time
	pause := poll.Every
	waiting, cancel := context.WithTimeout(ctx, testkit.Timeout)
	defer cancel()
	err = poll.Until(waiting, func() (done bool, err error) {
		if time.Now().Before(next) {
			return false, nil // so that to ask is not most of what the services do
		}
		is, err = p.left(waiting)
		pause = min(2*pause, 100*time.Millisecond)
		next = time.Now().Add(pause)
		return err == nil && p.allowed(is), err
	})
	if err != nil {
		return fmt.Errorf("%w: %q is left, the plan says %q (in another order %q); it is %v", err, is, p.said, p.reached, plan.GetObjects())
	}
	return nil
}

func (p *played) objects(m lifecycletest.Member) client.ResourceClient {
	return p.realm.Resource(client.ParseResource(m.Resource), fmt.Sprintf("family-%d", p.seed))
}

// create creates the members, and then adds references to later ones.
func (p *played) create(ctx context.Context) error {
	uids := make([]string, len(p.family.Members))
	for i, m := range p.family.Members {
		created, err := p.objects(m).Create(ctx, p.family.Object(i, uids))
		if err != nil {
			return err
		}
		uids[i] = created.GetMetadata().GetUid()
	}
	for i, m := range p.family.Members {
		if !p.family.Late(i) {
			continue
		}
		if _, err := p.objects(m).Update(ctx, p.family.Object(i, uids)); err != nil {
			return err
		}
	}
	return nil
}

// matchesPlan returns the objects that remain according to the plan.
func (p *played) matchesPlan(before lifecycletest.Settled) {
	p.said = maps.Clone(before)
	lost := map[string]*coppicev1.PlannedObject{}
	for _, o := range p.plan.GetObjects() {
		p.depends = p.depends || o.GetDependsOnOrder()
		switch o.GetOutcome() {
		case coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED, coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED_LATER:
			p.said[o.GetName()] = ""
		case coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED:
			p.said[o.GetName()] = "terminating"
		default:
			lost[o.GetName()] = o
		}
	}
	for i, m := range p.family.Members {
		if lost[m.Name] == nil {
			continue
		}
		gone := map[string]bool{}
		for _, r := range lost[m.Name].GetReferences() {
			gone[r.GetName()] = true
		}
		meta := &coppicev1.ObjectMeta{}
		for _, b := range p.family.Members[i].Owners {
			name := "x"
			if b.To != lifecycletest.Unheard {
				name = p.family.Members[b.To].Name
			}
			if !gone[name] {
				meta.OwnerReferences = append(meta.OwnerReferences, &coppicev1.OwnerReference{Name: name})
			}
		}
		p.said[m.Name] = lifecycletest.LeftOf(meta)
	}
	if !p.depends {
		return
	}
	for order := range uint64(orders) {
		realm, uids, _ := p.family.Play()
		p.family.Delete(realm, uids)
		p.reached = append(p.reached, p.family.Finish(realm, uids, lifecycletest.Shuffled(order), order%2 == 0))
	}
}

// allowed reports whether the result is that of the plan, or, where that depends on the
// order, of some order.
func (p *played) allowed(is lifecycletest.Settled) bool {
	if maps.Equal(is, p.said) {
		return true
	}
	for _, other := range p.reached {
		if maps.Equal(is, other) {
			return true
		}
	}
	return false
}

// left returns the remaining members of the family.
func (p *played) left(ctx context.Context) (lifecycletest.Settled, error) {
	left := lifecycletest.Settled{}
	listed := map[string]bool{}
	for _, m := range p.family.Members {
		if _, known := left[m.Name]; !known {
			left[m.Name] = ""
		}
		if listed[m.Resource] {
			continue
		}
		listed[m.Resource] = true
		for o, err := range p.objects(m).List(ctx) {
			if err != nil {
				return nil, err
			}
			left[o.GetMetadata().GetName()] = lifecycletest.LeftOf(o.GetMetadata())
		}
	}
	return left, nil
}
