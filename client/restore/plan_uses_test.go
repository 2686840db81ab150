package restore_test

import (
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// B5.1: a use is pointed to the new uid, and the used object is created first.
func TestPlanUses(t *testing.T) {
	t.Parallel()
	w := shop(t)
	w.create("pods", &client.Object{Metadata: &client.ObjectMeta{
		Name: "a-user", Namespace: "shop", OwnerReferences: w.refs("deployments.apps/web"),
		Uses: []*coppicev1.Use{{Kind: "Pod", Name: "pod"}},
	}})
	p := w.undone(restore.Options{}, nil)
	check(t, p, "create deployments.apps/web", "create replicasets.apps/rs", "create pods/pod", "create pods/a-user", "give back configmaps/shared: web")
	w.carryOut(p, func() {})
	if u := w.get("pods/a-user").GetMetadata().GetUses()[0].GetUid(); u != w.uid("pods/pod").String() {
		t.Errorf("uses %s", u)
	}
}

// B5.5: a use of an object in another namespace refuses if the realm settings do not share the namespace, or is dropped.
func TestPlanUsesAcross(t *testing.T) {
	t.Parallel()
	w := shop(t)
	settings := func(spec string) {
		w.do(lifecycle.Apply(w.Context(), w.key("realms.coppice.dev", "", ""), &client.Object{
			Metadata: &client.ObjectMeta{Name: lifecycle.SettingsName}, Spec: []byte(spec),
		}))
	}
	settings(`{"sharedNamespaces":["infra"]}`)
	w.create("configmaps", &client.Object{Metadata: &client.ObjectMeta{Name: "net", Namespace: "infra"}})
	w.do(lifecycle.ApplyAcross(w.Context(), w.key("pods", "shop", ""), &client.Object{Metadata: &client.ObjectMeta{
		Name: "a-user", OwnerReferences: w.refs("deployments.apps/web"), Uses: []*coppicev1.Use{{Kind: "ConfigMap", Name: "net", Namespace: "infra"}},
	}}))
	before := w.Clone()
	revision := w.remove("deployments.apps", "shop", "web", lifecycle.Background)
	w.finish(memrealm.InOrder)
	plan := func(o restore.Options) *restore.Plan {
		in := w.input(w.cascade(revision), before, o)
		in.Shared = w.Settings().Shared.Has
		return restore.Build(in)
	}
	restored := []string{"create deployments.apps/web", "create pods/a-user", "create replicasets.apps/rs", "create pods/pod", "give back configmaps/shared: web"}
	check(t, plan(restore.Options{}), restored...)
	settings(`{"sharedNamespaces":["other"]}`)
	check(t, plan(restore.Options{}), "refused: pods/a-user (shop): it uses ConfigMap/net in namespace infra, which sharedNamespaces in the realm settings does not name; name it there, or use --drop-dangling")
	check(t, plan(restore.Options{DropDangling: true}), append(restored, "note: pods/a-user (shop): loses its use of ConfigMap/net in namespace infra")...)
	settings(`{"sharedNamespaces":["*"]}`)
	p := plan(restore.Options{})
	check(t, p, restored...)
	w.carryOut(p, func() {})
	if u := w.get("pods/a-user").GetMetadata().GetUses()[0]; u.GetUid() != w.find("configmaps", "infra", "net").String() || u.GetNamespace() != "infra" {
		t.Errorf("it uses %v", u)
	}
}
