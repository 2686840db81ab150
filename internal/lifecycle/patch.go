package lifecycle

import (
	"encoding/json"

	jsonpatch "github.com/evanphx/json-patch/v5"

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
	patched, err := merged(ctx, at, was, p.GetPatch())
	if err != nil {
		return nil, err
	}
	switch meta := patched.GetMetadata(); { // A2.7
	case meta.GetName() != at.Name:
		return nil, at.err(ReasonBadRequest, "the name of the object (%s) does not match the name of the request (%s)", meta.GetName(), at.Name)
	case meta.GetUid() != "" && meta.GetUid() != was.UID.String():
		return nil, invalid(at, []Cause{invalidValue("metadata.uid", meta.GetUid(), "field is immutable")})
	}
	if !mentionsRevision(p.GetPatch()) {
		patched.Metadata.ResourceVersion = 0
	}
	return Update(ctx, at, patched)
}

// Apply decides an apply: create, or else a merge of the manifest onto what is
// there. Members that the manifest does not mention stay as they are. The
// server's fields, uid and resourceVersion among them, are wiped as on create,
// so that the manifest of another world can be applied.
func Apply(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	versioned := o.GetApiVersion() != ""
	at, o, err := target(at, o)
	if err != nil {
		return nil, err
	}
	o = wiped(o)
	var was *Node
	if at.Name != "" {
		if u := ctx.Lookup(at.Kind, at.Namespace, at.Name); u != "" {
			was = ctx.Node(u)
		}
	}
	if was == nil {
		return Create(ctx, at, o)
	}
	if err := invalid(at, validateJSON(o)); err != nil {
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
	return Update(ctx, at, patched)
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
			Initializers: &coppicev1.Initializers{Pending: m.GetInitializers().GetPending()},
		},
	}
}

// merged is the manifest of the object with the patch merged into it.
func merged(ctx *Context, at Key, was *Node, patch []byte) (*coppicev1.Object, *Error) {
	doc, err := manifest.ToJSON(Object{Node: was, Body: ctx.Body(was)}.API())
	if err != nil {
		return nil, at.err(ReasonInternal, "%s cannot be written as JSON: %v", at, err)
	}
	doc, err = jsonpatch.MergePatch(doc, patch)
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
