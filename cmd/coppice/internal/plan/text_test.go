package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup/lookuptest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A plan is written as a tree for each object that it deletes, with what blocks each, and a summary.
func TestWrite(t *testing.T) {
	t.Parallel()
	realm, reader, _ := lookuptest.New(t)
	rs := realm.Create(t, "replicasets.apps", "rs", nil)
	realm.Create(t, "configmaps", "plain", nil, rs)
	realm.Create(t, "configmaps", "finalized", []string{"example.com/bucket"}, rs)
	p, err := realm.Resource(client.ParseResource("replicasets.apps"), "shop").Plan(t.Context(), []string{"rs"}, client.Foreground)
	must.Succeed(t, err)
	p.Brakes = []*coppicev1.PlanBrake{{Resource: "configmaps", Deletions: 2, Room: 1}}
	p.Cycles, p.Elsewhere, p.Objects[0].DependsOnOrder = []string{"a -> b -> a"}, 3, true
	var out strings.Builder
	times := []history.FinalizerTime{{Name: "example.com/bucket", Removals: 1, Longest: 90 * time.Second}, {Name: "x", Removals: 2, Longest: time.Minute}}
	must.Succeed(t, (&Writer{W: &out, Reader: reader}).Write(t.Context(), p, times))
	if waits := Waits(t.Context(), reader, p); len(waits) != 1 || waits[0] != "1 object then waits for the finalizer example.com/bucket: no program asks for its calls." {
		t.Errorf("the plan says what waits: %q", waits)
	}
	for _, want := range []string{
		"replicasets.apps/rs", "configmaps/plain", "removed\n", "example.com/bucket (no consumer)",
		"3 objects removed, 2 of them when others have done their part, and 3 in other namespaces or that this user may not get; for 1 object the outcome depends on the order of work, and can be another; " +
			"the brake of configmaps lets 1 of 2 through until it is released\na cycle, in which a use is released: a -> b -> a, at revision ",
		"example.com/bucket took 90s when it was removed last\n", "x took less than 1s in the median of its last 2 removals, 60s in the longest\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

func TestSum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts *coppicev1.PlanCounts
		want   string
	}{
		{&coppicev1.PlanCounts{Removed: 1}, "1 object removed"},
		{&coppicev1.PlanCounts{RemovedLater: 2}, "2 objects removed when others have done their part"},
		{&coppicev1.PlanCounts{Removed: 1, RemovedLater: 2}, "3 objects removed, 2 of them when others have done their part"},
		{
			&coppicev1.PlanCounts{Protected: 1, Blocked: 2, Orphaned: 3, Stripped: 4, Kept: 5},
			"1 protected; 0 objects removed; 2 blocked; 3 orphaned; 4 stripped of references; 5 kept",
		},
	} {
		if got := sum(c.counts); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// Every type of blocker has words of its own, except a protection, which has a name alone.
func TestBlocker(t *testing.T) {
	t.Parallel()
	_, reader, _ := lookuptest.New(t)
	words := map[string]int32{}
	for number, name := range coppicev1.PlanBlocker_Type_name {
		if number == int32(coppicev1.PlanBlocker_TYPE_UNSPECIFIED) {
			continue
		}
		said := blocker(t.Context(), reader.Consumers(), &coppicev1.PlanBlocker{Type: coppicev1.PlanBlocker_Type(number), Name: "named", Count: 2}, "pods", reader.Now())
		if other, ok := words[said]; ok || (said == "named") != (number == int32(coppicev1.PlanBlocker_TYPE_PROTECTION)) {
			t.Errorf("%s is %q; type %d", name, said, other)
		}
		words[said] = number
	}
	for want, h := range map[string]*coppicev1.PlanBlocker{
		"its agent (no consumer)":    {Type: coppicev1.PlanBlocker_TYPE_AGENT},
		"1 user in other namespaces": {Type: coppicev1.PlanBlocker_TYPE_USERS, Count: 1},
		"its user pods/a":            {Type: coppicev1.PlanBlocker_TYPE_USERS, Count: 1, Name: "pods/a"},
		"2 users, such as pods/a":    {Type: coppicev1.PlanBlocker_TYPE_USERS, Count: 2, Name: "pods/a"},
	} {
		if got := blocker(t.Context(), reader.Consumers(), h, "pods", reader.Now()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
