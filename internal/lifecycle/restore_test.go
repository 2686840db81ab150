package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// B5.8: restore creates an object under a new uid, gives references back to one that exists, and
// names the deletion as the cause.
func TestRestore(t *testing.T) {
	t.Parallel()
	r := memrealm.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("configmaps"), Namespace: "shop"}
	object := func(name, u string, change ...func(*coppicev1.ObjectMeta)) *coppicev1.Object {
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "shop", Uid: u, Generation: 3}}
		for _, c := range change {
			c(o.Metadata)
		}
		return o
	}
	restore := func(o *coppicev1.Object, deletion uint64) ([]lifecycle.Event, *lifecycle.Error) {
		out, err := lifecycle.Restore(r.Context(), at, "session", o, deletion)
		if err != nil {
			return nil, err
		}
		r.Apply(out.Events)
		return out.Events, nil
	}
	expect := func(e []lifecycle.Event, err *lifecycle.Error, typ lifecycle.EventType, cause uint64) {
		t.Helper()
		if err != nil || len(e) != 1 || e[0].Type != typ || e[0].Reason != coppicev1.Reason_REASON_RESTORED || e[0].Cause != cause {
			t.Fatalf("events %+v, error %v", e, err)
		}
	}
	e, err := restore(object("owner", "u-1"), 7)
	expect(e, err, lifecycle.ObjectCreated, 7)
	e, err = restore(object("a", "u-2"), 8)
	expect(e, err, lifecycle.ObjectCreated, 8)
	reference := func(m *coppicev1.ObjectMeta) {
		m.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "owner", Uid: "u-1"}}
	}
	here := func(m *coppicev1.ObjectMeta) { m.ResourceVersion = r.Node(uid.MustParse("u-2")).Revision }
	small := r.Context()
	small.MaxObject = 50
	if _, err := lifecycle.Restore(small, at, "session", object("a", "u-2", reference, here), 9); err == nil || err.Reason != api.ErrRequestEntityTooLarge {
		t.Errorf("a reference that makes the object too large: %v", err)
	}
	e, err = restore(object("a", "u-2", reference, here), 9)
	expect(e, err, lifecycle.ObjectUpdated, 9)
	if n := r.Node(uid.MustParse("u-2")); len(n.Owners) != 1 || n.Generation != 3 {
		t.Errorf("after the reference was given back: %+v", n)
	}
	if e, err = restore(object("a", "u-2", reference, here), 9); err != nil || len(e) != 0 {
		t.Errorf("again: events %+v, error %v", e, err)
	}
	young := &lifecycle.Node{UID: uid.MustParse("u-9"), APIVersion: "v1", Kind: "ConfigMap", Name: "young", Namespace: "shop", Generation: 1, Initializers: []string{"i.example.com"}}
	r.Apply([]lifecycle.Event{{Type: lifecycle.ObjectCreated, UID: young.UID, Object: lifecycle.Object{Node: young}}})
	e, err = restore(object("young", "u-9", reference, func(m *coppicev1.ObjectMeta) {
		m.ResourceVersion = r.Node(young.UID).Revision
		m.Initializers = &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: "i.example.com"}}}
	}), 9)
	expect(e, err, lifecycle.ObjectUpdated, 9)
	if n := r.Node(young.UID); len(n.Owners) != 1 || len(n.Initializers) != 1 {
		t.Errorf("after the reference of an object with an initializer was given back: %+v", n)
	}
	for what, c := range map[string]struct {
		o        *coppicev1.Object
		deletion uint64
		want     string
	}{
		"no deletion":        {object("b", "u-3"), 0, "deletion: Required value"},
		"no uid":             {object("b", ""), 1, "metadata.uid"},
		"terminating":        {object("b", "u-3", func(m *coppicev1.ObjectMeta) { m.DeletionGracePeriodSeconds = new(int64) }), 1, "as it was before its deletion"},
		"initializers":       {object("b", "u-3", func(m *coppicev1.ObjectMeta) { m.Initializers = &coppicev1.Initializers{} }), 1, "metadata.initializers"},
		"a taken name":       {object("a", "u-3"), 1, "already exists"},
		"no resourceVersion": {object("a", "u-2"), 1, "already exists"},
		"another one":        {object("a", "u-2", func(m *coppicev1.ObjectMeta) { m.ResourceVersion = 1 }), 1, "resourceVersion precondition failed: have "},
		"another name":       {object("c", "u-2", here), 1, `uid u-2 belongs to configmaps "a"`},
		"a wrong reference":  {object("a", "u-2", here, reference, func(m *coppicev1.ObjectMeta) { m.OwnerReferences[0].Name = "" }), 1, "ownerReferences[0].name"},
		"nothing":            {nil, 1, "metadata.uid"},
	} {
		if _, err := restore(c.o, c.deletion); err == nil || !strings.Contains(err.Message, c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	at.Name = "owner"
	out, err := lifecycle.Delete(r.Context(), at, "", nil)
	must.Succeed(t, err)
	r.Apply(out.Events)
	at.Name = ""
	if _, err := restore(object("owner", "u-1"), 1); err == nil || !strings.Contains(err.Message, "a restored object has a new uid") {
		t.Errorf("a used uid: %v", err)
	}
}

// B10.6: owner references that leave no room for the record of an apply remove it.
func TestRestoreDropsRecord(t *testing.T) {
	t.Parallel()
	r := memrealm.New()
	at := lifecycle.Key{Kind: r.Kinds().Resource("configmaps"), Namespace: "shop"}
	applied, refused := lifecycle.Apply(r.Context(), at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}})
	must.Succeed(t, refused)
	r.Apply(applied.Events)
	n := r.Node(applied.Events[0].UID)
	o := lifecycle.Object{Node: n, Body: r.Body(n)}.API()
	record := len(r.Body(n).GetApplied())
	o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "owner", Uid: "u-1"}}
	size := objectcodec.Size(o)
	for _, c := range []struct {
		limit  int
		record int
	}{{size + record, record}, {size + record - 1, 0}} {
		ctx := r.Context()
		ctx.MaxObject = c.limit
		out, refused := lifecycle.Restore(ctx, at, "session", o, 9)
		must.Succeed(t, refused)
		changed := out.Events[0].Object.Body
		if got := len(out.Object.Body.GetApplied()); got != c.record || (changed != nil) != (c.record == 0) || (len(out.Warnings) > 0) != (c.record == 0) {
			t.Errorf("with at most %d bytes: a record of %d, want %d; event %v, warnings %q", c.limit, got, c.record, changed, out.Warnings)
		}
	}
}
