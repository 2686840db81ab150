package propagator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// keptByStrangers returns a propagator for a realm with so many dependents of a deleted owner
// that an owner of an unknown kind keeps. No work can be done for them.
func keptByStrangers(t *testing.T, dependents int, change ...func(*propagator.Config)) *propagator.Propagator {
	t.Helper()
	r := statetest.New(t)
	r.Create("pods/owner", nil)
	stranger := &coppicev1.OwnerReference{ApiVersion: "example.com/v1", Kind: "Widget", Name: "w", Uid: "00000000-0000-4000-8000-000000000001"}
	owner := r.Reference("pods/owner", false)
	creations := make([]statetest.Decide, dependents)
	for i := range creations {
		creations[i] = r.Creation(fmt.Sprintf("configmaps/c-%05d", i), &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{owner, stranger}})
	}
	r.Must(creations...)
	r.Delete("pods/owner", lifecycle.Background)
	c := propagator.Config{
		Realm: bus.DefaultRealm, State: r.State, JS: &published{},
		Parked: func(context.Context, string) (bool, error) { return false, nil },
		Now:    func() time.Time { return r.Clock.Time() },
	}
	for _, f := range change {
		f(&c)
	}
	return propagator.New(c)
}

// The metric coppice_graph_idle, which is computed from Count, and the verb status agree, also about
// more dependents of unknown owners than are examined, and than the metric once examined.
func TestMetricAndStatusAgree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		dependents, limit int
		idle              bool
	}{
		{"20,001 dependents", 20_001, 0, true},
		{"as many as are examined", 30, 30, true},
		{"more than are examined", 31, 30, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := keptByStrangers(t, c.dependents, func(pc *propagator.Config) { pc.MaxCounted = c.limit })
			status, err := p.Status(t.Context())
			must.Succeed(t, err)
			counted, _, err := p.Count(t.Context())
			must.Succeed(t, err)
			if metric := propagator.Idle(counted.GetPending()); status.GetIdle() != c.idle || metric != c.idle {
				t.Errorf("idle: %t by the verb status, %t by the metric; want %t: %v and %v", status.GetIdle(), metric, c.idle, status, counted)
			}
			if n, m := len(status.GetPending()), len(counted.GetPending()); n != m {
				t.Fatalf("%d kinds of pending work by the verb status, %d by the metric", n, m)
			}
			for i, w := range counted.GetPending() {
				if s := status.GetPending()[i]; s.GetType() != w.GetType() || s.GetRows() != w.GetRows() || s.GetOldest() != w.GetOldest() {
					t.Errorf("the verb status has %v, the metric %v", s, w)
				}
			}
		})
	}
}

// A count ends with its context, also within the dependents of one owner.
func TestCountEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := keptByStrangers(t, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.Count(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Count returns %v", err)
	}
	if _, err := p.Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Status returns %v", err)
	}
}
