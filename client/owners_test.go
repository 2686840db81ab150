package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func object(namespace, name, uid string) *coppicev1.Object {
	return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Namespace: namespace, Name: name, Uid: uid}}
}

// An object has one controller, and owners that can own it.
func TestSetOwners(t *testing.T) {
	t.Parallel()
	o, a, b := object("shop", "o", "o"), object("shop", "a", "a"), object("shop", "b", "b")
	for range 2 { // again changes nothing
		must.Succeed(t, client.SetControllerReference(a, o))
	}
	if err := client.SetControllerReference(b, o); !errors.Is(err, client.ErrAlreadyControlled) {
		t.Errorf("a second controller: %v", err)
	}
	must.Succeed(t, client.SetOwnerReference(b, o))
	refs := o.GetMetadata().GetOwnerReferences()
	if len(refs) != 2 || !refs[0].GetController() || !refs[0].GetBlockOwnerDeletion() || refs[1].GetController() || refs[1].GetBlockOwnerDeletion() {
		t.Errorf("the owners are %v", refs)
	}
	if c := client.ControllerOf(o); c.GetUid() != "a" || client.ControllerOf(a) != nil {
		t.Errorf("the controller is %v", c)
	}
	if !client.RemoveOwnerReference("a", o) || client.RemoveOwnerReference("a", o) || len(o.GetMetadata().GetOwnerReferences()) != 1 {
		t.Errorf("the owners are %v", o.GetMetadata().GetOwnerReferences())
	}
	for what, owner := range map[string]*coppicev1.Object{"elsewhere": object("other", "x", "x"), "without uid": object("shop", "x", "")} {
		if err := client.SetOwnerReference(owner, o); err == nil || errors.Is(err, client.ErrOwnerScope) != (what == "elsewhere") {
			t.Errorf("an owner %s: %v", what, err)
		}
	}
	if err := client.SetOwnerReference(a, object("", "cluster-scoped", "c")); !errors.Is(err, client.ErrOwnerScope) {
		t.Errorf("a namespaced owner of a cluster-scoped object: %v", err)
	}
	if err := client.SetOwnerReference(object("", "node", "n"), o); err != nil {
		t.Errorf("a cluster-scoped owner: %v", err)
	}
}

// An object uses objects of its namespace and cluster-scoped ones, each name once.
func TestAddUse(t *testing.T) {
	t.Parallel()
	o, net := object("shop", "vm", "vm"), object("shop", "net", "")
	again := object("shop", "net", "net-2")
	zone := &coppicev1.Object{ApiVersion: "example.com/v1", Kind: "Zone", Metadata: &coppicev1.ObjectMeta{Name: "a", Uid: "z"}}
	for _, used := range []*coppicev1.Object{net, zone, again} {
		must.Succeed(t, client.AddUse(used, o))
	}
	uses := o.GetMetadata().GetUses()
	want := []*client.Use{
		{Group: "example.com", Kind: "Zone", Name: "a", Uid: "z"},
		{Kind: "ConfigMap", Namespace: "shop", Name: "net", Uid: "net-2"},
	}
	if !slices.EqualFunc(uses, want, func(a, b *client.Use) bool { return proto.Equal(a, b) }) {
		t.Errorf("the uses are %v, want %v", uses, want)
	}
	if err := client.AddUse(object("other", "x", "x"), o); !errors.Is(err, client.ErrUseScope) || len(o.GetMetadata().GetUses()) != 2 {
		t.Errorf("an object of another namespace: %v, uses %v", err, o.GetMetadata().GetUses())
	}
	client.AddUseAcross(object("other", "net", "net-3"), o) // another object than the one of the same name in its own namespace
	client.AddUseAcross(object("other", "net", "net-4"), o)
	want = append(want, &client.Use{Kind: "ConfigMap", Namespace: "other", Name: "net", Uid: "net-4"})
	if uses := o.GetMetadata().GetUses(); !slices.EqualFunc(uses, want, func(a, b *client.Use) bool { return proto.Equal(a, b) }) {
		t.Errorf("the uses are %v, want %v", uses, want)
	}
}

// A controller adopts what matches and has none, and releases what it controls
// and does not match any more. One that is being deleted adopts nothing.
func TestAdopt(t *testing.T) {
	t.Parallel()
	s := start(t)
	objects := s.objects
	owner, other := s.create("owner", "example.com/x"), s.create("other")
	create := func(name, app string, controller *coppicev1.Object) {
		t.Helper()
		o := object("shop", name, "")
		o.Metadata.Labels = map[string]string{"app": app}
		if controller != nil {
			must.Succeed(t, client.SetControllerReference(controller, o))
		}
		s.Create(configMaps, "shop", o)
	}
	create("orphan", "web", nil)
	create("mine", "web", owner)
	create("lost", "db", owner)
	create("theirs", "web", other)
	adopt := func(want string) {
		t.Helper()
		done, err := client.Adopt(s.Ctx, objects, owner, objects, "app=web")
		if got := fmt.Sprint(done); err != nil || got != want {
			t.Errorf("did %s, %v; want %s", got, err, want)
		}
	}
	if done, err := client.Adopt(s.Ctx, objects, owner, objects, ""); !errors.Is(err, client.ErrBadRequest) || len(done.Adopted)+len(done.Released) > 0 {
		t.Errorf("an empty selector: did %v, %v", done, err)
	}
	adopt("{[orphan] [lost]}")
	adopt("{[] []}")
	if o, err := objects.Get(s.Ctx, "orphan"); err != nil || client.ControllerOf(o).GetUid() != owner.GetMetadata().GetUid() {
		t.Errorf("what was adopted is %v, %v", o, err)
	}
	s.delete("owner")
	create("late", "web", nil)
	adopt("{[] []}")
}

// People name kinds as with kubectl.
func TestKinds(t *testing.T) {
	t.Parallel()
	s := start(t)
	kinds, err := s.Kinds(s.Ctx)
	must.Succeed(t, err)
	for word, want := range map[string]string{
		"pods": "pods", "pod": "pods", "po": "pods", "Pod": "pods", "deploy": "deployments.apps", "deployments.apps": "deployments.apps",
		"kinds": "kinds.coppice.dev", "jobs.batch": "jobs.batch",
	} {
		if k, err := kinds.Find(word); err != nil || client.ResourceOf(k).String() != want {
			t.Errorf("%q is %v, %v; want %s", word, client.ResourceOf(k), err, want)
		}
	}
	for _, word := range []string{"widgets", "pods.apps", ""} {
		_, err := kinds.Find(word)
		refused(t, word, err, client.ErrUnknownKind)
	}
	if k, ok := kinds.Of("apps/v1", "Deployment"); !ok || !k.Namespaced() || kinds.ResourceName("apps/v1", "Deployment") != "deployments.apps" {
		t.Errorf("Deployment is %+v, %t", k, ok)
	}
	if _, ok := kinds.Of("v1", "Deployment"); ok || kinds.ResourceName("v1", "Widget") != "widget" || kinds.ResourceName("example.com/v1", "Widget") != "widget.example.com" {
		t.Error("the group does not matter")
	}
}
