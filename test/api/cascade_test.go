package api_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func asError(err error, e **client.Error) bool { return errors.As(err, e) }

func (r *realm) delete(resource client.Resource, namespace, name, policy string) *client.DeleteResult {
	r.TB.Helper()
	return r.Delete(resource, namespace, name, client.PropagationPolicy(policy))
}

// C042, C058: a deletion removes three generations, in the background and in the
// foreground; an object with a second owner stays, without the reference.
func TestCascades(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Background", "Foreground"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			root := r.Create(deployments, "shop", named("web"))
			other := r.Create(deployments, "shop", named("other"))
			set := r.Create(replicasets, "shop", named("web-1", root))
			r.Create(pods, "shop", named("goes", set))
			r.Create(pods, "shop", named("stays", set, other))
			r.Create(pods, "shop", named("alone"))
			r.delete(deployments, "shop", "web", policy)
			r.Gone(deployments, "shop", "web")
			r.Gone(replicasets, "shop", "web-1")
			r.Gone(pods, "shop", "goes")
			owners := func() []*coppicev1.OwnerReference {
				return r.Get(pods, "shop", "stays").GetMetadata().GetOwnerReferences()
			}
			r.WaitFor("the reference to go", func() bool { return len(owners()) < 2 })
			if refs := owners(); len(refs) != 1 || refs[0].GetUid() != other.GetMetadata().GetUid() {
				t.Errorf("what stays has owners %v", refs)
			}
			r.Get(pods, "shop", "alone")
		})
	}
}

// C045: the references are removed, then the owner.
func TestOrphan(t *testing.T) {
	t.Parallel()
	r := start(t)
	root := r.Create(deployments, "shop", named("web"))
	set := r.Create(replicasets, "shop", named("web-1", root))
	r.Create(pods, "shop", named("pod", set))
	if res := r.delete(deployments, "shop", "web", "Orphan"); res.State != client.Pending {
		t.Errorf("%s, want Pending: it waits for its finalizer", res.State)
	}
	r.Gone(deployments, "shop", "web")
	if refs := r.Get(replicasets, "shop", "web-1").GetMetadata().GetOwnerReferences(); len(refs) != 0 {
		t.Errorf("the orphan has owners %v", refs)
	}
	if refs := r.Get(pods, "shop", "pod").GetMetadata().GetOwnerReferences(); len(refs) != 1 {
		t.Errorf("the orphan's dependent has owners %v", refs)
	}
}

// C049, A13: an owner that is deleted in the foreground waits for a dependent that an
// external finalizer blocks.
func TestForegroundWaits(t *testing.T) {
	t.Parallel()
	r := start(t)
	root := r.Create(deployments, "shop", named("web"))
	pod := named("pod", root)
	pod.Metadata.Finalizers = []string{"example.com/x"}
	r.Create(pods, "shop", pod)
	r.delete(deployments, "shop", "web", "Foreground")
	waitTerminating(r, pods, "shop", "pod")
	if o := r.Get(deployments, "shop", "web"); o.GetMetadata().GetDeletionTimestamp() == nil {
		t.Errorf("the owner is not terminating: %v", o)
	}
	if _, err := r.Resource(pods, "shop").RemoveFinalizer(r.Ctx, "pod", "example.com/x", client.Note("by hand")); err != nil {
		t.Fatal(err)
	}
	r.Gone(pods, "shop", "pod")
	r.Gone(deployments, "shop", "web")
}

func waitTerminating(r *realm, resource client.Resource, namespace, name string) {
	r.TB.Helper()
	r.WaitFor(name+" to be marked for deletion", func() bool {
		return r.Get(resource, namespace, name).GetMetadata().GetDeletionTimestamp() != nil
	})
}

