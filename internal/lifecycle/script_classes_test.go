package lifecycle_test

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ownerState is what has become of an owner when a reference to it is
// classified, and what the reference says that is not so.
type ownerState struct {
	name string
	// finalizers of the owner, and the policy with which it is deleted, if so.
	finalizers []string
	delete     string
	elsewhere  bool // the owner is in another namespace than its dependent
	never      bool // there is no such owner
	lie        func(*coppicev1.OwnerReference)
}

func ownerStates() []ownerState {
	unheardOf := func(r *coppicev1.OwnerReference) { r.ApiVersion, r.Kind = "example.com/v1", "Unheard" }
	version := func(r *coppicev1.OwnerReference) { r.ApiVersion = "v9" }
	name := func(r *coppicev1.OwnerReference) { r.Name = "other" }
	kind := func(r *coppicev1.OwnerReference) { r.ApiVersion, r.Kind = "apps/v1", "ReplicaSet" }
	return []ownerState{
		{name: "live"},
		{name: "live, version not served", lie: version},
		{name: "terminating", finalizers: []string{custom}, delete: lifecycle.Background},
		{name: "waiting", delete: lifecycle.Foreground},
		{name: "orphaning", delete: lifecycle.Orphan},
		{name: "has foregroundDeletion, not terminating", finalizers: []string{lifecycle.FinalizerForeground}},
		{name: "removed", delete: lifecycle.Background},
		{name: "removed, version not served", delete: lifecycle.Background, lie: version},
		{name: "never seen", never: true},
		{name: "never seen, version not served", never: true, lie: version},
		{name: "never seen, kind not registered", never: true, lie: unheardOf},
		{name: "live, other name", lie: name},
		{name: "live, other kind", lie: kind},
		{name: "live, kind not registered", lie: unheardOf},
		{name: "waiting, other name", delete: lifecycle.Foreground, lie: name},
		{name: "removed, other name", delete: lifecycle.Background, lie: name},
		{name: "live in another namespace", elsewhere: true},
		{name: "waiting in another namespace", elsewhere: true, delete: lifecycle.Foreground},
		{name: "removed in another namespace", elsewhere: true, delete: lifecycle.Background},
	}
}

// classifyTable classifies references to an owner in each state, from
// dependents of both scopes, created and imported: classify-table
// owner=pods. Times in brackets say how long unknown lasts.
func classifyTable(_ *script, a *args) string {
	owner := a.text("owner")
	rows := [][]string{{"the owner is", "namespaced", "imported", "cluster-scoped", "imported"}}
	for _, state := range ownerStates() {
		row := []string{state.name}
		for _, dependent := range []string{"configmaps", "nodes"} {
			for _, imported := range []bool{false, true} {
				row = append(row, classCell(a, owner, dependent, state, imported))
			}
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func classCell(a *args, ownerResource, dependentResource string, state ownerState, imported bool) string {
	a.t.Helper()
	r := lifecycletest.New()
	r.Clock = r.Clock.Add(1e9) // the kinds are older than the objects
	key := func(resource, namespace string) lifecycle.Key {
		k := lifecycle.Key{Kind: r.Kinds().Resource(resource)}
		if k.Kind.Namespaced() {
			k.Namespace = namespace
		}
		return k
	}
	at := key(ownerResource, "shop")
	if state.elsewhere {
		if !at.Kind.Namespaced() {
			return ""
		}
		at.Namespace = "elsewhere"
	}
	ref := &coppicev1.OwnerReference{ApiVersion: at.Kind.APIVersion(), Kind: at.Kind.Kind, Name: "owner", Uid: "never"}
	if !state.never {
		ref.Uid = created(a, r, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "owner", Finalizers: state.finalizers}}).String()
	}
	if state.lie != nil {
		state.lie(ref)
	}
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "dependent", OwnerReferences: []*coppicev1.OwnerReference{ref}}}
	where := key(dependentResource, "shop")
	if imported {
		o.Metadata.Uid = "dependent"
		out, err := lifecycle.Import(r.Context(), where, "", o)
		must.Succeed(a.t, err)
		r.Apply(out.Events)
	} else {
		created(a, r, where, o)
	}
	if state.delete != "" {
		at.Name = "owner"
		out, err := lifecycle.Delete(r.Context(), at, "", &coppicev1.DeleteOptions{PropagationPolicy: state.delete})
		must.Succeed(a.t, err)
		r.Apply(out.Events)
	}
	n := r.Node(r.Lookup(where.Kind, where.Namespace, "dependent"))
	c := lifecycle.Classify(r, n, &n.Owners[0], r.Clock)
	if again := lifecycle.Classify(r, n, &n.Owners[0], r.Clock); again != c {
		return "NOT THE SAME TWICE"
	}
	if c.Until != 0 {
		return fmt.Sprintf("%s [%s]", class(c.Class), c.Until.Time().Sub(r.Clock.Time()))
	}
	return class(c.Class)
}
