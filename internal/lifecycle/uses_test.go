package lifecycle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func user(name string, uses ...*coppicev1.Use) *coppicev1.Object {
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Uid: name, Uses: uses}}
}

// using returns as many uses of objects that do not exist.
func using(n int) (uses []*coppicev1.Use) {
	for i := range n {
		uses = append(uses, &coppicev1.Use{Kind: "Secret", Name: fmt.Sprint("s", i)})
	}
	return uses
}

// TestMaxUses: an object has at most 64 uses, by whatever command.
func TestMaxUses(t *testing.T) {
	t.Parallel()
	for name, do := range writing {
		r := lifecycletest.New()
		at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
		if name == "update" {
			imported(t, r, at)
		}
		_, err := do(r.Context(), at, user("a", using(lifecycle.MaxUses+1)...))
		if !errors.Is(err, api.ErrInvalid) || len(err.Causes) != 1 || err.Causes[0].Field != "metadata.uses" || !strings.Contains(err.Causes[0].Message, "at most 64") {
			t.Errorf("%s with 65 uses: %v", name, err)
		}
		if _, err := do(r.Context(), at, user("a", using(lifecycle.MaxUses)...)); err != nil {
			t.Errorf("%s with 64 uses: %v", name, err)
		}
	}
}

// TestMaxUnresolved: at most 100 objects wait for one name. Those that wait for an object
// that is, or may become, cluster-scoped are counted in all namespaces, because its creation
// binds them all.
func TestMaxUnresolved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		use      *coppicev1.Use
		anywhere bool
	}{
		"cluster-scoped": {&coppicev1.Use{Kind: "Node", Name: "n"}, true},
		"not registered": {&coppicev1.Use{Group: "example.com", Kind: "Unknown", Name: "n"}, true},
		"namespaced":     {&coppicev1.Use{Kind: "Secret", Name: "n"}, false},
	} {
		r := lifecycletest.New()
		create := func(resource, namespace string, o *coppicev1.Object) *lifecycle.Error {
			out, err := lifecycle.Create(r.Context(), lifecycle.Key{Kind: r.Kinds().Resource(resource), Namespace: namespace}, o)
			if err == nil {
				r.Apply(out.Events)
			}
			return err
		}
		for i := range lifecycle.MaxUnresolved {
			namespace := "default"
			if c.anywhere {
				namespace = fmt.Sprint("ns", i)
			}
			if err := create("pods", namespace, user(fmt.Sprint("p", i), c.use)); err != nil {
				t.Fatalf("%s: user %d: %v", name, i, err)
			}
		}
		err := create("pods", "default", user("late", c.use))
		if !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Message, "create it") {
			t.Errorf("%s: user %d: %v", name, lifecycle.MaxUnresolved+1, err)
		}
		switch err := create("pods", "other", user("late", c.use)); {
		case c.anywhere && !errors.Is(err, api.ErrConflict):
			t.Errorf("%s: user %d, in another namespace: %v", name, lifecycle.MaxUnresolved+1, err)
		case !c.anywhere && err != nil:
			t.Errorf("%s: the first user in another namespace: %v", name, err)
		}
		if name != "cluster-scoped" {
			continue
		}
		must.Succeed(t, create("nodes", "", user("n")))
		for _, u := range r.UIDs() {
			for _, use := range r.Node(u).Uses {
				if use.UID == "" {
					t.Errorf("%s still waits", r.Node(u).Name)
				}
			}
		}
	}
}

// counted counts the lists of objects that wait.
type counted struct {
	lifecycle.View
	lists int
}

func (c *counted) Unresolved(at lifecycle.Coordinates, limit int) []uid.UID {
	c.lists++
	return c.View.Unresolved(at, limit)
}

// TestUnresolvedAreCounted: a new use reads a counter. Only the created object, which may be
// waited for itself, needs the list.
func TestUnresolvedAreCounted(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	ctx := r.Context()
	v := &counted{View: r}
	ctx.View = v
	if _, err := lifecycle.Create(ctx, lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}, user("a", using(lifecycle.MaxUses)...)); err != nil || v.lists != 1 {
		t.Errorf("%d lists, %v; want 1", v.lists, err)
	}
}

// TestMaxWaiting: an object that waits is not too large for the commit that binds it.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	ctx := r.Context()
	ctx.MaxObject = 0
	at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
	o := listed("metadata.ownerReferences", 1000)
	for i, ref := range o.Metadata.OwnerReferences {
		ref.Name = fmt.Sprint(strings.Repeat("o", 100), i)
	}
	if _, err := lifecycle.Create(ctx, at, o); err != nil {
		t.Fatalf("without a use: %v", err)
	}
	o.Metadata.Uses = using(1)
	if _, err := lifecycle.Create(ctx, at, o); !errors.Is(err, api.ErrRequestEntityTooLarge) || !strings.Contains(err.Message, "create the used object first") {
		t.Errorf("with a use that waits: %v", err)
	}
}
