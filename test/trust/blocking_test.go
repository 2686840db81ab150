package trust_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// The users may write configmaps in shop by every verb. What they may do about deployments differs.
const blockers = `
version: 1
namespaces: [shop, prod]
roles:
  writer:
    - {verbs: [read, create, update, patch, apply, applyacross, import, restore], kinds: [configmaps]}
users:
  plain: {roles: [writer], namespaces: [shop]}
  elsewhere:
    roles: [writer]
    namespaces: [shop]
    may: [{verbs: [delete, blockowner], kinds: [deployments.apps], namespaces: [prod]}, {verbs: [update, deletecollection], kinds: [deployments.apps]}]
  deleter:
    roles: [writer]
    namespaces: [shop]
    may: [{verbs: [delete], kinds: [deployments.apps]}]
  blocker:
    roles: [writer]
    namespaces: [shop]
    may: [{verbs: [blockowner], kinds: [deployments.apps]}]
  nodes:
    roles: [writer]
    namespaces: [shop]
    may: [{verbs: [blockowner], kinds: [nodes, deployments.apps], namespaces: [_]}]
  everything:
    roles: [operator]
`

// blockedTest has an owner in namespace shop, and one without namespace.
type blockedTest struct {
	*realm
	owner, node *coppicev1.Object
	n           int
}

func startBlocked(t *testing.T) *blockedTest {
	t.Helper()
	f, err := access.Parse("users.yaml", []byte(blockers))
	must.Succeed(t, err)
	r := &blockedTest{realm: startWith(t, allinone.Config{Auth: true, Users: f})}
	r.Client = client.New(r.conn(bus.RoleOperator), client.WithActor(bus.RoleOperator))
	r.owner = r.Create(client.ParseResource("deployments.apps"), "shop", stack.Named("web"))
	r.node = r.Create(client.ParseResource("nodes"), "", stack.Named("node"))
	return r
}

// demand sets the realm setting.
func (r *blockedTest) demand(value string) {
	r.TB.Helper()
	_, err := r.Resource(client.ParseResource("realms.coppice.dev"), "").Apply(r.Ctx, &client.Object{
		Metadata: &client.ObjectMeta{Name: "settings"}, Spec: []byte(`{"blockOwnerDeletion":"` + value + `"}`),
	})
	must.Succeed(r.TB, err)
}

// as returns the configmaps in shop, for a user.
func (r *blockedTest) as(user string) client.ResourceClient {
	r.TB.Helper()
	return client.New(r.conn(user), client.WithActor(user)).Resource(client.ParseResource("configmaps"), "shop")
}

// object returns a configmap with another name than all before.
func (r *blockedTest) object(owners ...*coppicev1.Object) *coppicev1.Object {
	r.n++
	return stack.Named(fmt.Sprint("c", r.n), owners...)
}

// blockingVerbs write an object that blocks an owner, each by another verb, and return its name. Those that change an object
// change one whose reference does not block.
var blockingVerbs = map[string]func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (name string, err error){
	"create": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.object(owner)
		_, err := c.Create(r.Ctx, o)
		return o.Metadata.Name, err
	},
	"update": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.unblocked(owner)
		o.Metadata.OwnerReferences[0].BlockOwnerDeletion = new(true)
		_, err := c.Update(r.Ctx, o)
		return o.Metadata.Name, err
	},
	"patch": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.unblocked(owner)
		_, err := c.Patch(r.Ctx, o.Metadata.Name, fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":true}]}}`,
			owner.GetApiVersion(), owner.GetKind(), owner.GetMetadata().GetName(), owner.GetMetadata().GetUid()))
		return o.Metadata.Name, err
	},
	"apply": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := stack.Named(r.unblocked(owner).GetMetadata().GetName(), owner)
		_, err := c.Apply(r.Ctx, o)
		return o.Metadata.Name, err
	},
	"applyacross": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.object(owner)
		_, err := c.ApplyAcross(r.Ctx, o)
		return o.Metadata.Name, err
	},
	"import": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.object(owner)
		o.Metadata.Uid = "uid-" + o.Metadata.Name
		results, err := c.ImportBatch(r.Ctx, "session", []*coppicev1.Object{o})
		return o.Metadata.Name, refusedBy(results, err)
	},
	"restore of a removed object": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.object(owner)
		o.Metadata.Uid = "uid-" + o.Metadata.Name
		results, err := c.RestoreBatch(r.Ctx, "session", []*client.Restored{{Object: o, Deletion: 1}})
		return o.Metadata.Name, refusedBy(results, err)
	},
	"restore of references": func(r *blockedTest, c client.ResourceClient, owner *coppicev1.Object) (string, error) {
		o := r.unblocked(owner)
		o.Metadata.OwnerReferences[0].BlockOwnerDeletion = new(true)
		results, err := c.RestoreBatch(r.Ctx, "session", []*client.Restored{{Object: o, Deletion: 1}})
		return o.Metadata.Name, refusedBy(results, err)
	},
}

// refusedBy returns the refusal of a command on one object.
func refusedBy(results []client.Result, err error) error {
	if err == nil && len(results) == 1 {
		err = results[0].Err
	}
	return err
}

// unblocked creates an object that does not block its owner.
func (r *blockedTest) unblocked(owner *coppicev1.Object) *coppicev1.Object {
	r.TB.Helper()
	o := r.object(owner)
	o.Metadata.OwnerReferences[0].BlockOwnerDeletion = nil
	return r.Create(client.ParseResource("configmaps"), "shop", o)
}

