package lifecycletest

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The world in which RandomEvents plays is small, so that names are taken
// again, references collide and cycles close.
var (
	resources  = []string{"deployments.apps", "replicasets.apps", "pods", "nodes"}
	namespaces = []string{"a", "b"}
	names      = []string{"x", "y", "z"}
	external   = []string{"example.com/one", "example.com/two"}
)

// RandomEvents draws one command, a user's or the collector's, decides it by
// the rules and returns its events, which it applies to the realm. There are
// none if the command was refused or changes nothing.
func (r *Realm) RandomEvents(t *rapid.T) []lifecycle.Event {
	r.Clock = r.Clock.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
	ctx := r.Context()
	events := r.random(t, ctx)
	r.Apply(events)
	return events
}

func (r *Realm) random(t *rapid.T, ctx *lifecycle.Context) []lifecycle.Event {
	var out *lifecycle.Outcome
	var err *lifecycle.Error
	switch rapid.IntRange(0, 9).Draw(t, "command") {
	case 0, 1, 2:
		at, o := r.drawObject(t)
		out, err = lifecycle.Create(ctx, at, o)
	case 3:
		at, o := r.drawObject(t)
		o.Metadata.Uid = r.drawUID(t).String()
		if rapid.Bool().Draw(t, "terminating") {
			o.Metadata.DeletionTimestamp = timestamppb.New(r.Clock.Time())
		}
		out, err = lifecycle.Import(ctx, at, "session", o)
	case 4:
		at, o := r.drawObject(t)
		out, err = lifecycle.Update(ctx, at, o)
	case 5, 6:
		at, o := r.drawObject(t)
		at.Name = o.GetMetadata().GetName()
		policy := rapid.SampledFrom([]string{"", lifecycle.Orphan, lifecycle.Background, lifecycle.Foreground}).Draw(t, "policy")
		out, err = lifecycle.Delete(ctx, at, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
	case 7:
		at, o := r.drawObject(t)
		at.Name = o.GetMetadata().GetName()
		f := rapid.SampledFrom(append([]string{lifecycle.FinalizerOrphan, lifecycle.FinalizerForeground}, external...)).Draw(t, "finalizer")
		out, err = lifecycle.RemoveFinalizer(ctx, at, f, nil)
	default:
		return r.drawCollector(t, ctx)
	}
	if err != nil {
		return nil
	}
	return out.Events
}

// drawCollector lets the collector do one thing that it is owed.
func (r *Realm) drawCollector(t *rapid.T, ctx *lifecycle.Context) []lifecycle.Event {
	uids := r.UIDs()
	n := r.Node(rapid.SampledFrom(uids).Draw(t, "object"))
	switch rapid.IntRange(0, 3).Draw(t, "work") {
	case 0:
		return lifecycle.Collect(ctx, n)
	case 1:
		return lifecycle.Strip(ctx, n)
	case 2:
		for i := range n.Owners {
			if owner := r.Node(n.Owners[i].UID); owner != nil {
				return lifecycle.OrphanFrom(ctx, owner, n)
			}
		}
		return nil
	}
	for _, f := range []string{lifecycle.FinalizerForeground, lifecycle.FinalizerOrphan} {
		if events := lifecycle.Finish(ctx, n, f); events != nil {
			return events
		}
	}
	return nil
}

func (r *Realm) drawObject(t *rapid.T) (lifecycle.Key, *coppicev1.Object) {
	kind := r.kinds.Resource(rapid.SampledFrom(resources).Draw(t, "resource"))
	at := lifecycle.Key{Kind: kind}
	if kind.Namespaced() {
		at.Namespace = rapid.SampledFrom(namespaces).Draw(t, "namespace")
	}
	o := &coppicev1.Object{
		ApiVersion: kind.APIVersion(), Kind: kind.Kind,
		Metadata: &coppicev1.ObjectMeta{
			Name:       rapid.SampledFrom(names).Draw(t, "name"),
			Finalizers: rapid.SliceOfN(rapid.SampledFrom(append([]string{lifecycle.FinalizerForeground}, external...)), 0, 2).Draw(t, "finalizers"),
		},
		Spec: fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 2).Draw(t, "spec")),
	}
	for range rapid.IntRange(0, 3).Draw(t, "owners") {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, r.drawReference(t))
	}
	return at, o
}

// drawReference draws an owner reference: mostly a true one, sometimes one
// that does not fit its owner, or names nobody, or a kind nobody knows.
func (r *Realm) drawReference(t *rapid.T) *coppicev1.OwnerReference {
	u := r.drawUID(t)
	ref := &coppicev1.OwnerReference{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", Uid: u.String()}
	if n := r.Node(u); n != nil {
		ref.ApiVersion, ref.Kind, ref.Name = n.APIVersion, n.Kind, n.Name
	}
	switch rapid.IntRange(0, 9).Draw(t, "lie") {
	case 0:
		ref.Name = rapid.SampledFrom(names).Draw(t, "owner name")
	case 1:
		ref.ApiVersion, ref.Kind = "example.com/v1", "Unheard"
	case 2:
		ref.ApiVersion = "apps/v9"
	}
	blocking := rapid.Bool().Draw(t, "blocking")
	ref.BlockOwnerDeletion = &blocking
	return ref
}

// drawUID draws the uid of an object that is there, was there, or might come.
func (r *Realm) drawUID(t *rapid.T) uid.UID {
	var uids []uid.UID
	for _, u := range r.UIDs() {
		if !lifecycle.IsRegistration(r.nodes[u]) {
			uids = append(uids, u)
		}
	}
	for u := range r.removed {
		uids = append(uids, u)
	}
	slices.Sort(uids)
	uids = append(uids, uid.MustParse("imported-1"), uid.MustParse("imported-2"))
	return rapid.SampledFrom(uids).Draw(t, "uid")
}
