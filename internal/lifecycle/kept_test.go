package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/kept"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Without the permission, a write keeps the external finalizers that it leaves out, in their
// stored order, and the reply names them. Finalizers that are built in go.
func TestExternalFinalizersAreKept(t *testing.T) {
	t.Parallel()
	type rule func(ctx *lifecycle.Context, at lifecycle.Key, finalizers []string) (*lifecycle.Outcome, *lifecycle.Error)
	object := func(finalizers []string) *coppicev1.Object {
		return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a", Finalizers: finalizers}}
	}
	rules := map[string]rule{
		"update": func(ctx *lifecycle.Context, at lifecycle.Key, finalizers []string) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Update(ctx, at, object(finalizers))
		},
		"patch": func(ctx *lifecycle.Context, at lifecycle.Key, finalizers []string) (*lifecycle.Outcome, *lifecycle.Error) {
			list := `"` + strings.Join(finalizers, `","`) + `"`
			if finalizers == nil {
				list = ""
			}
			return lifecycle.Patch(ctx, at, &coppicev1.Patch{Name: "a", Patch: []byte(`{"metadata":{"finalizers":[` + list + `]}}`)})
		},
	}
	for _, q := range []struct{ stored, sent, want, kept string }{
		{"x/a x/b", "x/a", "x/a x/b", "x/b"},
		{"x/a x/b", "", "x/a x/b", "x/a x/b"},
		{"x/a x/b x/c", "x/c x/a", "x/c x/a x/b", "x/b"},
		{"x/a x/b x/a x/c", "x/a x/a", "x/a x/b x/a x/c", "x/b x/c"},
		{"x/a orphan", "", "x/a", "x/a"},
		{"orphan", "", "", ""},
		{"x/a", "x/new", "x/a x/new", "x/a"},
		{"x/a x/b", "x/b x/a", "x/b x/a", ""},
		{"x/a x/a", "x/a", "x/a", ""},
		{"x/a x/b x/a", "x/b", "x/a x/b x/a", "x/a"},
	} {
		for verb, write := range rules {
			r := memrealm.New()
			at := lifecycle.Key{Kind: r.Kinds().Resource("configmaps"), Namespace: "shop"}
			out, err := lifecycle.Create(r.Context(), at, object(strings.Fields(q.stored)))
			must.Succeed(t, err)
			r.Apply(out.Events)
			u := out.Events[0].UID
			before := r.Node(u).Revision
			ctx := r.Context()
			ctx.RemovesFinalizers = false
			sent := strings.Fields(q.sent)
			if len(sent) == 0 {
				sent = nil
			}
			if out, err = write(ctx, at, sent); err != nil {
				t.Fatalf("%s %q to %q: %v", verb, q.stored, q.sent, err)
			}
			r.Apply(out.Events)
			n := r.Node(u)
			if !slices.Equal(n.Finalizers, strings.Fields(q.want)) {
				t.Errorf("%s %q to %q: the object has %q, want %q", verb, q.stored, q.sent, n.Finalizers, q.want)
			}
			if names, _ := kept.Finalizers(out.Warnings); !slices.Equal(names, strings.Fields(q.kept)) {
				t.Errorf("%s %q to %q: the warnings are %q, want %q named", verb, q.stored, q.sent, out.Warnings, q.kept)
			}
			if q.want == q.stored && n.Revision != before {
				t.Errorf("%s %q to %q: the object has changed", verb, q.stored, q.sent)
			}
		}
	}
}

// An apply without the permission keeps the external finalizers that the apply before has set and that it
// leaves out, once: the next apply does not know them any more.
func TestApplyKeepsExternalFinalizers(t *testing.T) {
	t.Parallel()
	r := memrealm.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("configmaps"), Namespace: "shop"}
	for i, step := range []struct{ sent, want, kept string }{
		{"x/a orphan x/b", "x/a orphan x/b", ""},
		{"x/b", "x/a x/b", "x/a"},
		{"x/b", "x/a x/b", ""},
		{"", "x/a x/b", "x/b"},
	} {
		ctx := r.Context()
		ctx.RemovesFinalizers = false
		out, err := lifecycle.Apply(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a", Finalizers: strings.Fields(step.sent)}})
		must.Succeed(t, err)
		r.Apply(out.Events)
		n := r.Node(r.Lookup(at.Kind, at.Namespace, "a"))
		if names, _ := kept.Finalizers(out.Warnings); !slices.Equal(n.Finalizers, strings.Fields(step.want)) || !slices.Equal(names, strings.Fields(step.kept)) {
			t.Errorf("apply %d of %q: the object has %q, want %q; the warnings are %q, want %q named", i, step.sent, n.Finalizers, step.want, out.Warnings, step.kept)
		}
	}
}

// A refusal names the finalizers that the object would keep, if these are too many.
func TestTooManyAreKept(t *testing.T) {
	t.Parallel()
	r := memrealm.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("configmaps"), Namespace: "shop"}
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a"}}
	for i := range 1000 {
		o.Metadata.Finalizers = append(o.Metadata.Finalizers, fmt.Sprint("x/", i))
	}
	out, err := lifecycle.Create(r.Context(), at, o)
	must.Succeed(t, err)
	r.Apply(out.Events)
	ctx := r.Context()
	ctx.RemovesFinalizers = false
	_, err = lifecycle.Update(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a", Finalizers: []string{"x/new"}}})
	if err == nil || !strings.Contains(err.Error(), "the object keeps 1000 external finalizers that are left out: remove them with the verb removefinalizer first") {
		t.Errorf("an update: %v", err)
	}
}