// X05, A16: the owner of an invalid reference counts as absent, and the object that has
// the uid is not affected.
func TestInvalidReferences(t *testing.T) {
	t.Parallel()
	r := start(t)
	owner := r.Create(deployments, "shop", named("web"))
	foreign := named("foreign", owner)
	foreign.Metadata.Finalizers = []string{"example.com/x"}
	r.Create(pods, "elsewhere", foreign)
	misnamed := named("misnamed", owner)
	misnamed.Metadata.OwnerReferences[0].Name = "api"
	r.Create(pods, "shop", misnamed)
	unheard := named("unheard", owner)
	unheard.Metadata.OwnerReferences[0].Kind = "Unheard"
	r.Create(pods, "shop", unheard)
	r.Gone(pods, "shop", "misnamed")
	waitTerminating(r, pods, "elsewhere", "foreign")
	r.delete(deployments, "shop", "web", "Foreground")
	r.Gone(deployments, "shop", "web") // although the pod in the other namespace is still blocked
	r.Get(pods, "elsewhere", "foreign")
	if o := r.Get(pods, "shop", "unheard"); o.GetMetadata().GetDeletionTimestamp() != nil {
		t.Error("unknown is not absent")
	}
}

// C008: owners may come after their dependents while an import is under way.
func TestImportInAnyOrder(t *testing.T) {
	t.Parallel()
	r := start(t)
	const session = "11111111-1111-1111-1111-111111111111"
	pod := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{
		Name: "pod", Uid: "pod-uid", OwnerReferences: []*coppicev1.OwnerReference{
			{ApiVersion: "apps/v1", Kind: "Deployment", Name: "web", Uid: "web-uid"},
		},
	}}
	lost := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{
		Name: "lost", Uid: "lost-uid", OwnerReferences: []*coppicev1.OwnerReference{
			{ApiVersion: "apps/v1", Kind: "Deployment", Name: "nobody", Uid: "nobody-uid"},
		},
	}}
	if _, err := r.Resource(pods, "shop").ImportBatch(r.Ctx, session, []*coppicev1.Object{pod, lost}); err != nil {
		t.Fatal(err)
	}
	classes := func(name string) (coppicev1.OwnerClass, *coppicev1.GraphOwner) {
		reply, err := r.Resource(pods, "shop").Resolve(r.Ctx, []string{name})
		must.Succeed(t, err)
		o := reply.GetNodes()[0].GetOwners()[0]
		return o.GetClass(), o
	}
	if class, o := classes("pod"); class != coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN || o.GetUnknownUntil() == 0 {
		t.Errorf("before its owner comes: %v", o)
	}
	web := &coppicev1.Object{ApiVersion: "apps/v1", Kind: "Deployment", Metadata: &coppicev1.ObjectMeta{Name: "web", Uid: "web-uid"}}
	if _, err := r.Resource(deployments, "shop").ImportBatch(r.Ctx, session, []*coppicev1.Object{web}, client.CloseSession(true)); err != nil {
		t.Fatal(err)
	}
	if class, o := classes("pod"); class != coppicev1.OwnerClass_OWNER_CLASS_SOLID {
		t.Errorf("after its owner came: %v", o)
	}
	if class, o := classes("lost"); class != coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN {
		t.Errorf("an owner that was never seen, within its grace: %v", o)
	}
	r.delete(deployments, "shop", "web", "")
	r.Gone(pods, "shop", "pod")
	r.Get(pods, "shop", "lost")
}

// An owner that was never seen is unknown for the time ownerGrace of the realm settings. A
// change of the setting also applies to references that exist already.
func TestOwnerGrace(t *testing.T) {
	t.Parallel()
	r := start(t)
	lost := named("lost")
	lost.Metadata.Uid = "lost-uid"
	lost.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "apps/v1", Kind: "Deployment", Name: "nobody", Uid: "nobody-uid"}}
	if _, err := r.Resource(pods, "shop").ImportBatch(r.Ctx, "22222222-2222-2222-2222-222222222222", []*coppicev1.Object{lost}, client.CloseSession(true)); err != nil {
		t.Fatal(err)
	}
	set := func(grace string) {
		t.Helper()
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: fmt.Appendf(nil, `{"ownerGrace":%q}`, grace)}
		if _, err := r.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Apply(r.Ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	until := func() int64 {
		t.Helper()
		reply, err := r.Resource(pods, "shop").Resolve(r.Ctx, []string{"lost"})
		must.Succeed(t, err)
		return reply.GetNodes()[0].GetOwners()[0].GetUnknownUntil()
	}
	before := until()
	set("20m")
	if waits := time.Duration(until()-before) * time.Microsecond; waits != 10*time.Minute {
		t.Errorf("with a grace of 20m instead of 10m it waits longer by %s", waits)
	}
	set("0s")
	r.Gone(pods, "shop", "lost")
}
