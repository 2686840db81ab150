package explain

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// maxOwners is the maximum number of owners in a list: more would not be readable.
const maxOwners = 100

// owners lists the owners of an object, and below each its own owners.
func (e *explainer) owners(n *coppicev1.GraphNode, above *tree.Family, depth int, visited map[string]bool) {
	visited[tree.UIDOf(n)] = true
	for i, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
		if len(e.Owners) >= maxOwners {
			return
		}
		class := n.GetOwners()[i]
		as := Owner{
			Depth: depth, Of: tree.KeyOfNode(n), Owner: e.OwnerKey(r), UID: r.GetUid(), Class: terminal.Camel(class.GetClass().String(), "OWNER_CLASS_"),
			Why: class.GetWhy(), Controller: r.GetController(), Blocking: r.GetBlockOwnerDeletion(), class: class.GetClass(),
		}
		if class.GetUnknownUntil() != 0 {
			until := time.UnixMicro(class.GetUnknownUntil()).UTC()
			as.UnknownUntil = &until
		}
		owner := above.Nodes[r.GetUid()]
		if owner == nil || !tree.Present(class.GetClass()) {
			e.Owners = append(e.Owners, as)
			continue
		}
		as.Terminating = owner.GetObject().GetMetadata().GetDeletionTimestamp() != nil
		e.Owners = append(e.Owners, as)
		if !visited[r.GetUid()] {
			e.owners(owner, above, depth+1, visited)
		}
	}
}

// finalizersAndAgent reads the finalizers of the object, its agent, and the calls to them or their consumers.
func (e *explainer) finalizersAndAgent(ctx context.Context, o *coppicev1.Object, n *coppicev1.GraphNode) {
	m := o.GetMetadata()
	e.consumers.Read(ctx, n)
	for i, name := range m.GetFinalizers() {
		f := Finalizer{Name: name, BuiltIn: lifecycle.IsBuiltinFinalizer(name), Since: e.Since}
		f.text = lookup.BuiltInText(n, name)
		if !f.BuiltIn && i < terminal.Listed {
			consumer := e.consumers.Finalizer(ctx, name)
			f.Call, f.text = callOf(consumer, e.consumers.Call(n, name)), consumer.Text()
			if m.GetDeletionTimestamp() != nil {
				f.text = f.is.Text()
			}
		}
		e.Finalizers = append(e.Finalizers, f)
	}
	if m.GetDeletionGracePeriodSeconds() > 0 {
		e.Agent = &Agent{Until: m.GetDeletionTimestamp().AsTime(), Call: callOf(e.consumers.Agent(ctx, client.ResourceOf(e.kind)), e.consumers.Call(n, ""))}
	}
}

// maxBelow is the maximum number of dependents, direct and indirect, that are read to find
// blockers.
const maxBelow = 2000

// blockers finds the dependents, direct and indirect, that the object waits for and
// that do not wait for dependents themselves.
func (e *explainer) blockers(ctx context.Context, n *coppicev1.GraphNode) error {
	reply, err := e.Anything().ResolveUIDs(ctx, []string{tree.UIDOf(n)}, client.FollowDependents(true), client.Limit(maxBelow))
	if err != nil {
		return err
	}
	below := tree.NewFamily()
	for _, d := range reply.GetNodes() {
		below.Add(d)
	}
	e.Dependents.Truncated = reply.GetTruncated()
	e.dependents = map[string]bool{}
	for _, uid := range below.Below[tree.UIDOf(n)] {
		e.dependents[uid] = true
	}
	seen := map[string]bool{}
	var found []*coppicev1.GraphNode
	var visit func(n *coppicev1.GraphNode)
	visit = func(n *coppicev1.GraphNode) {
		seen[tree.UIDOf(n)] = true
		for _, uid := range below.Below[tree.UIDOf(n)] {
			d := below.Nodes[uid]
			if seen[uid] || !blocksDeletion(d, n) && !delaysUnmarked(d, n) {
				continue
			}
			if waiting(d) && !lookup.External(d) && d.GetBlockingDependents() > 0 {
				visit(d)
				continue
			}
			seen[uid] = true
			found = append(found, d)
		}
	}
	visit(n)
	e.consumers.Read(ctx, found...)
	for _, d := range found {
		e.Dependents.Blockers = append(e.Dependents.Blockers, Blocker{Object: tree.KeyOfNode(d), UID: tree.UIDOf(d), BlockedBy: e.blockedBy(ctx, d)})
	}
	slices.SortFunc(e.Dependents.Blockers, func(a, b Blocker) int { return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.UID, b.UID)) })
	return nil
}

