package lifecycle_test

import (
	"fmt"
	"maps"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// TestOrderOfImports imports the same objects in two orders, in one session, while services work at any
// time: owners and dependents, namespaces and kinds that are being deleted and their contents, objects
// and their users, policies and what they protect, with references that name another group, another
// name or an owner that does not exist.
//
// R2: both lead to the same state. As in TestConfluent, no object has two owners, and what is used
// owns nothing. Kinds are registered before, because a request names the kind of its objects.
func TestOrderOfImports(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := lifecycletest.New()
		for _, spec := range []lifecycle.KindSpec{oldDeployment, gadget} {
			out, err := lifecycle.Create(r.Context(), lifecycle.Key{Kind: r.Kinds().Of(lifecycle.Group, "Kind")}, lifecycletest.Registration(spec))
			must.Succeed(t, err)
			r.Apply(out.Events)
		}
		objects := drawImported(t, r)
		other := r.Clone()
		importAll(t, r, objects)
		importAll(t, other, rapid.Permutation(objects).Draw(t, "order"))
		a, b := arrived(r), arrived(other)
		if !maps.Equal(a, b) {
			t.Fatalf("R2: left are\n%v\nor\n%v", a, b)
		}
	})
}

var (
	oldDeployment = lifecycle.KindSpec{
		Group: "extensions", Kind: "Deployment", Plural: "deployments", Scope: lifecycle.ScopeNamespaced, Versions: []lifecycle.KindVersion{{Name: "v1"}},
	}
	gadget = lifecycle.KindSpec{
		Group: "example.com", Kind: "Gadget", Plural: "gadgets", Scope: lifecycle.ScopeNamespaced, Versions: []lifecycle.KindVersion{{Name: "v1"}},
	}
)

// drawImported draws the objects of an import.
func drawImported(t *rapid.T, r *lifecycletest.Realm) (list []*coppicev1.Object) {
	add := func(apiVersion, kind, namespace, name, uid string, spec string) *coppicev1.ObjectMeta {
		o := &coppicev1.Object{ApiVersion: apiVersion, Kind: kind, Metadata: &coppicev1.ObjectMeta{Namespace: namespace, Name: name, Uid: uid}}
		if spec != "" {
			o.Spec = []byte(spec)
		}
		list = append(list, o)
		return o.Metadata
	}
	ends := func(meta *coppicev1.ObjectMeta) {
		if rapid.IntRange(0, 2).Draw(t, "terminating") > 0 {
			return
		}
		zero := int64(0)
		meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = timestamppb.New(r.Clock.Time()), &zero
	}
	for _, namespace := range []string{"a", "b"} {
		if rapid.Bool().Draw(t, "namespace") {
			ends(add("v1", "Namespace", "", namespace, "namespace-"+namespace, ""))
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
		n := r.Node(r.Kinds().Of(gadget.Group, gadget.Kind).UID)
		ends(add(n.APIVersion, n.Kind, "", n.Name, n.UID.String(), string(gadget.JSON())))
	}
	if rapid.IntRange(0, 2).Draw(t, "policy") == 0 {
		add(lifecycle.APIVersion, "ProtectionPolicy", "", "keep", "policy", `{"kind":"Pod","reason":"data"}`)
	}
	type owner struct{ apiVersion, kind, namespace, name, uid string }
	var owners, secrets []owner
	for i := range rapid.IntRange(1, 8).Draw(t, "objects") {
		kind := rapid.SampledFrom([]owner{
			{apiVersion: "apps/v1", kind: "Deployment"}, {apiVersion: "apps/v1", kind: "ReplicaSet"}, {apiVersion: "extensions/v1", kind: "Deployment"},
			{apiVersion: "v1", kind: "Pod"}, {apiVersion: "v1", kind: "Secret"}, {apiVersion: "example.com/v1", kind: "Gadget"},
		}).Draw(t, "resource")
		o := owner{kind.apiVersion, kind.kind, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprint("o", i), fmt.Sprint("uid-of-o", i)}
		meta := add(o.apiVersion, o.kind, o.namespace, o.name, o.uid, "")
		ends(meta)
		meta.Finalizers = rapid.SampledFrom([][]string{nil, nil, {"example.com/x"}, {"orphan"}, {"foregroundDeletion"}, {"foregroundDeletion", "example.com/x"}}).Draw(t, "finalizers")
		if len(owners) > 0 && rapid.IntRange(0, 3).Draw(t, "owned") > 0 {
			of := rapid.SampledFrom(owners).Draw(t, "owner")
			blocks := rapid.Bool().Draw(t, "blocks")
			switch rapid.IntRange(0, 5).Draw(t, "wrong") {
			case 0:
				if of.kind != gadget.Kind { // of which nothing is known once the kind is withdrawn
					of.name = "other"
				}
			case 1:
				of.uid, of.apiVersion, of.kind = "never", "v1", "ConfigMap"
			case 2:
				of.apiVersion = rapid.SampledFrom([]string{"extensions/v1", "apps/v1"}).Draw(t, "group")
			}
			meta.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: of.apiVersion, Kind: of.kind, Name: of.name, Uid: of.uid, BlockOwnerDeletion: &blocks}}
		}
		if len(secrets) > 0 && rapid.Bool().Draw(t, "user") {
			used := rapid.SampledFrom(secrets).Draw(t, "used")
			use := &coppicev1.Use{Kind: used.kind, Name: used.name}
			if rapid.Bool().Draw(t, "by uid") {
				use.Uid = used.uid
			}
			meta.Uses = []*coppicev1.Use{use}
		}
		if o.kind == "Secret" {
			secrets = append(secrets, o)
		} else {
			owners = append(owners, o)
		}
	}
	return list
}

// importAll imports objects in order, in one session that it closes afterwards. Between them, services may work in any
// order. Afterwards they work in one order: whether a namespace drains a dependent of an owner that waits, or the collector
// collects it before, depends on that.
func importAll(t *rapid.T, r *lifecycletest.Realm, objects []*coppicev1.Object) {
	work := func(order lifecycletest.Order) {
		r.Cover()
		r.Settle(order)
	}
	for _, o := range objects {
		kind := r.Kinds().Of(lifecycle.GroupOf(o.GetApiVersion()), o.GetKind())
		out, err := lifecycle.Import(r.Context(), lifecycle.Key{Kind: kind, Namespace: o.GetMetadata().GetNamespace()}, "s", o)
		must.Succeed(t, err)
		r.Apply(out.Events)
		r.TouchSession("s", false)
		if rapid.Bool().Draw(t, "work") {
			work(drawn(t))
		}
	}
	r.TouchSession("s", true)
	work(lifecycletest.InOrder)
	later(r)
	work(lifecycletest.InOrder)
}

// arrived is what is left of an import, without revisions and times.
func arrived(r *lifecycletest.Realm) map[string]string {
	all := left(r)
	for _, u := range r.UIDs() {
		if n := r.Node(u); !lifecycle.IsRegistration(n) {
			all[u.String()] += fmt.Sprint(n.Protected(), n.Uses)
		}
	}
	return all
}
