package lifecycle

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Import decides an import of one object: it keeps its uid, timestamps,
// deletion state and status. Objects may come in any order and more than once;
// until the session closes, owners that were never seen are unknown.
func Import(ctx *Context, at Key, session string, o *coppicev1.Object) (*Outcome, *Error) {
	at, o, err := target(at, o)
	if err != nil {
		return nil, err
	}
	meta := o.GetMetadata()
	if meta == nil {
		meta = &coppicev1.ObjectMeta{}
	}
	u, causes := validateImported(meta)
	var was *Node
	if u != "" {
		was = ctx.Node(u)
	}
	var keeps []string
	if was != nil && (meta.GetDeletionTimestamp() != nil || !was.Terminating()) { // otherwise all are kept: see reimport
		o, keeps = keepExternal(ctx, was, o)
		meta = o.GetMetadata()
	}
	causes = append(validateKey(at, meta), causes...)
	owners, warnings := dedupOwners(meta.GetOwnerReferences())
	warnings = append(keeps, warnings...)
	causes = append(causes, validateMeta(meta, owners)...)
	causes = append(causes, keepsTooMany(keeps, meta.GetFinalizers())...)
	causes = append(causes, validateImportedInitializers(at, meta)...)
	causes = append(causes, validateExpiry(at, meta)...)
	o, duplicates, notJSON := normalJSON(o)
	warnings, causes = append(warnings, duplicates...), append(causes, notJSON...)
	warnings = append(warnings, protectionWarnings(meta)...)
	if len(notJSON) == 0 {
		causes = append(causes, validateGoverning(ctx.View, at, o, was)...)
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	if err := checkSize(ctx, at, objectcodec.WrittenSize(o)); err != nil {
		return nil, err
	}
	here := Coordinates{Group: at.Kind.Group, Kind: at.Kind.Kind, Name: at.Name, Namespace: at.Namespace}
	if was != nil && was.Coordinates() != here {
		return nil, errConflict(at, "uid %s belongs to %s", u, KeyOf(ctx.View, was))
	}
	if revision, same := ctx.Removed(u, here); was == nil && revision != 0 && !same {
		return nil, errConflict(at, "uid %s belonged to another object, which was removed at revision %d; a uid is never used again (S6)", u, revision)
	}
	if current := ctx.Lookup(at.Kind, at.Namespace, at.Name); current != "" && current != u {
		e := errAlreadyExists(at, ctx.Node(current))
		e.Message += fmt.Sprintf("; it has uid %s, and the manifest has uid %s: delete it first", current, u)
		return nil, e
	}

	node := &Node{
		UID:           u,
		APIVersion:    o.GetApiVersion(),
		Kind:          o.GetKind(),
		Namespace:     at.Namespace,
		Name:          at.Name,
		Generation:    max(meta.GetGeneration(), 1),
		CreationTime:  timeOfProto(meta.GetCreationTimestamp()),
		Owners:        ownersOf(owners),
		Finalizers:    withoutFinalizer(meta.GetFinalizers(), FinalizerContents), // added below if the container has contents
		DeletionTime:  timeOfProto(meta.GetDeletionTimestamp()),
		GracePeriod:   meta.DeletionGracePeriodSeconds,
		ImportTime:    ctx.Now,
		ImportSession: session,
		Initializers:  pendingOf(meta.GetInitializers()),

		InitializationFailed: meta.GetInitializers().GetResult() != nil,
		Uses:                 usesOf(meta.GetUses()),
		ExpiresAt:            expiryOf(meta),
	}
	if !node.Terminating() {
		node.GracePeriod = nil
		node.Finalizers = withoutFinalizer(node.Finalizers, FinalizerInUse)
	}
	if !node.Terminating() || !IsPolicy(node) {
		node.Finalizers = withoutFinalizer(node.Finalizers, FinalizerProtection) // nothing would remove it
	}
	if err := bindUses(ctx, at, was, node, true); err != nil {
		return nil, err
	}
	used := usedInSession(ctx.View, was, node)
	body := bodyOf(o)
	derive(node, at.Kind, body)
	warnings = append(warnings, checkImported(ctx, was, node)...)
	if was != nil {
		out, err := reimport(ctx, at, was, node, body, warnings)
		if err == nil && out.Changed() {
			out.Events = append(used, out.Events...)
		}
		return out, err
	}
	if err := checkStays(ctx, at, session); err != nil {
		return nil, err
	}
	if node.CreationTime == 0 {
		node.CreationTime = ctx.Now
	}
	awaitObserved(node, at.Kind)
	binds := bound(ctx.View, node)
	if IsPolicy(node) {
		beginPolicy(ctx, body)
	}
	cover(ctx.View, at.Kind, node, body)
	if node.Terminating() {
		node.Finalizers = withProtection(node, withContents(ctx.View, node, withLaterContents(node, node.Finalizers)))
	}
	if node.Terminating() && len(node.Finalizers) == 0 && node.graceOver() {
		// It was being deleted and nothing blocked its removal. Users do not count, because they may
		// be imported before it or after (R2).
		return &Outcome{Code: 200, Object: Object{Node: node, Body: body},
			Warnings: append(warnings, "not imported: the object was being deleted and nothing blocked it")}, nil
	}
	if node.Terminating() && (len(binds) > 0 || ctx.Users(node).All > 0) {
		node.Finalizers = addInUse(node.Finalizers)
	}
	return &Outcome{Code: 201, Warnings: warnings, Object: Object{Body: body}, Events: append(append(used, binds...), Event{
		Type: ObjectCreated, UID: u, Reason: coppicev1.Reason_REASON_REQUESTED, Object: Object{Node: node, Body: body},
	})}, nil
}

// maxGeneration leaves room for a generation that is imported to count on.
const maxGeneration = 1 << 62

// validateImported checks what only import takes from a client.
func validateImported(meta *coppicev1.ObjectMeta) (u uid.UID, causes []Cause) {
	if meta.GetUid() == "" {
		causes = append(causes, required("metadata.uid", "import keeps uids; use apply for manifests without one"))
	} else if parsed, err := uid.Parse(meta.GetUid()); err != nil {
		causes = append(causes, invalidValue("metadata.uid", meta.GetUid(), err.Error()))
	} else {
		u = parsed
	}
	for _, f := range []struct {
		field string
		at    *timestamppb.Timestamp
	}{
		{"metadata.creationTimestamp", meta.GetCreationTimestamp()}, {"metadata.deletionTimestamp", meta.GetDeletionTimestamp()},
	} {
		if f.at != nil && !f.at.IsValid() {
			causes = append(causes, invalidValue(f.field, f.at.GetSeconds(), "must be between the years 1 and 9999"))
		}
	}
	if g := meta.DeletionGracePeriodSeconds; g != nil && *g < 0 {
		causes = append(causes, invalidValue("metadata.deletionGracePeriodSeconds", *g, "must be greater than or equal to 0"))
	}
	if g := meta.DeletionGracePeriodSeconds; g != nil {
		causes = append(causes, checkGrace("metadata.deletionGracePeriodSeconds", *g)...)
	}
	switch g := meta.GetGeneration(); {
	case g < 0:
		causes = append(causes, invalidValue("metadata.generation", g, "must be greater than or equal to 0"))
	case g > maxGeneration:
		causes = append(causes, invalidValue("metadata.generation", g, fmt.Sprintf("must be less than or equal to %d", int64(maxGeneration))))
	}
	return u, causes
}

// reimport updates an existing object to the imported manifest. It does not undo a deletion (S4).
// It keeps a creation time within the same second, and the creation time and the generation if
// the manifest has none.
func reimport(ctx *Context, at Key, was, node *Node, body *coppicev1.Body, warnings []string) (*Outcome, *Error) {
	if node.CreationTime == 0 || node.CreationTime.proto().GetSeconds() == was.CreationTime.proto().GetSeconds() {
		node.CreationTime = was.CreationTime
	}
	if was.Terminating() {
		if !node.Terminating() {
			node.Finalizers = was.Finalizers // the manifest knows nothing of the deletion
		} else if causes := validateShrinking(was, node.Finalizers); causes != nil {
			return nil, invalid(at, causes)
		}
		node.Finalizers = keepProtection(was, keepInUse(was, keepContents(was, node.Finalizers)))
		node.DeletionTime, node.GracePeriod, node.DeletionRevision = was.DeletionTime, was.GracePeriod, was.DeletionRevision
		node.AwaitedGeneration = was.AwaitedGeneration
		if was.Draining() && ctx.Now >= sessionEnd(ctx.View, was) && !was.Orphaning() && !was.Waiting() && !was.InUse() {
			node.ImportSession = was.ImportSession // it accepts no contents, whether they come before it or after
		}
	}
	node.Protection = was.Protection
	if node.Terminating() && !was.Terminating() {
		if was.Protected() {
			return nil, errProtected(ctx.View, at, was) // B2.1
		}
		node.Finalizers = withProtection(was, withInUse(ctx.View, was, withContents(ctx.View, was, withLaterContents(node, node.Finalizers)))) // it is a DELETE by other means
	}
	if IsRegistration(was) {
		node.ImportTime = was.Appeared() // since when the kind is known does not change
	}
	node.Generation = max(node.Generation, was.Generation)
	if !was.Terminating() {
		awaitObserved(node, at.Kind)
	}
	old := ctx.Body(was)
	keepInitialized(was, old, node, body)
	out := &Outcome{Code: 200, Object: Object{Node: was, Body: old}, Warnings: warnings}
	if node.Terminating() && len(node.Finalizers) == 0 && node.graceOver() {
		// Nothing blocks its removal any more.
		event := deleted(was, coppicev1.Reason_REASON_REQUESTED, 0)
		if was.Terminating() {
			event = deleted(was, coppicev1.Reason_REASON_FINALIZED, was.DeletionRevision)
		}
		out.Events = []Event{event}
		out.Warnings = append(out.Warnings, "removed: the object was being deleted and nothing blocked it")
		return out, nil
	}
	if keepEqualJSON(&body.Spec, old.GetSpec()) && at.Kind.Group == Group && at.Kind.Kind == "ExpiryPolicy" {
		node.Generation = max(node.Generation, was.Generation+1) // so that its notices do not count any more (B6.7)
	}
	keepEqualJSON(&body.Status, old.GetStatus())
	keepEqualJSON(&body.Extra, old.GetExtra())
	body.Applied = old.GetApplied()
	out.Warnings = append(out.Warnings, keepApplied(ctx, body, objectcodec.Size(Object{Node: node, Body: body}.API()))...)
	if IsPolicy(was) {
		policyStatus(ctx, was, node, body, old)
	}
	sameBody := proto.Equal(body, old)
	if !sameBody || was.Uninitialized() != node.Uninitialized() {
		cover(ctx.View, at.Kind, node, body)
	}
	if sameBody {
		node.Grace, node.ObservedGeneration = was.Grace, was.ObservedGeneration
	}
	if sameBody && sameNode(was, node) && was.DeletionTime == node.DeletionTime && was.CreationTime == node.CreationTime &&
		(was.ImportSession == node.ImportSession || !awaitsSession(ctx.View, node)) {
		return out, nil
	}
	event := Event{Type: ObjectUpdated, UID: was.UID, Reason: coppicev1.Reason_REASON_REQUESTED, Object: Object{Node: node}}
	if !sameBody {
		event.Object.Body = body
		out.Object.Body = body
	}
	out.Events = []Event{event}
	return out, nil
}

// awaitObserved makes the built-in finalizers of an object that is imported while it is being
// deleted wait until its controller has seen the deletion, if the kind reports that.
func awaitObserved(n *Node, k *Kind) {
	if n.Terminating() && k.ObservesGeneration {
		n.AwaitedGeneration = n.Generation
	}
}

// awaitsSession reports whether n must keep the id of its import session: an owner of n does not
// exist, and the session may still import it; or n has a built-in finalizer that must not be
// removed while the session may import dependents, users or contents.
func awaitsSession(v View, n *Node) bool {
	return n.HasFinalizer(FinalizerOrphan) || n.HasFinalizer(FinalizerForeground) || n.HasFinalizer(FinalizerInUse) || n.HasFinalizer(FinalizerContents) ||
		slices.ContainsFunc(n.Owners, func(r OwnerReference) bool { return v.Node(r.UID) == nil })
}
