package lifecycle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const generateRetry = 100 * time.Millisecond

// Update decides an update (A2): everything but status is replaced. Removing
// the last finalizer of a terminating object removes the object (A2.10).
// Removing the last initializer makes the object visible; if an initializer
// reports a failure, the object is deleted (A8).
func Update(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	return update(ctx, at, o, nil)
}

// update is Update with the record of an apply; nil to keep the stored one.
func update(ctx *Context, at Key, o *coppicev1.Object, applied *[]byte) (*Outcome, *Error) {
	at, o, err := target(at, o)
	if err != nil {
		return nil, err
	}
	if err := checkNamed(at); err != nil {
		return nil, err
	}
	was, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(at, was, &coppicev1.Preconditions{
		Uid: o.GetMetadata().GetUid(), ResourceVersion: o.GetMetadata().GetResourceVersion(),
	}); err != nil {
		return nil, err // A2.1, A2.2
	}
	o, keeps := keepExternal(ctx, was, o)
	meta := o.GetMetadata()
	old := ctx.Body(was)
	owners, warnings := dedupOwners(meta.GetOwnerReferences())
	warnings = append(keeps, warnings...)
	causes := append(validateMeta(meta, owners), keepsTooMany(keeps, meta.GetFinalizers())...)
	causes = append(causes, validateInitialization(was, old, meta.GetInitializers())...)
	causes = append(causes, validateUnchanged(was, meta)...)
	causes = append(causes, validateProtection(was, meta)...)
	causes = append(causes, validateExpiry(at, meta)...)
	causes = append(causes, validateShrinking(was, meta.GetFinalizers())...)
	causes = append(causes, validateContentsFinalizer(was, meta.GetFinalizers())...)
	causes = append(causes, validateInUseFinalizer(was, meta.GetFinalizers())...)
	causes = append(causes, validateProtectionFinalizer(was, meta.GetFinalizers())...)
	o, duplicates, notJSON := normalJSON(o)
	warnings, causes = append(warnings, duplicates...), append(causes, notJSON...)
	if len(notJSON) == 0 {
		causes = append(causes, validateGoverning(ctx.View, at, o, was)...)
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	size := objectcodec.WrittenSize(&coppicev1.Object{
		ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Metadata: meta, Spec: o.GetSpec(), Extra: o.GetExtra(), Status: old.GetStatus(),
	})
	if err := checkSize(ctx, at, size); err != nil {
		return nil, err
	}

	node := *was // generation, timestamps and uid are the server's (A2.3 to A2.7)
	node.APIVersion = o.GetApiVersion()
	node.Owners = ownersOf(owners)
	node.Finalizers = keepProtection(was, keepInUse(was, keepContents(was, meta.GetFinalizers())))
	node.Initializers = pendingOf(meta.GetInitializers())
	node.InitializationFailed = meta.GetInitializers().GetResult() != nil
	failing := node.InitializationFailed && !was.InitializationFailed
	node.Uses = usesOf(meta.GetUses())
	node.ExpiresAt = expiryOf(meta)
	if err := bindUses(ctx, at, was, &node, false); err != nil {
		return nil, err
	}
	body := bodyOf(o)
	body.Status = old.GetStatus()
	body.GenerateName = old.GetGenerateName()
	body.Applied = old.GetApplied()
	if applied != nil {
		body.Applied = *applied
	}
	unrecorded := keepApplied(ctx, body, size)
	specChanged := keepEqualJSON(&body.Spec, old.GetSpec())
	extraChanged := keepEqualJSON(&body.Extra, old.GetExtra())
	if specChanged || extraChanged {
		node.Generation++
	}
	bodyChanged := specChanged || extraChanged || failing ||
		!maps.Equal(body.GetLabels(), old.GetLabels()) || !maps.Equal(body.GetAnnotations(), old.GetAnnotations()) ||
		!bytes.Equal(body.GetApplied(), old.GetApplied())
	if bodyChanged {
		if specChanged && IsPolicy(was) {
			policyStatus(ctx, was, &node, body, old)
		}
		derive(&node, at.Kind, body)
	}
	if bodyChanged || was.Uninitialized() != node.Uninitialized() {
		cover(ctx.View, at.Kind, &node, body) // B2.10
	}
	missing, err := checkOwners(ctx, at, was, &node)
	if err != nil {
		return nil, err
	}

	out := &Outcome{Code: 200, Object: Object{Node: was, Body: old}, Warnings: append(warnings, unrecorded...)}
	switch {
	case was.Terminating() && len(node.Finalizers) == 0 && was.graceOver():
		// A2.11: nothing else of this update is stored; the reply is the
		// requested object at its old revision.
		out.Events = []Event{deleted(was, coppicev1.Reason_REASON_FINALIZED, was.DeletionRevision)}
		out.Object = Object{Node: &node, Body: body}
	case !bodyChanged && sameNode(was, &node):
		// A2.14: nothing to write.
	default:
		out.Warnings = slices.Concat(out.Warnings, missing, finalizerWarnings(was.Finalizers, node.Finalizers))
		if node.ExpiresAt != was.ExpiresAt {
			out.Warnings = append(out.Warnings, expiryWarnings(&node, ctx.Now)...)
		}
		event := Event{Type: ObjectUpdated, UID: was.UID, Reason: coppicev1.Reason_REASON_REQUESTED, Object: Object{Node: &node}}
		out.Object.Body = body
		if bodyChanged {
			event.Object.Body = body
		}
		out.Events = []Event{event}
	}
	if failing && !was.Terminating() {
		out.Events, out.Object = append(out.Events, failed(ctx, at, &node)...), Object{Node: &node, Body: body}
	}
	return out, nil
}

// UpdateStatus decides an update of status alone: everything else of o is
// ignored but its name, uid and resourceVersion.
func UpdateStatus(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	at, o, err := target(at, o)
	if err != nil {
		return nil, err
	}
	if err := checkNamed(at); err != nil {
		return nil, err
	}
	was, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(at, was, &coppicev1.Preconditions{
		Uid: o.GetMetadata().GetUid(), ResourceVersion: o.GetMetadata().GetResourceVersion(),
	}); err != nil {
		return nil, err
	}
	if IsPolicy(was) {
		return nil, at.err(api.ErrForbidden, "%s: only Coppice writes the status of a protection policy", at)
	}
	status, warnings, causes := normalField("status", "status", o.GetStatus())
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	old := ctx.Body(was)
	out := &Outcome{Code: 200, Object: Object{Node: was, Body: old}, Warnings: warnings}
	if !keepEqualJSON(&status, old.GetStatus()) {
		return out, nil
	}
	body := withStatus(old, status)
	size := objectcodec.Size(Object{Node: was, Body: body}.API())
	if err := checkSize(ctx, at, size); err != nil {
		return nil, err
	}
	out.Warnings = append(out.Warnings, keepApplied(ctx, body, size)...)
	node := *was
	derive(&node, at.Kind, body)
	out.Object.Body = body
	out.Events = []Event{{
		Type: ObjectUpdated, UID: was.UID, Reason: coppicev1.Reason_REASON_REQUESTED,
		Object: Object{Node: &node, Body: body},
	}}
	return out, nil
}

// checkNamed refuses an update of an object without a name.
func checkNamed(at Key) *Error {
	if at.Name == "" {
		return at.err(api.ErrBadRequest, "the name of the object is empty; write the name of one of the %s", at.Kind.Resource())
	}
	return nil
}

func withStatus(b *coppicev1.Body, status []byte) *coppicev1.Body {
	return &coppicev1.Body{
		Labels: b.GetLabels(), Annotations: b.GetAnnotations(), GenerateName: b.GetGenerateName(),
		Spec: b.GetSpec(), Extra: b.GetExtra(), Status: status, InitializersResult: b.GetInitializersResult(),
		Applied: b.GetApplied(),
	}
}

// validateUnchanged checks deletion fields that a client may not set (A2.5,
// A2.6). Once an object is terminating the client's values are ignored, save
// for a grace period that is not the stored one.
func validateUnchanged(was *Node, meta *coppicev1.ObjectMeta) []Cause {
	var causes []Cause
	if at := meta.GetDeletionTimestamp(); !was.Terminating() && at != nil {
		causes = append(causes, invalidValue("metadata.deletionTimestamp", at.AsTime().UTC().Format(time.RFC3339), "field is immutable"))
	}
	if g := meta.DeletionGracePeriodSeconds; g != nil && (was.GracePeriod == nil || *was.GracePeriod != *g) {
		causes = append(causes, invalidValue("metadata.deletionGracePeriodSeconds", *g, "field is immutable"))
	}
	return causes
}

// validateShrinking checks that a terminating object gets no new finalizers (A2.8).
func validateShrinking(was *Node, finalizers []string) []Cause {
	if !was.Terminating() {
		return nil
	}
	if added := newcomers(was.Finalizers, finalizers); len(added) > 0 {
		return []Cause{forbidden("metadata.finalizers", fmt.Sprintf(
			"no new finalizers can be added if the object is being deleted, found new finalizers %q", added))}
	}
	return nil
}

func newcomers(before, after []string) []string {
	var added []string
	known, seen := oneOf(before), map[string]bool{}
	for _, f := range after {
		if !known(f) && !seen[f] {
			added, seen[f] = append(added, f), true
		}
	}
	return added
}

func sameNode(a, b *Node) bool {
	return a.APIVersion == b.APIVersion && a.Generation == b.Generation &&
		slices.Equal(a.Owners, b.Owners) && slices.Equal(a.Finalizers, b.Finalizers) &&
		slices.Equal(a.Initializers, b.Initializers) && slices.Equal(a.Uses, b.Uses) && a.InitializationFailed == b.InitializationFailed &&
		a.Protection.equal(b.Protection) && a.ExpiresAt == b.ExpiresAt
}

// keepEqualJSON reports whether *is and was mean different JSON. If not, *is
// becomes was, so that a change of spelling is no change.
func keepEqualJSON(is *[]byte, was []byte) (changed bool) {
	if bytes.Equal(*is, was) {
		return false
	}
	if len(*is) == 0 || len(was) == 0 {
		return true
	}
	a, errA := decodeJSON(*is)
	b, errB := decodeJSON(was)
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		return true
	}
	*is = was
	return false
}

func decodeJSON(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
