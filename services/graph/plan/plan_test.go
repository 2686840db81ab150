package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// The hash depends on the outcomes of the plan and on the request, not on its time or its number of steps.
func TestHash(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	hash := func(policy string) string { return hashOf(t, r, deletion(r, policy, "deployments/web")) }
	first := hash(lifecycle.Background)
	r.Create("pods/elsewhere", nil)
	r.Clock = r.Clock.Add(time.Hour)
	if again := hash(lifecycle.Background); again != first {
		t.Errorf("the same objects go, and the hash is %s, was %s", again, first)
	}
	if waits := hash(lifecycle.Foreground); waits == first {
		t.Errorf("pods/a goes before deployments/web, and the hash is still %s", first)
	}
	if orphaned := hash(lifecycle.Orphan); orphaned == first {
		t.Errorf("pods/a stays, and the hash is still %s", first)
	}
	r.Create("pods/b", owned(r, "deployments/web"))
	if more := hash(lifecycle.Background); more == first {
		t.Errorf("pods/b goes as well, and the hash is still %s", first)
	}
}

// The hash depends on each option of the request, on which objects it names, and on which of their
// parts has which options.
func TestHashOptions(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	r.Create("configmaps/c", nil)
	snap := r.Snapshot()
	web := snap.Node(r.UID("deployments/web"))
	snap.Close()
	with := func(change func(*plan.Deletion)) plan.Deletion {
		d := deletion(r, "", "deployments/web")
		d.Also = []plan.Deletion{deletion(r, "", "configmaps/c")}
		change(&d)
		return d
	}
	grace := func(seconds int64) func(*plan.Deletion) {
		return func(d *plan.Deletion) { d.Options.GracePeriodSeconds = &seconds }
	}
	policies := func(first, second string) func(*plan.Deletion) {
		return func(d *plan.Deletion) {
			d.Options.PropagationPolicy, d.Also[0].Options.PropagationPolicy = first, second
		}
	}
	seen := map[string]string{}
	for what, change := range map[string]func(*plan.Deletion){
		"without options":        func(*plan.Deletion) {},
		"the default policy":     policies(lifecycle.Background, lifecycle.Background),
		"a policy for one":       policies(lifecycle.Foreground, lifecycle.Orphan),
		"a policy for the other": policies(lifecycle.Orphan, lifecycle.Foreground),
		"no grace period":        grace(0),
		"a grace period":         grace(5),
		"a uid":                  func(d *plan.Deletion) { d.Options.Preconditions = &coppicev1.Preconditions{Uid: web.UID.String()} },
		"a resourceVersion": func(d *plan.Deletion) {
			d.Options.Preconditions = &coppicev1.Preconditions{ResourceVersion: web.Revision}
		},
		"a version":               func(d *plan.Deletion) { d.Version = "v1" },
		"the dependent as well":   func(d *plan.Deletion) { d.Also = append(d.Also, deletion(r, "", "pods/a")) },
		"one object less":         func(d *plan.Deletion) { d.Also = nil },
		"removal of a protection": func(d *plan.Deletion) { d.Also, d.Unprotect = nil, true },
	} {
		h := hashOf(t, r, with(change))
		if other := seen[h]; other != "" {
			t.Errorf("with %s and %s the hash is %s", what, other, h)
		}
		seen[h] = what
	}
	dry := hashOf(t, r, with(func(d *plan.Deletion) { d.Options.DryRun = []string{"All"} }))
	if seen[dry] != "without options" {
		t.Errorf("a dry run has another hash, that %q", seen[dry])
	}
}