// waiting reports whether an object is being deleted in the foreground: no other deletion waits for dependents.
func waiting(n *coppicev1.GraphNode) bool {
	m := n.GetObject().GetMetadata()
	return m.GetDeletionTimestamp() != nil && slices.Contains(m.GetFinalizers(), lifecycle.FinalizerForeground)
}

// blocksDeletion reports whether a dependent blocks its owner's deletion in
// the foreground.
func blocksDeletion(d, owner *coppicev1.GraphNode) bool {
	for i, r := range d.GetObject().GetMetadata().GetOwnerReferences() {
		if r.GetUid() == tree.UIDOf(owner) && r.GetBlockOwnerDeletion() && tree.Present(d.GetOwners()[i].GetClass()) {
			return true
		}
	}
	return false
}

// delaysUnmarked reports whether an owner waits for a dependent that does not block
// it, until the dependent is marked for deletion or has lost its reference.
func delaysUnmarked(d, owner *coppicev1.GraphNode) bool {
	if owner.GetPending().GetUnexamined() == 0 || d.GetObject().GetMetadata().GetDeletionTimestamp() != nil {
		return false
	}
	waits, solid, unknown := false, false, false
	for i, r := range d.GetObject().GetMetadata().GetOwnerReferences() {
		class := d.GetOwners()[i].GetClass()
		waits = waits || r.GetUid() == tree.UIDOf(owner) && class == coppicev1.OwnerClass_OWNER_CLASS_WAITING
		solid = solid || class == coppicev1.OwnerClass_OWNER_CLASS_SOLID
		unknown = unknown || class == coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN
	}
	return waits && (solid || !unknown)
}

// blockedBy says why a dependent still exists that its owner waits for.
func (e *explainer) blockedBy(ctx context.Context, d *coppicev1.GraphNode) string {
	if d.GetObject().GetMetadata().GetDeletionTimestamp() != nil {
		return e.consumers.BlockedBy(ctx, d)
	}
	if p := d.GetObject().GetMetadata().GetProtection(); p != nil {
		return "protected from deletion (" + printing.ProtectedBy(p) + ")"
	}
	for i, r := range d.GetObject().GetMetadata().GetOwnerReferences() {
		if o := d.GetOwners()[i]; o.GetClass() == coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN {
			return "kept, as its owner " + e.OwnerKey(r) + " is unknown" + tree.KeptUntilText(o, e.Now())
		}
	}
	for _, o := range d.GetOwners() {
		if o.GetClass() == coppicev1.OwnerClass_OWNER_CLASS_SOLID {
			return "about to lose its reference"
		}
	}
	if d.GetBraked() {
		return "its deletion is paused by the brake of " + d.GetResource()
	}
	return "about to be deleted"
}

// pendingOf describes the pending work of an object.
func (e *explainer) pendingOf(key string, o *coppicev1.ObjectWork) {
	if o == nil {
		return
	}
	add := func(what string, due *time.Time) {
		e.Pending = append(e.Pending, PendingWork{Object: key, What: what, Since: time.UnixMicro(o.GetSince()).UTC(), Due: due})
	}
	if o.GetEvaluate() {
		what := "dependents are to be evaluated"
		var due *time.Time
		switch {
		case o.EvaluateAt == nil:
			what += ", once more is known of their owners"
		case o.GetEvaluateAt() > 0:
			at := time.UnixMicro(o.GetEvaluateAt()).UTC()
			due = &at
		}
		add(what, due)
	}
	if o.GetOrphan() {
		add("dependents are to lose their references to it", nil)
	}
	if o.GetFinish() != "" {
		add(o.GetFinish()+" is to be removed", nil)
	}
	if o.GetUnexamined() > 0 {
		add(terminal.Count(int(o.GetUnexamined()), "dependent")+" not marked for deletion yet", nil)
	}
	if o.GetTerminate() {
		add("its agent is to confirm", nil)
	}
	if o.GetFinalize() {
		add("finalizers are to be answered", nil)
	}
}
