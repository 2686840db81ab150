package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
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
	if size := len(p.GetPatch()); ctx.MaxObject > 0 && size > ctx.MaxObject {
		return nil, at.err(api.ErrRequestEntityTooLarge, "%s: the patch has %d bytes; a patch has at most %d, like an object", at, size, ctx.MaxObject)
	}
	patch, duplicates, fail := jsonvalue.Normalize(p.GetPatch())
	if fail != nil {
		return nil, at.err(api.ErrBadRequest, "%s: the patch is not a JSON merge patch: %v", at, fail)
	}
	patched, err := merged(ctx, at, was, patch)
	if err != nil {
		return nil, err
	}
	switch meta := patched.GetMetadata(); { // A2.7
	case meta.GetName() != at.Name:
		return nil, at.err(api.ErrBadRequest, "the name of the object (%s) does not match the name of the request (%s)", meta.GetName(), at.Name)
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

// merged is the manifest of the object with the patch merged into it.
func merged(ctx *Context, at Key, was *Node, patch []byte) (*coppicev1.Object, *Error) {
	doc, err := manifest.ToJSON(Object{Node: was, Body: ctx.Body(was)}.API())
	if err != nil {
		return nil, at.err(api.ErrInternalError, "%s cannot be written as JSON: %v", at, err)
	}
	doc, err = jsonvalue.MergePatch(doc, patch)
	if err != nil {
		return nil, at.err(api.ErrBadRequest, "%s: the patch is not a JSON merge patch: %v", at, err)
	}
	o, err := manifest.FromJSON(doc)
	if err != nil {
		return nil, at.err(api.ErrBadRequest, "%s: the patch does not leave a manifest: %v", at, err)
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