// The hash depends on the policy and the grace period that the objects and their kinds decide.
func TestHashDecidedElsewhere(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	patch := func(target, text string) {
		k := r.Key(target)
		r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Patch(ctx, k, &coppicev1.Patch{Name: k.Name, Patch: []byte(text)})
		})
	}
	r.Register(lifecycle.KindSpec{
		Group: "example.com", Kind: "Widget", Plural: "widgets", Scope: lifecycle.ScopeNamespaced, Versions: []lifecycle.KindVersion{{Name: "v1"}},
	})
	r.Create("widgets/w", nil)
	r.Create("pods/a", owned(r, "widgets/w"))
	compute := func() *plan.Plan {
		p, err := compute(t, r, 100, "", "widgets/w")
		must.Succeed(t, err)
		return p
	}
	was := compute()
	for _, c := range []struct {
		what   string
		change func()
		said   string
	}{
		{"a dependent has another grace period", func() { patch("pods/a", `{"spec":{"nodeName":"n","terminationGracePeriodSeconds":600}}`) }, "of these changed since: pods/a (default)"},
		{"a kind orphans by default", func() {
			patch("kinds/widgets.example.com", `{"spec":{"versions":[{"name":"v1","defaultDeletion":"OrphanDependents"}]}}`)
		}, "none of these objects has changed since, but the kind of widgets.example.com"},
		{"a finalizer says foreground", func() { patch("widgets/w", `{"metadata":{"finalizers":["foregroundDeletion"]}}`) }, "of these changed since: widgets.example.com/w (default)"},
	} {
		c.change()
		now := compute()
		if now.Hash() == was.Hash() {
			t.Errorf("%s, and the hash is still %s", c.what, was.Hash())
		}
		if err := now.Changed(deletion(r, "", "widgets/w"), was.Name()); !strings.Contains(err.Message, c.said) {
			t.Errorf("%s: %q does not say %q", c.what, err.Message, c.said)
		}
		was = now
	}
}

func hashOf(t *testing.T, r *statetest.Realm, d plan.Deletion) string {
	t.Helper()
	snap := r.Snapshot()
	defer snap.Close()
	p, err := plan.Compute(context.Background(), snap, d, r.Clock, 10)
	must.Succeed(t, err)
	return p.Hash()
}

// A refusal names the objects that were added or have changed since.
func TestChanged(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	get := func() *plan.Plan {
		p, err := compute(t, r, 100, lifecycle.Background, "deployments/web")
		must.Succeed(t, err)
		return p
	}
	was := get().Name()
	for i := range 12 {
		r.Create(fmt.Sprintf("pods/late-%02d", i), owned(r, "deployments/web"))
	}
	now := get()
	err := now.Changed(deletion(r, lifecycle.Background, "deployments/web"), was)
	if err.Reason != api.ErrConflict || err.Name != "web" || len(err.Causes) != 10 {
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
	if unknown := now.Changed(deletion(r, "", "deployments/web"), planname.Name{Hash: was.Hash}); !strings.Contains(unknown.Message, "without its revision") {
		t.Errorf("without a revision it says %q", unknown.Message)
	}
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
	must.Succeed(t, err)
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
	if p, err := plan.Compute(ctx, snap, deletion(r, "", "deployments/web"), r.Clock, 10); err == nil || err.Reason != api.ErrTimeout {
		t.Errorf("%v, %v", p, err)
	}
}

// A plan looks at a bounded number of users that it may not name, for all its objects together.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.SetSettings(&lifecycle.SettingsSpec{SharedNamespaces: []string{"*"}})
	r.Create("secrets/first@infra", nil)
	r.Create("secrets/second@infra", nil)
	for i := range 1000 {
		r.Across(fmt.Sprintf("pods/a-%d@shop", i), &coppicev1.ObjectMeta{Uses: []*coppicev1.Use{{Kind: "Secret", Name: "first", Namespace: "infra"}}})
	}
	r.Across("pods/b@shop", &coppicev1.ObjectMeta{Uses: []*coppicev1.Use{{Kind: "Secret", Name: "second", Namespace: "infra"}}})
	r.Create("pods/c@infra", &coppicev1.ObjectMeta{Uses: []*coppicev1.Use{{Kind: "Secret", Name: "second"}}})
	blockers := func(targets ...string) (said []string) {
		p, err := compute(t, r, 10, "", targets...)
		must.Succeed(t, err)
		for _, o := range p.Objects {
			for _, b := range o.Blockers {
				said = append(said, blocker(b))
			}
		}
		return said
	}
	if got := strings.Join(blockers("secrets/second@infra"), "; "); got != "used by 2, pods/c" {
		t.Errorf("alone: %s", got)
	}
	if got := strings.Join(blockers("secrets/first@infra", "secrets/second@infra"), "; "); got != "used by 1000, ; used by 2, " {
		t.Errorf("after 1,000 users of another object: %s", got)
	}
}

