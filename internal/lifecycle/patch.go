package lifecycle

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Patch decides a JSON merge patch (RFC 7386) on the manifest of an object: it
// is the update to the patched manifest. A resourceVersion in the patch is a
// precondition; a uid in it is a change, which no object allows (A2.7).
func Patch(ctx *Context, at Key, p *coppicev1.Patch) (*Outcome, *Error) {
	at.Name = p.GetName()
	if err := checkNamed(at); err != nil {
		return nil, err
	}
	was, err := Find(ctx.View, at)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(at, was, p.GetPreconditions()); err != nil {
		return nil, err
	}
	patch, duplicates, fail := jsonvalue.Normalize(p.GetPatch())
	if fail != nil {
		return nil, at.err(ReasonBadRequest, "%s: the patch is not a JSON merge patch: %v", at, fail)
	}
	patched, err := merged(ctx, at, was, patch)
	if err != nil {
		return nil, err
	}
	switch meta := patched.GetMetadata(); { // A2.7
	case meta.GetName() != at.Name:
		return nil, at.err(ReasonBadRequest, "the name of the object (%s) does not match the name of the request (%s)", meta.GetName(), at.Name)
	case meta.GetUid() != "" && meta.GetUid() != was.UID.String():
		return nil, invalid(at, []Cause{invalidValue("metadata.uid", meta.GetUid(), "field is immutable")})
	case was.Protected() && meta.GetProtection() == nil: // B2.7
		return nil, invalid(at, []Cause{forbidden("metadata.protection", "only the verb unprotect removes it")})
	}
	if !mentionsRevision(patch) {
		patched.Metadata.ResourceVersion = 0
	}
	return warning(duplicateWarnings("", duplicates))(Update(ctx, at, patched))
}

// warning adds warnings to an outcome, before those that it has.
func warning(warnings []string) func(*Outcome, *Error) (*Outcome, *Error) {
	return func(out *Outcome, err *Error) (*Outcome, *Error) {
		if err == nil && len(warnings) > 0 {
			out.Warnings = append(slices.Clip(warnings), out.Warnings...)
		}
		return out, err
	}
}

// ApplyAcross is Apply for an actor with the permission to write uses of objects in other
// namespaces (B3.10).
func ApplyAcross(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	across := *ctx
	across.Across = true
	return Apply(&across, at, o)
}

// Apply decides an apply: it merges the manifest into the existing object, or creates the
// object. Members that the manifest does not mention stay as they are. Members that are null
// in the manifest are removed, or not created. Applying the same manifest again changes
// nothing. Fields that the server sets, such as uid and resourceVersion, are ignored, so that
// the manifest of an object in another realm can be applied.
func Apply(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	versioned := o.GetApiVersion() != ""
	at, o, err := target(at, o)
	if err != nil {
		return nil, err
	}
	ignored := protectionWarnings(o.GetMetadata())
	o = wiped(o)
	var was *Node
	if at.Name != "" {
		if u := ctx.Lookup(at.Kind, at.Namespace, at.Name); u != "" {
			was = ctx.Node(u)
		}
	}
	o, warnings, causes := normalJSON(o)
	warnings = append(ignored, warnings...)
	if was == nil {
		if len(causes) == 0 {
			if err := dropNulls(o); err != nil {
				return nil, at.err(ReasonBadRequest, "%s: %v", at, err)
			}
		}
		return warning(warnings)(Create(ctx, at, o))
	}
	if err := invalid(at, causes); err != nil {
		return nil, err
	}
	if !versioned {
		o.ApiVersion = was.APIVersion
	}
	o.Metadata.Initializers = nil // they are for the object that is to be
	patch, fail := manifest.ToJSON(o)
	if fail != nil {
		return nil, at.err(ReasonBadRequest, "%s: %v", at, fail)
	}
	patched, err := merged(ctx, at, was, patch)
	if err != nil {
		return nil, err
	}
	patched.Metadata.ResourceVersion = 0
	return warning(warnings)(Update(ctx, at, patched))
}

// dropNulls merges the JSON of an object onto nothing.
func dropNulls(o *coppicev1.Object) error {
	for _, raw := range []*[]byte{&o.Spec, &o.Extra} {
		if !bytes.Contains(*raw, []byte("null")) {
			continue // most
		}
		merged, err := jsonvalue.MergePatch(nil, *raw)
		if err != nil {
			return err
		}
		if *raw = merged; bytes.Equal(merged, []byte("null")) {
			*raw = nil
		}
	}
	return nil
}

// wiped is the object without what only the server sets (A1.1), and without status.
func wiped(o *coppicev1.Object) *coppicev1.Object {
	m := o.GetMetadata()
	return &coppicev1.Object{
		ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Spec: o.GetSpec(), Extra: o.GetExtra(),
		Metadata: &coppicev1.ObjectMeta{
			Name: m.GetName(), GenerateName: m.GetGenerateName(), Namespace: m.GetNamespace(),
			Labels: m.GetLabels(), Annotations: m.GetAnnotations(),
			OwnerReferences: m.GetOwnerReferences(), Finalizers: m.GetFinalizers(),
			Initializers: &coppicev1.Initializers{Pending: m.GetInitializers().GetPending()}, Uses: m.GetUses(),
			ExpiresAt: m.GetExpiresAt(),
		},
	}
}

// merged is the manifest of the object with the patch merged into it.
func merged(ctx *Context, at Key, was *Node, patch []byte) (*coppicev1.Object, *Error) {
	doc, err := manifest.ToJSON(Object{Node: was, Body: ctx.Body(was)}.API())
	if err != nil {
		return nil, at.err(ReasonInternalError, "%s cannot be written as JSON: %v", at, err)
	}
	doc, err = jsonvalue.MergePatch(doc, patch)
	if err != nil {
		return nil, at.err(ReasonBadRequest, "%s: the patch is not a JSON merge patch: %v", at, err)
	}
	o, err := manifest.FromJSON(doc)
	if err != nil {
		return nil, at.err(ReasonBadRequest, "%s: the patch does not leave a manifest: %v", at, err)
	}
	return o, nil
}

func mentionsRevision(patch []byte) bool {
	var p struct {
		Metadata struct {
			ResourceVersion json.RawMessage `json:"resourceVersion"`
		} `json:"metadata"`
	}
	return json.Unmarshal(patch, &p) == nil && p.Metadata.ResourceVersion != nil
}
