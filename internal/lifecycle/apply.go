package lifecycle

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// An apply records which members its manifest sets: Body.Applied. The next apply removes the
// members of the record that its own manifest does not have, and leaves what others have added.

// Manifest is a manifest that is to be applied, with the result of all checks that do not need the
// state. They are done before the writer decides, to take less of its time.
type Manifest struct {
	object   *coppicev1.Object // without what only the server sets
	creation Checked           // if no such object exists
	size     int               // in bytes
	applied  []byte            // the record
	json     []Cause           // what is wrong with the JSON
	long     []Cause           // lists that are too long
	warnings []string
}

// CheckManifest checks a manifest that is to be applied in a namespace.
func CheckManifest(namespace string, o *coppicev1.Object) Manifest {
	m := Manifest{warnings: protectionWarnings(o.GetMetadata()), long: tooLongLists(o.GetMetadata())}
	o, duplicates, causes := normalJSON(wiped(o))
	m.object, m.json, m.size = o, causes, objectcodec.WrittenSize(o)
	m.warnings = append(m.warnings, duplicates...)
	if len(causes) == 0 {
		m.applied = appliedBy(namespace, o)
		o = withoutNulls(o)
	}
	m.creation = checkNormal(o, nil, causes)
	m.creation.applied = m.applied
	return m
}

// tooLongLists returns causes for the lists of a manifest that are longer than those of an object. The object
// would have all their elements: it is refused before the writer merges them.
func tooLongLists(m *coppicev1.ObjectMeta) (causes []Cause) {
	for _, list := range []struct {
		field        string
		length, most int
	}{
		{"metadata.finalizers", len(m.GetFinalizers()), maxListed},
		{"metadata.uses", len(m.GetUses()), MaxUses},
		{"metadata.ownerReferences", len(m.GetOwnerReferences()), maxListed},
	} {
		if list.length > list.most {
			causes = append(causes, tooMany(list.field, list.length, list.most))
		}
	}
	return causes
}

// ApplyAcross is Apply for an actor with the permission to write uses of objects in other
// namespaces (B3.10).
func ApplyAcross(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	across := *ctx
	across.Across = true
	return Apply(&across, at, o)
}

// Apply decides an apply: it merges the manifest into the existing object, or creates the
// object. Members that the manifest of the last apply has set and that this manifest does not
// have are removed; others that it does not mention stay. Members that are null
// in the manifest are removed, or not created. Applying the same manifest again changes
// nothing. Fields that the server sets, such as uid and resourceVersion, are ignored, so that
// the manifest of an object in another realm can be applied (B10).
func Apply(ctx *Context, at Key, o *coppicev1.Object) (*Outcome, *Error) {
	return ApplyChecked(ctx, at, new(CheckManifest(at.Namespace, o)))
}

// ApplyChecked is Apply of a manifest that was checked before.
func ApplyChecked(ctx *Context, at Key, m *Manifest) (*Outcome, *Error) {
	at, o, err := target(at, m.object)
	if err != nil {
		return nil, err
	}
	var was *Node
	if at.Name != "" {
		if u := ctx.Lookup(at.Kind, at.Namespace, at.Name); u != "" {
			was = ctx.Node(u)
		}
	}
	if was == nil {
		return warning(m.warnings)(CreateChecked(ctx, at, &m.creation))
	}
	if err := invalid(at, slices.Concat(m.json, m.long)); err != nil {
		return nil, err
	}
	if err := checkSize(ctx, at, m.size); err != nil {
		return nil, err
	}
	merged, applied, duplicates, fail := applyTo(ctx.Kinds(), Object{Node: was, Body: ctx.Body(was)}, o, m.applied)
	if fail != nil {
		return nil, at.err(api.ErrBadRequest, "%s: %v", at, fail)
	}
	if m.object.GetApiVersion() == "" {
		merged.ApiVersion = was.APIVersion
	}
	return warning(slices.Concat(m.warnings, duplicates))(update(ctx, at, merged, &applied))
}

