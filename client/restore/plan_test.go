package restore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// shop creates a Deployment web that owns a ReplicaSet rs, which owns a Pod pod; and a ConfigMap
// shared that web and the Deployment api own.
func shop(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.new("deployments.apps", "web")
	w.new("deployments.apps", "api")
	w.new("replicasets.apps", "rs", "deployments.apps/web")
	w.new("pods", "pod", "replicasets.apps/rs")
	w.new("configmaps", "shared", "deployments.apps/web", "deployments.apps/api")
	return w
}

// new creates an object with owners, the first of which is the controller.
func (w *world) new(resource, name string, owners ...string) {
	w.t.Helper()
	w.create(resource, &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: "shop", OwnerReferences: w.refs(owners...)}})
}

func (w *world) refs(owners ...string) (refs []*client.OwnerReference) {
	for i, owner := range owners {
		refs = append(refs, client.NewOwnerReference(w.get(owner), client.WithController(i == 0)))
	}
	return refs
}

// uid returns the uid of "pods/x" in the namespace shop.
func (w *world) uid(key string) uid.UID {
	resource, name, _ := strings.Cut(key, "/")
	return w.find(resource, "shop", name)
}

func (w *world) get(key string) *client.Object { return object(w.Realm, w.uid(key)) }

// change updates an object.
func (w *world) change(key string, change func(*client.Object)) {
	w.t.Helper()
	o := w.get(key)
	change(o)
	o.Metadata.ResourceVersion = 0
	resource, name, _ := strings.Cut(key, "/")
	w.do(lifecycle.Update(w.Context(), w.key(resource, "shop", name), o))
}

// undone deletes "deployments.apps/web" in the background, calls after, and plans the restoration.
func (w *world) undone(o restore.Options, after func()) *restore.Plan {
	w.t.Helper()
	return w.undo("deployments.apps/web", o, after)
}

func (w *world) undo(root string, o restore.Options, after func()) *restore.Plan {
	w.t.Helper()
	before := w.Clone()
	resource, name, _ := strings.Cut(root, "/")
	revision := w.remove(resource, "shop", name, lifecycle.Background)
	w.finish(memrealm.InOrder)
	if after != nil {
		after()
	}
	return restore.Build(w.input(w.cascade(revision), before, o))
}

// described is the plan as text.
func described(p *restore.Plan) string {
	var b strings.Builder
	for _, n := range p.Refusals {
		fmt.Fprintf(&b, "refused: %s\n", n)
	}
	if len(p.Refusals) == 0 {
		for _, i := range p.Objects {
			fmt.Fprintf(&b, "create %s/%s\n", i.Resource, i.Object.GetMetadata().GetName())
		}
		for _, s := range p.Survivors {
			fmt.Fprintf(&b, "give back %s/%s:", s.Resource, s.Object.GetMetadata().GetName())
			for _, r := range s.Back {
				fmt.Fprintf(&b, " %s", r.GetName())
			}
			b.WriteString("\n")
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

func check(t *testing.T, p *restore.Plan, want ...string) {
	t.Helper()
	got := described(p)
	for i, line := range strings.Split(strings.TrimSpace(got), "\n") {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Fatalf("the plan is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	if lines := strings.Count(got, "\n"); lines != len(want) {
		t.Fatalf("the plan is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// B5.1, B5.7: a restoration creates owners first, and gives survivors their references back.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := shop(t)
	p := w.undone(restore.Options{}, nil)
	check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod", "give back configmaps/shared: web")
	w.carryOut(p, func() {})
	refs := w.get("configmaps/shared").GetMetadata().GetOwnerReferences()
	if i := slices.IndexFunc(refs, func(r *client.OwnerReference) bool { return r.GetName() == "web" }); len(refs) != 2 || !refs[i].GetController() || refs[i].GetUid() != w.uid("deployments.apps/web").String() {
		t.Errorf("shared has %v", refs)
	}
}

// B5.2: survivors get back references, orphaned ones too, but no second controller.
func TestPlanSurvivors(t *testing.T) {
	t.Parallel()
	t.Run("second controller", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		p := w.undone(restore.Options{}, func() {
			w.change("configmaps/shared", func(o *client.Object) { o.Metadata.OwnerReferences = w.refs("deployments.apps/api") })
		})
		check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod",
			"note: configmaps/shared (shop): does not get its reference to Deployment/web back: Deployment/api is its controller now")
	})
	t.Run("orphaned", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		w.change("deployments.apps/web", func(o *client.Object) { o.Metadata.Finalizers = []string{"orphan"} })
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", "")
		w.finish(memrealm.InOrder)
		p := restore.Build(w.input(w.cascade(revision), before, restore.Options{}))
		check(t, p, "create deployments.apps/web", "give back configmaps/shared: web", "give back replicasets.apps/rs: web")
		if f := p.Objects[0].Object.GetMetadata().GetFinalizers(); !slices.Equal(f, []string{"orphan"}) {
			t.Errorf("finalizers %v", f)
		}
	})
	t.Run("deleted since", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		p := w.undone(restore.Options{}, func() { w.remove("configmaps", "shop", "shared", "") })
		check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod")
	})
	t.Run("being deleted", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		w.change("configmaps/shared", func(o *client.Object) { o.Metadata.Finalizers = []string{"example.com/x"} })
		p := w.undone(restore.Options{}, func() { w.remove("configmaps", "shop", "shared", "") })
		check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod",
			"note: configmaps/shared (shop): gets no references back, because it is being deleted")
	})
}

