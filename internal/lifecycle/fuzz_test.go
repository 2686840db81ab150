package lifecycle_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// FuzzKindSpec registers kinds with any spec: it is refused, or it can be read
// again from the log, and objects of the kind can be created.
func FuzzKindSpec(f *testing.F) {
	for _, spec := range lifecycle.BuiltinKinds()[:3] {
		f.Add(lifecycle.ResourceName(spec.Group, spec.Plural), spec.JSON())
	}
	for name, spec := range map[string]string{
		"buckets.example.com": `{"group":"example.com","kind":"Bucket","plural":"buckets","scope":"Cluster","versions":[{"name":"v1","defaultDeletion":"Unsupported"},{"name":"v2"}]}`,
		"kinds.coppice.dev":   `{"group":"coppice.dev","kind":"Sort","plural":"kinds","scope":"Cluster","versions":[{"name":"v1"}]}`,
		"things":              `{"kind":"Thing","plural":"things","scope":"Namespaced","versions":[{"name":"v1"}]} {}`,
		"x":                   `{"versions":[{"name":"v1"},{"name":"v1"}],"shortNames":["","-"]}`,
		"":                    `null`,
		".":                   `[`,
	} {
		f.Add(name, []byte(spec))
	}
	f.Fuzz(func(t *testing.T, name string, spec []byte) {
		if !utf8.ValidString(name) {
			return // does not come through the codec
		}
		r := lifecycletest.New()
		known := len(r.Kinds().All())
		at := lifecycle.Key{Kind: r.Kinds().Of(lifecycle.Group, "Kind")}
		out, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: spec})
		if err != nil {
			if len(err.Causes) == 0 && err.Reason == api.ErrInvalid {
				t.Fatalf("refused without a cause: %v", err)
			}
			return
		}
		r.Apply(out.Events) // panics if the spec cannot be read again
		k := r.Kinds().Resource(name)
		switch {
		case k == nil || k.UID != out.Events[0].UID || r.Kinds().Of(k.Group, k.Kind) != k:
			t.Fatalf("%q is registered as %+v", name, k)
		case len(r.Kinds().All()) != known+1:
			t.Fatalf("%q took the place of another kind", name)
		case !k.Serves(lifecycle.VersionOf(k.APIVersion())) || k.DefaultFor(lifecycle.VersionOf(k.APIVersion())) == "":
			t.Fatalf("%+v has no version", k)
		case k.Namespaced() == (k.Scope == lifecycle.ScopeCluster):
			t.Fatalf("%+v has no scope", k)
		}
		at = lifecycle.Key{Kind: k}
		if k.Namespaced() {
			at.Namespace = "default"
		}
		object, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "x"}})
		if err != nil {
			t.Fatalf("no object of %+v can be created: %v", k, err)
		}
		r.Apply(object.Events)
		if r.Kinds().OfNode(r.Node(object.Events[0].UID)) != k {
			t.Fatalf("an object of %+v is of another kind", k)
		}
		if out, err := lifecycle.Delete(r.Context(), lifecycle.Key{Kind: lifecycle.NewKinds().Resource("kinds.coppice.dev"), Name: name}, "", nil); err != nil || out.Code != 202 {
			t.Fatalf("%+v has an object, and is deleted as %+v, %v", k, out, err)
		}
		if without := r.Kinds().Without(k.UID); without.Resource(name) != nil || len(without.All()) != known {
			t.Fatalf("%q is still registered", name)
		}
	})
}

// FuzzPatch patches an object with anything: it is refused, or leaves the same
// object, which can be encoded; the same patch again changes nothing.
func FuzzPatch(f *testing.F) {
	for _, patch := range []string{
		`{}`, `null`, `[]`, `"x"`, `{"metadata":null}`, `{"metadata":{"name":"other"}}`,
		`{"metadata":{"uid":null,"resourceVersion":"24","generation":9,"creationTimestamp":"2020-01-01T00:00:00Z"}}`,
		`{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":0}}`,
		`{"metadata":{"labels":{"app":null,"b":"c"},"annotations":{"x":"y"},"finalizers":["a/b","orphan","foregroundDeletion"]}}`,
		`{"metadata":{"finalizers":null,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1","controller":true}]}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"a.b"},{}]}}`,
		`{"spec":{"a":1e999,"b":[1,null]},"status":7,"data":{"k":null},"kind":"Pod","apiVersion":"v1"}`,
		`{"spec":null,"data":null}`, `{"apiVersion":"v2"}`, `{"kind":"Secret"}`, `{"metadata":{"name":"x","name":"y"}}`,
	} {
		f.Add([]byte(patch), false)
		f.Add([]byte(patch), true)
	}
	f.Fuzz(func(t *testing.T, patch []byte, terminating bool) {
		r := lifecycletest.New()
		at := lifecycle.Key{Kind: r.Kinds().Resource("configmaps"), Namespace: "default"}
		out, err := lifecycle.Create(r.Context(), at, &coppicev1.Object{
			Metadata: &coppicev1.ObjectMeta{Name: "x", Labels: map[string]string{"app": "web"}, Finalizers: []string{"a/b"}},
			Spec:     []byte(`{"a":{"b":1}}`), Extra: []byte(`{"data":{"k":"v"}}`),
		})
		must.Succeed(t, err)
		r.Apply(out.Events)
		u := out.Events[0].UID
		at.Name = "x"
		if terminating {
			out, err := lifecycle.Delete(r.Context(), at, "", nil)
			must.Succeed(t, err)
			r.Apply(out.Events)
		}
		was := r.Node(u)
		given := bytes.Clone(patch)
		p := &coppicev1.Patch{Name: "x", Patch: patch}
		out, err = lifecycle.Patch(r.Context(), at, p)
		if !bytes.Equal(given, patch) {
			t.Fatal("the patch was modified")
		}
		if err != nil {
			return
		}
		r.Apply(out.Events)
		is := r.Node(u)
		if is == nil {
			if !terminating {
				t.Fatal("a patch removed the object")
			}
			return
		}
		if is.Coordinates() != was.Coordinates() || is.DeletionTime != was.DeletionTime || is.CreationTime != was.CreationTime {
			t.Fatalf("%+v became %+v", was, is)
		}
		body := r.Body(is)
		for _, raw := range [][]byte{body.GetSpec(), body.GetStatus(), body.GetExtra()} {
			if len(raw) > 0 && !json.Valid(raw) {
				t.Fatalf("not JSON: %q", raw)
			}
		}
		if _, err := proto.Marshal(lifecycle.Object{Node: is, Body: body}.API()); err != nil {
			t.Fatalf("%+v cannot be encoded: %v", is, err)
		}
		again, err := lifecycle.Patch(r.Context(), at, p)
		if err == nil && again.Changed() {
			t.Fatalf("the same patch again: %+v, then %+v", is, again.Events)
		}
	})
}
