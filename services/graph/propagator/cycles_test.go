package propagator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// waiting returns a propagator of a realm with objects that are being deleted in the
// foreground, each owned by others, which it blocks. broken are the cycles that the
// propagator has had unblocked.
func waiting(t *testing.T, owners map[string][]string) (p *propagator.Propagator, broken *[]string) {
	t.Helper()
	r := statetest.New(t)
	var unblocked []string
	p = propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: r.State, JS: &published{},
		Parked: func(context.Context, string) (bool, error) { return false, nil },
		Unblock: func(_ context.Context, cycle []uid.UID, _ string) (bool, error) {
			nodes, names := make([]*lifecycle.Node, len(cycle)), make([]string, len(cycle))
			snap := r.Snapshot()
			for i, u := range cycle {
				nodes[i], names[i] = snap.Node(u), u.String()
			}
			events := lifecycle.Unblock(snap, nodes)
			if err := snap.Close(); err != nil {
				return false, err
			}
			unblocked = append(unblocked, strings.Join(names, " "))
			r.Must(func(*lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
				return &lifecycle.Outcome{Events: events}, nil
			})
			return len(events) > 0, nil
		},
	})
	names := slices.Sorted(maps.Keys(owners))
	for _, name := range names {
		r.Create("configmaps/"+name, nil)
	}
	for _, name := range names {
		var refs []*coppicev1.OwnerReference
		for _, o := range owners[name] {
			refs = append(refs, r.Reference("configmaps/"+o, true))
		}
		r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Update(ctx, r.Key("configmaps/"+name), &coppicev1.Object{
				Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: refs},
			})
		})
	}
	for _, name := range names {
		r.Delete("configmaps/"+name, lifecycle.Foreground)
	}
	return p, &unblocked
}

// Cycles are found among objects that wait, and each is broken once, where its first
// object blocks the next. Objects outside of cycles are left alone.
func TestCycles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		owners map[string][]string
		want   []string
	}{
		{"none", map[string][]string{"a": nil, "b": {"a"}, "c": {"b", "a"}}, nil},
		{"itself", map[string][]string{"a": {"a"}}, []string{"a"}},
		{"two", map[string][]string{"a": {"b"}, "b": {"a"}}, []string{"a b"}},
		{"three and a tail", map[string][]string{"a": {"c"}, "b": {"a"}, "c": {"b"}, "d": {"c"}}, []string{"a c b"}},
		{"two separate", map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}}, []string{"a b", "c d"}},
		{"two that share an object", map[string][]string{"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}, []string{"a b", "a c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, unblocked := waiting(t, c.owners)
			ctx := testkit.Context(t)
			must.Succeed(t, p.Publish(ctx))
			for {
				broken, err := p.BreakCycles(ctx)
				must.Succeed(t, err)
				if !broken {
					break
				}
			}
			slices.Sort(*unblocked)
			if got := fmt.Sprint(*unblocked); got != fmt.Sprint(c.want) {
				t.Errorf("broken: %s, want %s", got, c.want)
			}
		})
	}
}