// B5.3: a reference to an owner that is gone refuses, or is dropped.
func TestPlanDangling(t *testing.T) {
	t.Parallel()
	part := func(o restore.Options) (*world, *restore.Plan) {
		w := shop(t)
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", lifecycle.Background)
		w.finish(memrealm.InOrder)
		c := restore.NewSelection(map[string]bool{w.gone("rs").String(): true})
		for _, e := range w.log {
			if e.Revision >= revision {
				must.Succeed(t, c.AddEvents([]restore.Event{e}))
			}
		}
		return w, restore.Build(w.input(c, before, o))
	}
	_, p := part(restore.Options{})
	check(t, p, "refused: replicasets.apps/rs (shop): its owner Deployment/web (uid ")
	if len(p.Gone) != 1 {
		t.Errorf("gone: %v", p.Gone)
	}
	_, p = part(restore.Options{DropDangling: true})
	check(t, p, "create replicasets.apps/rs", "note: replicasets.apps/rs (shop): loses its reference to its owner Deployment/web, which is gone",
		"note: replicasets.apps/rs (shop): it has no owner after the restoration")
}

// gone returns the uid of a removed object.
func (w *world) gone(name string) uid.UID {
	for _, e := range w.log {
		if e.Name == name && e.Type == "ObjectDeleted" {
			return uid.MustParse(e.UID)
		}
	}
	w.t.Fatalf("%s was not removed", name)
	return ""
}

// B5.3: an owner that is being deleted counts as gone.
func TestPlanTerminatingOwner(t *testing.T) {
	t.Parallel()
	w := shop(t)
	w.change("deployments.apps/api", func(o *client.Object) { o.Metadata.Finalizers = []string{"example.com/x"} })
	w.new("deployments.apps", "root")
	w.new("pods", "both", "deployments.apps/root", "deployments.apps/api")
	p := w.undo("pods/both", restore.Options{}, func() {
		w.remove("deployments.apps", "shop", "api", "")
		w.remove("deployments.apps", "shop", "root", "")
	})
	check(t, p, "refused: pods/both (shop): its owner Deployment/root (uid ", "refused: pods/both (shop): its owner Deployment/api is being deleted")
}