// The hash of a plan depends on objects that the plan does not name, and the refusal counts them.
func TestHashElsewhere(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.SetSettings(&lifecycle.SettingsSpec{SharedNamespaces: []string{"*"}})
	r.Create("secrets/key@infra", nil)
	// The Pod is being deleted already, in the foreground, and the plan waits for it.
	r.Across("pods/user@shop", &coppicev1.ObjectMeta{
		Finalizers: []string{"example.com/user"}, Uses: []*coppicev1.Use{{Kind: "Secret", Name: "key", Namespace: "infra"}},
	})
	r.Create("pods/below@shop", owned(r, "pods/user@shop"))
	r.Delete("pods/user@shop", lifecycle.Foreground)
	get := func() *plan.Plan {
		p, err := compute(t, r, 10, "", "secrets/key@infra")
		must.Succeed(t, err)
		return p
	}
	was := get()
	r.Create("configmaps/more@shop", owned(r, "pods/user@shop"))
	now := get()
	if len(was.Objects) != 1 || len(now.Objects) != 1 || was.Reply(0, 0, 0).GetElsewhere() != 2 || now.Reply(0, 0, 0).GetElsewhere() != 3 {
		t.Errorf("the plans are\n%s\n%s", describe(was), describe(now))
	}
	if was.Hash() == now.Hash() {
		t.Errorf("one more object goes in another namespace, and the hash is still %s", was.Hash())
	}
	err := now.Changed(deletion(r, "", "secrets/key@infra"), was.Name())
	for _, want := range []string{"removes 1, and takes in 3 that it does not name", "objects that the plan does not name have changed since"} {
		if !strings.Contains(err.Message, want) {
			t.Errorf("%q does not say %q", err.Message, want)
		}
	}
	if text := fmt.Sprint(err); strings.Contains(text, "more ") || strings.Contains(text, "shop") || len(err.Causes) != 1 {
		t.Errorf("the refusal names objects of another namespace: %+v", err)
	}
}

// B6.1: for an object that stays, a plan shows when it expires and which notice ends first. For one that
// is removed or protected it shows neither.
func TestExpiry(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	expires := timestamppb.New(r.Clock.Time().Add(48 * time.Hour).Truncate(time.Second))
	for _, name := range []string{"pods/a", "pods/safe", "pods/plain"} {
		meta := owned(r, "deployments/web")
		if name != "pods/plain" {
			meta.ExpiresAt = expires
		}
		r.Create(name, meta)
	}
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(ctx, r.Key("pods/safe"), "ana", "production", nil)
	})
	// Any object is a policy to the plan; the notice of one that was changed since is withdrawn soon.
	policies := map[string]time.Duration{"first": time.Hour, "second": 2 * time.Hour, "changed": time.Minute}
	for name := range policies {
		r.Create("configmaps/"+name, nil)
	}
	tx := r.State.Begin()
	for name, after := range policies {
		notice := lifecycle.Notice{Policy: r.UID("configmaps/" + name), Generation: 1, Given: r.Clock, Ends: r.Clock.Add(after)}
		if name == "changed" {
			notice.Generation++
		}
		tx.SetNotice(r.UID("pods/a"), notice)
		tx.SetNotice(r.UID("pods/safe"), notice)
	}
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	said := func(policy string) map[string]*coppicev1.PlannedObject {
		p, err := compute(t, r, 10, policy, "deployments/web")
		must.Succeed(t, err)
		byName := map[string]*coppicev1.PlannedObject{}
		for _, o := range p.Reply(0, 0, 1<<20).GetObjects() {
			byName[o.GetName()] = o
		}
		return byName
	}
	orphan := said(lifecycle.Orphan)
	if o := orphan["a"]; o.GetExpiresAt() != expires.AsTime().UnixMicro() || o.GetNoticePolicy() != "first" || o.GetNoticeEnds() != int64(r.Clock.Add(time.Hour)) {
		t.Errorf("of an object that is orphaned: %v", o)
	}
	for _, o := range []*coppicev1.PlannedObject{orphan["web"], orphan["safe"], orphan["plain"], said(lifecycle.Background)["a"]} {
		if o == nil || o.GetExpiresAt() != 0 || o.GetNoticePolicy() != "" || o.GetNoticeEnds() != 0 {
			t.Errorf("of an object that is removed, protected or does not expire: %v", o)
		}
	}
}
