package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// The hash depends on the outcomes of the plan, not on its time or its number of steps.
func TestHash(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	hash := func(policy string) string {
		p, err := compute(t, r, 10, policy, "deployments/web")
		if err != nil {
			t.Fatal(err)
		}
		return p.Hash()
	}
	first := hash(lifecycle.Background)
	r.Create("pods/elsewhere", nil)
	if again := hash(lifecycle.Foreground); again != first {
		t.Errorf("the same objects go, and the hash is %s, was %s", again, first)
	}
	if orphaned := hash(lifecycle.Orphan); orphaned == first {
		t.Errorf("pods/a stays, and the hash is still %s", first)
	}
	r.Create("pods/b", owned(r, "deployments/web"))
	if more := hash(lifecycle.Background); more == first {
		t.Errorf("pods/b goes as well, and the hash is still %s", first)
	}
}

// A refusal names the objects that were added or have changed since.
func TestChanged(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	get := func() *plan.Plan {
		p, err := compute(t, r, 100, lifecycle.Background, "deployments/web")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	was := get().Name()
	for i := range 12 {
		r.Create(fmt.Sprintf("pods/late-%02d", i), owned(r, "deployments/web"))
	}
	now := get()
	err := now.Changed(deletion(r, lifecycle.Background, "deployments/web"), was)
	if err.Reason != lifecycle.ReasonConflict || err.Name != "web" || len(err.Causes) != 10 {
		t.Errorf("the refusal is %+v", err)
	}
	for _, want := range []string{was.String(), now.Name().String(), "removes 14", "pods/late-00 (default)", "and 2 more", "plan again"} {
		if !strings.Contains(err.Message, want) {
			t.Errorf("%q does not say %q", err.Message, want)
		}
	}
	if strings.Contains(err.Message, "pods/a ") {
		t.Errorf("%q names what has not changed", err.Message)
	}
	if c := err.Causes[0]; c.Field != "pods/late-11 (default)" || c.Reason != "PlanChanged" || !strings.Contains(c.Message, "would be removed") {
		t.Errorf("the first cause is %+v", c)
	}
	if unknown := now.Changed(deletion(r, "", "deployments/web"), plan.Name{Hash: was.Hash}); !strings.Contains(unknown.Message, "without its revision") {
		t.Errorf("without a revision it says %q", unknown.Message)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"0123456789abcdef", "0123456789abcdef@17"} {
		if n, err := plan.ParseName(good); err != nil || n.String() != good {
			t.Errorf("%q is read as %q, %v", good, n, err)
		}
	}
	for _, bad := range []string{"", "@", "0123", "0123456789ABCDEF", "0123456789abcdeg", "0123456789abcdef@", "0123456789abcdef@-1"} {
		if n, err := plan.ParseName(bad); err == nil {
			t.Errorf("%q is read as %q", bad, n)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"", "@", "0123456789abcdef", "0123456789abcdef@17", "0123456789abcdef@", "0123456789ABCDEF@1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := plan.ParseName(s)
		if err != nil {
			return
		}
		if again, err := plan.ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q is read as %v, which is read as %v, %v", s, n, again, err)
		}
	})
}

// A reply has a page of the objects; pages fit together.
func TestReply(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	for i := range 7 {
		r.Create(fmt.Sprintf("pods/p%d", i), owned(r, "deployments/web"))
	}
	p, err := compute(t, r, 100, lifecycle.Background, "deployments/web")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []struct{ limit, bytes int }{{3, 1 << 20}, {0, 150}, {0, 1 << 20}, {0, 1}} {
		var names []string
		for more := true; more; {
			reply := p.Reply(len(names), page.limit, page.bytes)
			for _, o := range reply.GetObjects() {
				names = append(names, o.GetName())
			}
			more = reply.GetTruncated()
		}
		if got := strings.Join(names, " "); got != "web p0 p1 p2 p3 p4 p5 p6" {
			t.Errorf("in pages of %+v: %s", page, got)
		}
	}
}

// A context that has ended ends the plan.
func TestCancelled(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	snap := r.Snapshot()
	defer snap.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p, err := plan.Compute(ctx, snap, deletion(r, "", "deployments/web"), r.Clock, 10); err == nil || err.Reason != lifecycle.ReasonTimeout {
		t.Errorf("%v, %v", p, err)
	}
}
