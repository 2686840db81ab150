package plan_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// asked is a context that ends with an error when it has been asked for it so many times.
type asked struct {
	context.Context
	left int
	end  error
}

func (a *asked) Err() error {
	if a.left--; a.left >= 0 {
		return nil
	}
	return a.end
}

// B4.4: a release that runs out of time lets through what it has found, and the brake stays
// tripped; it fails if it has found nothing.
func TestPendingOutOfTime(t *testing.T) {
	t.Parallel()
	const pods = 5
	r := statetest.New(t)
	r.SetSettings(&lifecycle.SettingsSpec{Brake: &api.Brake{Objects: 1}})
	r.Create("deployments/web", nil)
	for i := range pods {
		r.Create(fmt.Sprintf("pods/p%d", i), owned(r, "deployments/web"))
	}
	tx := r.State.Begin()
	tx.SetBrake("pods", lifecycle.Brake{Since: r.Clock, Base: pods, Counted: 1, Tripped: r.Clock})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	r.Delete("deployments/web", lifecycle.Background)
	pending := func(asks int, end error) (*plan.Release, *lifecycle.Error) {
		snap := r.Snapshot()
		defer snap.Close()
		return plan.Pending(&asked{context.Background(), asks, end}, snap, r.Kinds().Resource("pods"), r.Clock, nothingMatches, 100)
	}
	parts := 0
	for asks := range 100 {
		p, err := pending(asks, context.DeadlineExceeded)
		switch {
		case err != nil && (err.Reason != api.ErrTimeout || parts > 0):
			t.Fatalf("after %d questions: %v", asks, err)
		case err != nil:
		case p.More:
			parts++
			if len(p.UIDs) == 0 {
				t.Fatalf("after %d questions nothing is let through", asks)
			}
			if _, err := pending(asks, context.Canceled); err == nil {
				t.Fatalf("a release that was cancelled after %d questions lets something through", asks)
			}
		case len(p.UIDs) != pods:
			t.Fatalf("%d of %d are let through", len(p.UIDs), pods)
		}
	}
	if p, err := pending(100, context.DeadlineExceeded); parts == 0 || err != nil || p.More {
		t.Errorf("%d releases in part, in the end %+v, %v", parts, p, err)
	}
}

// nothingMatches is a realm without expiry policies.
func nothingMatches(_, _ func(*lifecycle.Node) bool) *lifecycle.Error { return nil }

// B4.4: a release lets objects through that have expired or to which an expiry policy applies, and what the
// collector deletes because of them. An object of which that is true for several reasons is let through once.
func TestPendingExpiry(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.SetSettings(&lifecycle.SettingsSpec{Brake: &api.Brake{Objects: 1}})
	r.Create("deployments/web", nil)
	due := timestamppb.New(r.Clock.Time())
	expired := owned(r, "deployments/web") // paused by the collector as well
	expired.ExpiresAt = due
	r.Create("pods/expired", expired)
	r.Create("pods/matched", &coppicev1.ObjectMeta{ExpiresAt: due})
	r.Create("configmaps/below", owned(r, "pods/matched"))
	r.Create("pods/old", nil)
	r.Create("pods/other", nil)
	r.Create("pods/safe", nil)
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(ctx, r.Key("pods/safe"), "ana", "production", nil)
	})
	tx := r.State.Begin()
	tx.SetBrake("pods", lifecycle.Brake{Since: r.Clock, Base: 5, Counted: 1, Tripped: r.Clock})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	r.Delete("deployments/web", lifecycle.Background)
	snap := r.Snapshot()
	defer snap.Close()
	matching := func(paused, visit func(*lifecycle.Node) bool) *lifecycle.Error {
		for _, name := range []string{"pods/expired", "pods/matched", "pods/old", "pods/safe", "configmaps/below"} {
			if n := snap.Node(r.UID(name)); paused(n) && !visit(n) {
				return nil
			}
		}
		return nil
	}
	p, err := plan.Pending(context.Background(), snap, r.Kinds().Resource("pods"), r.Clock, matching, 100)
	if err != nil || p.More {
		t.Fatalf("%+v, %v", p, err)
	}
	var let []string
	for _, u := range p.UIDs {
		let = append(let, u.String())
	}
	slices.Sort(let)
	if want := []string{"below", "expired", "matched", "old"}; !slices.Equal(let, want) {
		t.Errorf("a release lets %v through, want %v", let, want)
	}
}
