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
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// waiting has objects that are being deleted in the foreground, each owned by
// others, which it holds up.
func waiting(t *testing.T, owners map[string][]string) (p *propagator.Propagator, broken *[]string) {
	t.Helper()
	r := statetest.New(t)
	var told []string
	p = propagator.New(propagator.Config{
		Realm: bus.DefaultRealm, State: r.State, JS: &published{},
		Parked: func(context.Context, string) (bool, error) { return false, nil },
		Unblock: func(_ context.Context, circle []uid.UID) (bool, error) {
			nodes, names := make([]*lifecycle.Node, len(circle)), make([]string, len(circle))
			snap := r.Snapshot()
			for i, u := range circle {
				nodes[i], names[i] = snap.Node(u), u.String()
			}
			if err := snap.Close(); err != nil {
				return false, err
			}
			events := lifecycle.Unblock(nodes)
			told = append(told, strings.Join(names, " "))
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
	return p, &told
}

// Circles are found among objects that wait, and each is broken once, where
// the first of them holds up the next; what is not in one is left alone.
func TestCircles(t *testing.T) {
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
		{"two apart", map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}}, []string{"a b", "c d"}},
		{"two that share an object", map[string][]string{"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}, []string{"a b", "a c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, told := waiting(t, c.owners)
			ctx := testkit.Context(t)
			if err := p.Look(ctx); err != nil {
				t.Fatal(err)
			}
			for {
				broken, err := p.BreakCircles(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if !broken {
					break
				}
			}
			slices.Sort(*told)
			if got := fmt.Sprint(*told); got != fmt.Sprint(c.want) {
				t.Errorf("broken: %s, want %s", got, c.want)
			}
		})
	}
}