// withoutNulls returns the object with its JSON merged onto nothing. Without members it has no extra, as after
// applyTo. The JSON must be valid.
func withoutNulls(o *coppicev1.Object) *coppicev1.Object {
	o = &coppicev1.Object{ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Metadata: o.GetMetadata(), Spec: o.GetSpec(), Extra: o.GetExtra()}
	for _, raw := range []*[]byte{&o.Spec, &o.Extra} {
		if !bytes.Contains(*raw, []byte("null")) {
			continue // most
		}
		merged, err := jsonvalue.MergePatch(nil, *raw)
		if err != nil {
			continue // not reached: it is JSON
		}
		if *raw = merged; bytes.Equal(merged, []byte("null")) {
			*raw = nil
		}
	}
	if noMembers(o.GetExtra()) {
		o.Extra = nil
	}
	return o
}

// noMembers reports whether valid JSON is an object without members.
func noMembers(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 1 && raw[0] == '{' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
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

// applyTo returns what an object becomes if the manifest is applied to it, the record to store, and
// warnings of duplicate owners in the manifest. next is the record of what the manifest sets. Labels, annotations and the members of
// spec and extra are merged by name, finalizers as a set, owners by uid, uses by what they name.
func applyTo(kinds *Kinds, was Object, manifest *coppicev1.Object, next []byte) (o *coppicev1.Object, applied []byte, warnings []string, err error) {
	lost, applied, err := lostOf(was.Body.GetApplied(), next)
	if err != nil {
		return nil, nil, nil, err
	}
	o = was.API()
	o.ApiVersion, o.Kind = manifest.GetApiVersion(), manifest.GetKind()
	m, sent, gone := o.GetMetadata(), manifest.GetMetadata(), lost.Of("metadata")
	m.ResourceVersion = 0
	m.Labels = applyEntries(m.GetLabels(), sent.GetLabels(), gone.Of("labels"))
	m.Annotations = applyEntries(m.GetAnnotations(), sent.GetAnnotations(), gone.Of("annotations"))
	m.Finalizers = applyFinalizers(m.GetFinalizers(), sent.GetFinalizers(), gone.Of("finalizers"))
	owners, warnings := dedupOwners(sent.GetOwnerReferences())
	m.OwnerReferences = applyOwners(m.GetOwnerReferences(), owners, gone.Of("ownerReferences"))
	m.Uses = applyUses(kinds, was.Namespace, m.GetUses(), sent.GetUses(), gone.Of("uses"))
	if gone.Has(jsonvalue.FieldName("expiresAt")) {
		m.ExpiresAt = nil
	}
	if sent.GetExpiresAt() != nil {
		m.ExpiresAt = sent.GetExpiresAt()
	}
	if o.Spec, err = jsonvalue.ApplyMember("spec", o.GetSpec(), manifest.GetSpec(), lost); err != nil {
		return nil, nil, nil, fmt.Errorf("spec: %w", err)
	}
	if o.Extra, err = jsonvalue.ApplyPatch(o.GetExtra(), manifest.GetExtra(), lost); err != nil {
		return nil, nil, nil, err
	}
	for _, raw := range []*[]byte{&o.Spec, &o.Extra} {
		if bytes.Equal(*raw, []byte("null")) {
			*raw = nil
		}
	}
	if noMembers(o.Extra) {
		o.Extra = nil
	}
	return o, applied, warnings, nil
}

// lostOf returns the members of the record of the last apply that the record of the next one
// does not have, and the record to keep: the stored one if both have the same members.
func lostOf(stored, next []byte) (jsonvalue.Fields, []byte, error) {
	if len(stored) == 0 || bytes.Equal(stored, next) {
		return nil, next, nil
	}
	was, err := jsonvalue.ParseFields(stored)
	if err != nil {
		return nil, nil, err
	}
	is, err := jsonvalue.ParseFields(next)
	if err != nil {
		return nil, nil, err
	}
	if reflect.DeepEqual(was, is) {
		return nil, stored, nil
	}
	return was.Minus(is), next, nil
}

// applyEntries merges labels or annotations.
func applyEntries(stored, sent map[string]string, lost jsonvalue.Fields) map[string]string {
	merged := make(map[string]string, len(stored)+len(sent))
	for k, v := range stored {
		if !lost.Has(jsonvalue.FieldName(k)) {
			merged[k] = v
		}
	}
	maps.Copy(merged, sent)
	if len(merged) == 0 {
		return nil
	}
	return merged
}

// applyFinalizers merges finalizers as a set.
func applyFinalizers(stored, sent []string, lost jsonvalue.Fields) []string {
	merged := slices.DeleteFunc(slices.Clone(stored), func(f string) bool { return lost.Has(jsonvalue.ElementName(f)) })
	return append(merged, newcomers(merged, sent)...)
}

// applyOwners merges owner references by uid. If the manifest says nothing of controller and
// blockOwnerDeletion of an owner, those that another client has set stay.
func applyOwners(stored, sent []*coppicev1.OwnerReference, lost jsonvalue.Fields) []*coppicev1.OwnerReference {
	of := make(map[string][]*coppicev1.OwnerReference, len(sent)) // those that are not in merged, by uid
	for _, r := range sent {
		of[r.GetUid()] = append(of[r.GetUid()], r)
	}
	var merged []*coppicev1.OwnerReference
	for _, r := range stored {
		gone := lost[ownerName(r)]
		next, ok := of[r.GetUid()]
		switch {
		case !ok && !lost.Has(ownerName(r)):
			merged = append(merged, r)
		case len(next) > 0:
			first := next[0]
			merged = append(merged, &coppicev1.OwnerReference{
				ApiVersion: first.GetApiVersion(), Kind: first.GetKind(), Name: first.GetName(), Uid: first.GetUid(),
				Controller:         applyFlag(r.Controller, first.Controller, gone.Has(controllerField)),
				BlockOwnerDeletion: applyFlag(r.BlockOwnerDeletion, first.BlockOwnerDeletion, gone.Has(blockingField)),
			})
			of[r.GetUid()] = next[1:]
		}
	}
	for _, r := range sent {
		if slices.Contains(of[r.GetUid()], r) {
			merged = append(merged, r)
		}
	}
	return merged
}

func applyFlag(stored, sent *bool, lost bool) *bool {
	if sent != nil || lost {
		return sent
	}
	return stored
}

// applyUses merges uses by the object that they name.
func applyUses(kinds *Kinds, namespace string, stored, sent []*coppicev1.Use, lost jsonvalue.Fields) []*coppicev1.Use {
	nameOf := func(u *coppicev1.Use) string {
		if kind := kinds.Of(u.GetGroup(), u.GetKind()); kind != nil && !kind.Namespaced() {
			u = &coppicev1.Use{Group: u.GetGroup(), Kind: u.GetKind(), Name: u.GetName()} // as bindUse stores it
		}
		return useName(namespace, u)
	}
	gone := make(map[string]bool, len(lost))
	for name := range lost {
		var u coppicev1.Use
		if jsonvalue.ParseKey(name, &u) == nil {
			gone[nameOf(&u)] = true
		}
	}
	of := map[string][]*coppicev1.Use{} // those of the manifest that are not in merged, by name
	for _, u := range sent {
		of[nameOf(u)] = append(of[nameOf(u)], u)
	}
	var merged []*coppicev1.Use
	for _, u := range stored {
		name := nameOf(u)
		switch next, ok := of[name]; {
		case !ok && !gone[name]:
			merged = append(merged, u)
		case len(next) > 0:
			merged, of[name] = append(merged, next[0]), next[1:]
		}
	}
	for _, u := range sent {
		if slices.Contains(of[nameOf(u)], u) {
			merged = append(merged, u)
		}
	}
	return merged
}

// Names of members in the record.
var (
	controllerField = jsonvalue.FieldName("controller")
	blockingField   = jsonvalue.FieldName("blockOwnerDeletion")
)

func ownerName(r *coppicev1.OwnerReference) string { return jsonvalue.KeyName("uid", r.GetUid()) }

// useName is the name of a use of an object in a namespace.
func useName(namespace string, u *coppicev1.Use) string {
	in := u.GetNamespace()
	if in == namespace {
		in = ""
	}
	return jsonvalue.KeyName("group", u.GetGroup(), "kind", u.GetKind(), "name", u.GetName(), "namespace", in)
}

// eachOwner returns one reference for each uid, with the flags that any reference with the uid has.
func eachOwner(refs []*coppicev1.OwnerReference) []*coppicev1.OwnerReference {
	if len(refs) < 2 {
		return refs
	}
	var owners []*coppicev1.OwnerReference
	of := make(map[string]*coppicev1.OwnerReference, len(refs))
	for _, r := range refs {
		owner, ok := of[r.GetUid()]
		if !ok {
			owner = &coppicev1.OwnerReference{Uid: r.GetUid()}
			of[r.GetUid()], owners = owner, append(owners, owner)
		}
		owner.Controller = cmp.Or(owner.Controller, r.Controller)
		owner.BlockOwnerDeletion = cmp.Or(owner.BlockOwnerDeletion, r.BlockOwnerDeletion)
	}
	return owners
}

// appliedBy returns the record of what a manifest sets, nil if it sets nothing. spec and extra must be JSON.
func appliedBy(namespace string, o *coppicev1.Object) []byte {
	m := o.GetMetadata()
	w := jsonvalue.NewFieldsWriter(64 + len(o.GetSpec()) + len(o.GetExtra()))
	metadata := w.OpenMember("metadata")
	for _, list := range []struct {
		name    string
		entries map[string]string
	}{{"labels", m.GetLabels()}, {"annotations", m.GetAnnotations()}} {
		entries := w.OpenMember(list.name)
		for _, k := range slices.Sorted(maps.Keys(list.entries)) {
			w.AddMember(k)
		}
		w.Close(entries)
	}
	finalizers := w.OpenMember("finalizers")
	for _, f := range newcomers(nil, m.GetFinalizers()) {
		w.Add(jsonvalue.ElementName(f))
	}
	w.Close(finalizers)
	owners := w.OpenMember("ownerReferences")
	for _, r := range eachOwner(m.GetOwnerReferences()) {
		if r.Controller == nil && r.BlockOwnerDeletion == nil {
			w.Add(ownerName(r))
			continue
		}
		owner := w.Open(ownerName(r))
		if r.Controller != nil {
			w.AddMember("controller")
		}
		if r.BlockOwnerDeletion != nil {
			w.AddMember("blockOwnerDeletion")
		}
		w.Close(owner)
	}
	w.Close(owners)
	uses := w.OpenMember("uses")
	for _, u := range m.GetUses() {
		w.Add(useName(namespace, u))
	}
	w.Close(uses)
	if m.GetExpiresAt() != nil {
		w.AddMember("expiresAt")
	}
	w.Close(metadata)
	if raw := o.GetSpec(); len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
		w.AddValue("spec", raw)
	}
	if len(o.GetExtra()) > 0 {
		w.AddMembers(o.GetExtra())
	}
	return w.Bytes()
}

// keepApplied removes the record of an object that would be too large with it, and returns a warning: an
// object up to the largest size can be applied. size is that of the object, in bytes.
func keepApplied(ctx *Context, body *coppicev1.Body, size int) []string {
	if ctx.MaxObject == 0 || size+len(body.GetApplied()) <= ctx.MaxObject {
		return nil
	}
	body.Applied = nil
	return []string{fmt.Sprintf("the object has %d of at most %d bytes, which leaves no room for the names of the members that apply has set: "+
		"if the next manifest does not have one of them, apply will keep it", size, ctx.MaxObject)}
}