// B5.4: a taken name refuses, or is skipped with the references to it.
func TestPlanTaken(t *testing.T) {
	t.Parallel()
	taken := func(w *world) func() { return func() { w.new("replicasets.apps", "rs") } }
	w := shop(t)
	check(t, w.undone(restore.Options{}, taken(w)), "refused: replicasets.apps/rs (shop): another object has the name now, with the uid ")
	w = shop(t)
	check(t, w.undone(restore.Options{SkipExisting: true}, taken(w)), "create deployments.apps/web", "create pods/pod", "give back configmaps/shared: web",
		"note: replicasets.apps/rs (shop): skipped: another object has the name now",
		"note: pods/pod (shop): loses its reference to its owner ReplicaSet/rs, which is skipped",
		"note: pods/pod (shop): it has no owner after the restoration")
}

// B5.5: what cannot be restored faithfully refuses by name.
func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	t.Run("not finished", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", lifecycle.Foreground)
		p := restore.Build(w.input(w.cascade(revision), before, restore.Options{}))
		if got := described(p); !strings.Contains(got, "refused: deployments.apps/web (shop): it is still being deleted, so the cascade is not finished") ||
			!strings.Contains(got, "refused: configmaps/shared (shop): it is about to lose its references") {
			t.Error(got)
		}
	})
	t.Run("not begun below", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", lifecycle.Background)
		p := restore.Build(w.input(w.cascade(revision), before, restore.Options{}))
		if got := described(p); !strings.Contains(got, "refused: replicasets.apps/rs (shop): it is about to be deleted, so the cascade is not finished") {
			t.Error(got)
		}
	})
	t.Run("terminating before", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		w.change("deployments.apps/web", func(o *client.Object) { o.Metadata.Finalizers = []string{"example.com/x"} })
		w.remove("deployments.apps", "shop", "web", lifecycle.Background)
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", lifecycle.Foreground)
		w.finish(memrealm.InOrder)
		p := restore.Build(w.input(w.cascade(revision), before, restore.Options{}))
		check(t, p, fmt.Sprintf("refused: deployments.apps/web (shop): it was being deleted before revision %d already", revision))
	})
	t.Run("kind", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		p := w.undone(restore.Options{}, func() {
			w.do(lifecycle.Delete(w.Context(), w.key(client.KindsResource.String(), "", "pods"), "", nil))
			w.finish(memrealm.InOrder)
		})
		check(t, p, "refused: pods/pod (shop): its kind is not registered")
	})
	t.Run("neither log nor archive", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", lifecycle.Background)
		w.finish(memrealm.InOrder)
		in := w.input(w.cascade(revision), before, restore.Options{DropDangling: true})
		delete(in.Before, w.gone("rs").String())
		if got := described(restore.Build(in)); !strings.Contains(got, "refused: replicasets.apps/rs (shop): neither the log nor the archive has it") {
			t.Error(got)
		}
	})
	t.Run("created later", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		before := w.Clone()
		revision := w.remove("deployments.apps", "shop", "web", lifecycle.Foreground)
		w.new("pods", "late", "deployments.apps/web")
		w.finish(memrealm.InOrder)
		p := restore.Build(w.input(w.cascade(revision), before, restore.Options{}))
		check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod", "give back configmaps/shared: web",
			"note: pods/late (shop): not restored: it was created after the deletion had begun")
	})
	t.Run("no deletion", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		if err := restore.NewCascade(w.Revision).AddEvents(w.log[len(w.log)-1:]); err == nil || !strings.Contains(err.Error(), "is no deletion: it is ObjectCreated of configmaps/shared (shop)") {
			t.Error(err)
		}
	})
	t.Run("end of a deletion", func(t *testing.T) {
		t.Parallel()
		w := shop(t)
		w.change("pods/pod", func(o *client.Object) { o.Metadata.Finalizers = []string{"example.com/x"} })
		begun := w.remove("pods", "shop", "pod", "")
		w.finish(memrealm.InOrder)
		if err := restore.NewCascade(w.Revision).AddEvents(w.log[len(w.log)-1:]); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("restore --cascade-of %d", begun)) {
			t.Error(err)
		}
	})
}

