package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// chain returns a plan of objects of which each is below the one before.
func chain(n int) *client.Plan {
	p := &client.Plan{Counts: &coppicev1.PlanCounts{Removed: uint32(n)}}
	for i := range n {
		o := &coppicev1.PlannedObject{Resource: "pods", Name: fmt.Sprint(i), Uid: fmt.Sprint(i), Outcome: coppicev1.PlanOutcome_PLAN_OUTCOME_REMOVED, Requested: i == 0}
		if i > 0 {
			o.Because = fmt.Sprint(i - 1)
		}
		p.Objects = append(p.Objects, o)
	}
	return p
}

// The objects below each one are counted in a chain of any length, and pages of nodes end where there are no more.
func TestPlannedNodes(t *testing.T) {
	t.Parallel()
	const n = 100_000
	deep, words := newPlanned("default", chain(n)), &tree.PlanWords{}
	for _, i := range []int{0, 1, n / 2, n - 1} {
		if got := deep.node(words, deep.trees.Requested()[0]); deep.count[fmt.Sprint(i)] != n-1-i || got.Below != n-1 || got.Children != 1 {
			t.Errorf("below object %d are %d; the root is %+v", i, deep.count[fmt.Sprint(i)], got)
		}
	}
	wide := chain(1)
	for i := range 450 {
		wide.Objects = append(wide.Objects, &coppicev1.PlannedObject{
			Resource: "pods", Name: fmt.Sprintf("p-%03d", 449-i), Uid: fmt.Sprintf("p-%d", i), Because: "0", Outcome: coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED,
		})
	}
	p := newPlanned("default", wide)
	var names []string
	for from := 0; from < 600; from += maxPlanNodes {
		b, found := p.below(words, "0", "", from)
		if !found || b.From != from || b.Total != 450 {
			t.Errorf("from %d: %v, from %d of %d", from, found, b.From, b.Total)
		}
		for _, one := range b.Nodes {
			names = append(names, one.Name)
		}
	}
	if len(names) != 450 || !slices.IsSorted(names) {
		t.Errorf("the pages have %d nodes: %v", len(names), names)
	}
	if _, found := p.below(words, "never", "", 0); found {
		t.Error("an object that is not in the plan has nodes below it")
	}
	if b, found := p.below(words, "0", "pods", 0); !found || len(b.Nodes) != 0 || b.Total != 0 {
		t.Errorf("a group that is not there has %+v", b)
	}
}

// What the user may not get goes as well, unless something says that it stays.
func TestPlannedElsewhere(t *testing.T) {
	t.Parallel()
	one := []*coppicev1.PlannedObject{{Resource: "pods", Name: "root", Uid: "0", Requested: true}}
	counts := &coppicev1.PlanCounts{Removed: 1, Orphaned: 7, Kept: 7, Stripped: 7, Protected: 7}
	if p := newPlanned("default", &client.Plan{Objects: one, Counts: counts, Elsewhere: confirmFrom - 1}); p.goes != confirmFrom || p.unbound {
		t.Errorf("of a plan with 100 objects elsewhere %d go; unbound: %t", p.goes, p.unbound)
	}
	if p := newPlanned("default", &client.Plan{Objects: one, Counts: counts, Elsewhere: bus.MaxPlanned - 1}); p.unbound {
		t.Error("a plan of as many objects as can be carried out is unbound")
	}
	if p := newPlanned("default", &client.Plan{Objects: one, Counts: counts, Elsewhere: bus.MaxPlanned}); !p.unbound {
		t.Error("a plan of too many objects is not unbound")
	}
}

// A plan of too many objects is shown with the command line that deletes without it.
func TestUnboundCommand(t *testing.T) {
	t.Parallel()
	grace := 7 * time.Second
	for want, grace := range map[string]*time.Duration{"coppice delete pods/a --cascade=foreground": nil, "coppice delete pods/a --cascade=foreground --grace-period=7": &grace} {
		if got := unboundCommand("coppice delete pods/a --plan=foreground-1@2", "foreground-1@2", client.Foreground, grace); got != want {
			t.Errorf("the command is %s, want %s", got, want)
		}
	}
}

// A user has few plans, for a short time, and few objects in them; the last plan is kept in any case.
func TestPlansAreBounded(t *testing.T) {
	t.Parallel()
	var p plans
	one, other := &user{}, &user{}
	now := time.Now()
	kept := func(ids ...string) (list []bool) {
		for _, id := range ids {
			list = append(list, p.get(one, "default", id, now) != nil)
		}
		return list
	}
	add := func(objects int) string { return p.add(one, &planned{realm: "default", objects: objects}, now) }
	a, b, c, d, e := add(1), add(2), add(3), add(4), add(5)
	if got := kept(a, b, c, d, e); !slices.Equal(got, []bool{false, true, true, true, true}) {
		t.Errorf("of five plans are kept %v", got)
	}
	if p.get(one, "other", e, now) != nil {
		t.Error("another realm has the plan")
	}
	if p.get(other, "default", e, now) != nil {
		t.Error("another user has the plan")
	}
	f := add(maxPlanObjects - 9)
	if got := kept(b, c, d, e, f); !slices.Equal(got, []bool{false, false, true, true, true}) {
		t.Errorf("with a large plan are kept %v", got)
	}
	g := add(maxPlanObjects + 1)
	if got := kept(d, e, f, g); !slices.Equal(got, []bool{false, false, false, true}) {
		t.Errorf("with a plan that is too large are kept %v", got)
	}
	if now = now.Add(planAge); p.get(one, "default", g, now) != nil {
		t.Error("an old plan is kept")
	}
}

// A question is asked again when its answer is old. Without an answer the last one counts, or else the user may try.
func TestRightsAreKept(t *testing.T) {
	t.Parallel()
	now, asked, answer := time.Now(), 0, error(nil)
	r := newRights(func(context.Context, client.Permission) error { asked++; return answer }, func() time.Time { return now })
	forbidden := &client.Error{Reason: client.ErrForbidden}
	for i, c := range []struct {
		after   time.Duration
		answer  error
		allowed bool
		asked   int
	}{
		{0, errors.New("no reply"), true, 1},
		{0, nil, true, 2},
		{rightsAge - 1, forbidden, true, 2},
		{1, forbidden, false, 3},
		{refusedAge - 1, nil, false, 3},
		{1, errors.New("no reply"), false, 4},
		{0, nil, true, 5},
	} {
		now, answer = now.Add(c.after), c.answer
		if got := r.allowed(t.Context(), client.Permission{Verb: "delete"}); got != c.allowed || asked != c.asked {
			t.Errorf("%d: allowed %v after %d questions, want %v, %d", i, got, asked, c.allowed, c.asked)
		}
	}
}

// What a refusal names reaches the page.
func TestCausesOfFailure(t *testing.T) {
	t.Parallel()
	f := failureOf(fmt.Errorf("wrapped: %w", &client.Error{Reason: client.ErrConflict, Message: "changed", Causes: []client.Cause{
		{Field: "pods/a", Message: "would be removed"}, {Message: "a state"}, {Reason: "FieldValueRequired", Field: "spec"},
	}}))
	if want := []string{"pods/a: would be removed", "a state", "spec: FieldValueRequired"}; f.status != 409 || !slices.Equal(f.Causes, want) {
		t.Errorf("the failure is %+v", f)
	}
	if f := failureOf(badRequest("no")); f.Causes != nil || f.Reason != "BadRequest" {
		t.Errorf("the failure is %+v", f.Failure)
	}
}
