package fake_test

import (
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// planSteps plan deletions, and delete by plan.
var planSteps = steps(
	family(external),
	create(deployments, "other", nil),
	create(configMaps, "shared", nil, "deployments.apps/web", "deployments.apps/other"),
	step{"plan", func(w *world) string { return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})) }},
	step{"plan in the foreground", func(w *world) string {
		return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"}, client.Foreground))
	}},
	step{"plan to orphan", func(w *world) string {
		return w.plan(w.c.Resource(replicaSets, "shop").Plan(w.ctx, []string{"rs"}, client.Orphan))
	}},
	step{"plan nothing", func(w *world) string { return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"z"})) }},
	step{"resolve", func(w *world) string {
		return w.graph(w.c.Resource(replicaSets, "shop").Resolve(w.ctx, []string{"rs"}, client.FollowOwners(true), client.FollowDependents(true)))
	}},
	step{"plan several kinds", func(w *world) string {
		return w.plan(w.c.PlanDeletions(w.ctx, severalKinds))
	}},
	step{"plan several kinds, one of them nothing", func(w *world) string {
		return w.plan(w.c.PlanDeletions(w.ctx, append(severalKinds[:1:1], client.Deletion{Resource: configMaps, Namespace: "shop", Names: []string{"z"}})))
	}},
	step{"plan several kinds, one of them twice", func(w *world) string {
		return w.plan(w.c.PlanDeletions(w.ctx, append(severalKinds[:2:2], severalKinds[0])))
	}},
	step{"delete by a plan with other options", func(w *world) string {
		var failures []string
		for _, o := range [][]client.DeleteOption{
			{}, {client.Foreground, client.GracePeriod(time.Minute)}, {client.Background}, {client.Foreground, client.IfUID("u")},
		} {
			p, err := w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"}, client.Foreground)
			if err != nil {
				return w.failure(err)
			}
			_, err = w.c.Resource(deployments, "shop").Delete(w.ctx, "web", append(o, client.ByPlan(p.GetPlan()))...)
			failures = append(failures, strings.ReplaceAll(w.failure(err), p.GetHash(), "HASH"))
		}
		_, err := w.c.Resource(deployments, "shop").Delete(w.ctx, "web", client.ByPlan(""))
		return strings.Join(append(failures, w.failure(err)), "\n")
	}},
	step{"delete several kinds by another plan", func(w *world) string {
		p, err := w.c.PlanDeletions(w.ctx, severalKinds[:1])
		if err != nil {
			return w.failure(err)
		}
		_, err = w.c.DeletePlanned(w.ctx, p.GetPlan(), severalKinds)
		return strings.SplitN(w.failure(err), ":", 2)[0]
	}},
	step{"delete by an old plan", func(w *world) string {
		p, err := w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})
		if err != nil {
			return w.failure(err)
		}
		if _, err := w.c.Resource(configMaps, "shop").Create(w.ctx, w.new("more", "deployments.apps/web")); err != nil {
			return w.failure(err)
		}
		_, err = w.c.Resource(deployments, "shop").Delete(w.ctx, "web", client.ByPlan(p.GetPlan()))
		return strings.SplitN(w.failure(err), ":", 2)[0]
	}},
	step{"delete by plan", func(w *world) string {
		p, err := w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})
		if err != nil {
			return w.failure(err)
		}
		d, err := w.c.Resource(deployments, "shop").Delete(w.ctx, "web", client.ByPlan(p.GetPlan()))
		if err != nil {
			return w.failure(err)
		}
		return w.deleted([]client.DeleteResult{*d}, nil)
	}},
	finalize(replicaSets, "rs", external),
	create(deployments, "web", nil),
	step{"delete several kinds by their plan", func(w *world) string {
		p, err := w.c.PlanDeletions(w.ctx, severalKinds)
		if err != nil {
			return w.failure(err)
		}
		return w.deleted(w.c.DeletePlanned(w.ctx, p.GetPlan(), severalKinds))
	}},
)

// severalKinds are deletions of objects of two kinds.
var severalKinds = []client.Deletion{
	{Resource: deployments, Namespace: "shop", Names: []string{"web"}, Propagation: client.Foreground},
	{Resource: configMaps, Namespace: "shop", Names: []string{"shared"}},
}