// B5.6: the status is dropped, and uids elsewhere are listed.
func TestPlanContents(t *testing.T) {
	t.Parallel()
	w := withContents(t)
	p := w.undone(restore.Options{}, nil)
	check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod", "give back configmaps/shared: web",
		"note: pods/pod (shop): spec.a[0].owner has the old uid of replicasets.apps/rs (shop), which is now ",
		"note: pods/pod (shop): metadata.annotations[example.com/owner] has the old uid of replicasets.apps/rs (shop)")
	if s := p.Objects[2].Object.GetStatus(); s != nil {
		t.Errorf("status %s", s)
	}
	p = withContents(t).undone(restore.Options{WithStatus: true}, nil)
	if s := string(p.Objects[2].Object.GetStatus()); s != `{"phase":"Running"}` {
		t.Errorf("status %s", s)
	}
}

// withContents is shop with a Pod that has a status, and mentions a uid.
func withContents(t *testing.T) *world {
	t.Helper()
	w := shop(t)
	old := w.uid("replicasets.apps/rs").String()
	w.change("pods/pod", func(o *client.Object) {
		o.Spec = fmt.Appendf(nil, `{"a":[{"owner":%q}]}`, old)
		o.Metadata.Annotations = map[string]string{"example.com/owner": old}
	})
	w.do(lifecycle.UpdateStatus(w.Context(), w.key("pods", "shop", "pod"), &client.Object{
		ApiVersion: "v1", Kind: "Pod", Metadata: &client.ObjectMeta{Name: "pod", Namespace: "shop"}, Status: []byte(`{"phase":"Running"}`),
	}))
	return w
}

// B5.5: an expiresAt that has passed refuses, unless another one is given.
func TestPlanExpired(t *testing.T) {
	t.Parallel()
	expired := func(o restore.Options) *restore.Plan {
		w := newWorld(t)
		w.create("pods", &client.Object{Metadata: &client.ObjectMeta{Name: "a", Namespace: "shop", ExpiresAt: timestamppb.New(w.Clock.Time().Add(time.Hour))}})
		return w.undo("pods/a", o, func() { w.Clock = w.Clock.Add(2 * time.Hour) })
	}
	check(t, expired(restore.Options{}), "refused: pods/a (shop): its expiresAt, 2030-01-01T01:00:00Z, has passed")
	later := memrealm.Start.Time().Add(3 * time.Hour)
	p := expired(restore.Options{Expires: &later})
	check(t, p, "create pods/a")
	if at := p.Objects[0].Object.GetMetadata().GetExpiresAt().AsTime(); !at.Equal(later) {
		t.Errorf("expires at %s", at)
	}
	p = expired(restore.Options{Expires: new(time.Time)})
	check(t, p, "create pods/a")
	if at := p.Objects[0].Object.GetMetadata().GetExpiresAt(); at != nil {
		t.Errorf("expires at %s", at.AsTime())
	}
}

// B5.2: a survivor gets back a reference that it has got after the state before the cascade was read.
func TestPlanLateReference(t *testing.T) {
	t.Parallel()
	w := shop(t)
	before := w.Clone()
	w.change("configmaps/shared", func(o *client.Object) {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(w.get("replicasets.apps/rs")))
	})
	revision := w.remove("deployments.apps", "shop", "web", lifecycle.Background)
	w.finish(memrealm.InOrder)
	plan := restore.Build(w.input(w.cascade(revision), before, restore.Options{}))
	if len(plan.Refusals) > 0 || len(plan.Survivors) != 1 {
		t.Fatalf("%+v", plan)
	}
	var back []string
	for _, r := range plan.Survivors[0].Back {
		back = append(back, r.GetName())
	}
	slices.Sort(back)
	if want := []string{"rs", "web"}; !slices.Equal(back, want) {
		t.Errorf("configmaps/shared gets back its references to %v, want %v", back, want)
	}
}