// blocks reports whether an object exists and blocks an owner.
func (r *blockedTest) blocks(name string) bool {
	r.TB.Helper()
	o, err := r.Resource(client.ParseResource("configmaps"), "shop").Get(r.Ctx, name)
	if errors.Is(err, client.ErrNotFound) {
		return false
	}
	must.Succeed(r.TB, err)
	return slices.ContainsFunc(o.GetMetadata().GetOwnerReferences(), func(ref *coppicev1.OwnerReference) bool { return ref.GetBlockOwnerDeletion() })
}

// B11.1: a user who may write an object sets blockOwnerDeletion, by any verb, only for owners that it may delete or block, if the realm
// settings say so. Actors that the users file does not name may set it.
func TestBlockOwnerDeletion(t *testing.T) {
	t.Parallel()
	r := startBlocked(t)
	for _, demanded := range []bool{false, true} {
		if demanded {
			r.demand("permitted")
		}
		for user, may := range map[string][2]bool{ // the owner in shop, and the one without namespace
			"plain": {}, "elsewhere": {}, "deleter": {true, false}, "blocker": {true, false}, "nodes": {false, true}, "everything": {true, true}, bus.RoleOperator: {true, true},
		} {
			c := r.as(user)
			for i, owner := range []*coppicev1.Object{r.owner, r.node} {
				for verb, write := range blockingVerbs {
					name, err := write(r, c, owner)
					kind := owner.GetKind()
					switch allowed := may[i] || !demanded; {
					case allowed && err != nil:
						t.Errorf("%s, demanded is %t: %s for a %s: %v", user, demanded, verb, kind, err)
					case allowed != r.blocks(name):
						t.Errorf("%s, demanded is %t: %s for a %s: the object blocks its owner, %t, want %t (%v)", user, demanded, verb, kind, !allowed, allowed, err)
					case !allowed && !saysWhy(err, user, name, owner):
						t.Errorf("%s: %s for a %s: %v", user, verb, kind, err)
					}
				}
			}
		}
	}
}

// saysWhy reports whether a refusal names the object, the owner, the rule, and what to do.
func saysWhy(err error, user, name string, owner *coppicev1.Object) bool {
	if !errors.Is(err, client.ErrForbidden) {
		return false
	}
	for _, part := range []string{
		fmt.Sprintf("configmaps %q in namespace \"shop\"", name), "user " + user, fmt.Sprintf("%q", owner.GetMetadata().GetName()),
		`blockOwnerDeletion is "permitted"`, "verb delete or blockowner", "write blockOwnerDeletion: false",
	} {
		if !strings.Contains(err.Error(), part) {
			return false
		}
	}
	return true
}

// B11.2: a reference that blocks its owner stays when a user without permission writes the object, and such a user may remove it or
// unset the flag, but not set it again.
func TestBlockOwnerDeletionStays(t *testing.T) {
	t.Parallel()
	r := startBlocked(t)
	r.demand("permitted")
	c := r.as("plain")
	o := r.Create(client.ParseResource("configmaps"), "shop", r.object(r.owner))
	update := func(change func(m *coppicev1.ObjectMeta)) error {
		next := proto.CloneOf(o)
		next.Metadata.ResourceVersion = 0
		change(next.Metadata)
		updated, err := c.Update(r.Ctx, next)
		if err == nil {
			o = r.Get(client.ParseResource("configmaps"), "shop", updated.GetMetadata().GetName())
		}
		return err
	}
	set := func(value *bool) func(m *coppicev1.ObjectMeta) {
		return func(m *coppicev1.ObjectMeta) { m.OwnerReferences[0].BlockOwnerDeletion = value }
	}
	for _, step := range []struct {
		what   string
		change func(m *coppicev1.ObjectMeta)
		denied bool
	}{
		{"a label", func(m *coppicev1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }, false},
		{"another owner that is not blocked", func(m *coppicev1.ObjectMeta) {
			m.OwnerReferences = append(m.OwnerReferences, client.NewOwnerReference(r.node))
		}, false},
		{"another owner that is blocked", func(m *coppicev1.ObjectMeta) { m.OwnerReferences[1].BlockOwnerDeletion = new(true) }, true},
		{"false", set(new(false)), false},
		{"true again", set(new(true)), true},
		{"no value", set(nil), false},
		{"true again", set(new(true)), true},
		{"no owners", func(m *coppicev1.ObjectMeta) { m.OwnerReferences = nil }, false},
	} {
		err := update(step.change)
		if denied := errors.Is(err, client.ErrForbidden); denied != step.denied || err != nil && !denied {
			t.Errorf("%s: %v; denied should be %t", step.what, err, step.denied)
		}
	}
}

// B11.4: each object of a batch is refused by itself, and none is written of an atomic batch.
func TestBlockOwnerDeletionOfBatch(t *testing.T) {
	t.Parallel()
	r := startBlocked(t)
	r.demand("permitted")
	c := r.as("plain")
	batch := func() []*coppicev1.Object {
		list := []*coppicev1.Object{r.object(), r.object(r.owner), r.object(r.owner), r.object()}
		list[2].Metadata.OwnerReferences[0].BlockOwnerDeletion = new(false)
		return list
	}
	list := batch()
	results, err := c.CreateBatch(r.Ctx, list)
	must.Succeed(t, err)
	for i, result := range results {
		if denied := errors.Is(result.Err, client.ErrForbidden); denied != (i == 1) || !denied && result.Err != nil {
			t.Errorf("object %d: %v", i, result.Err)
		}
	}
	if len(results) != len(list) {
		t.Errorf("%d results", len(results))
	}
	before := r.revision()
	if _, err := c.CreateBatch(r.Ctx, batch(), client.Atomic(true)); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("an atomic batch: %v", err)
	}
	if after := r.revision(); after != before {
		t.Errorf("revision %d became %d", before, after)
	}
}
