package objectcodec

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/codec/wire"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// writer appends messages to b.
type writer struct {
	b   []byte
	odd bool // the generated code has to encode the message
}

func (w *writer) request(m *coppicev1.ObjectsRequest) {
	w.known(m.ProtoReflect().GetUnknown())
	if list := m.GetObjects(); len(list) > 0 {
		w.b = make([]byte, 0, room(len(list), Size(list[0])))
	}
	for _, o := range m.GetObjects() {
		w.object(requestObjects, o)
	}
	w.b = wire.AppendVarint(w.b, requestAtomic, protowire.EncodeBool(m.GetAtomic()))
	w.b = wire.AppendVarint(w.b, requestDryRun, protowire.EncodeBool(m.GetDryRun()))
	w.b = wire.AppendVarint(w.b, requestReturn, protowire.EncodeBool(m.GetReturnObjects()))
	w.b = wire.AppendVarint(w.b, requestStrict, protowire.EncodeBool(m.GetStrictOwners()))
	w.b = wire.AppendVarint(w.b, requestProtocol, uint64(m.GetProtocol()))
}

func (w *writer) reply(m *coppicev1.ObjectsReply) {
	w.known(m.ProtoReflect().GetUnknown())
	w.odd = w.odd || len(m.GetGrant()) > 0
	if list := m.GetResults(); len(list) > 0 {
		w.b = make([]byte, 0, room(len(list), ResultSize(list[0])))
	}
	for _, r := range m.GetResults() {
		w.result(r)
	}
	w.b = wire.AppendVarint(w.b, replyRevision, m.GetRevision())
}

// room estimates the size of n elements in bytes from the size of the first. It is
// bounded, because the other elements may be smaller.
func room(n, first int) int { return min(32+n*(first+8), 1<<20) }

func (w *writer) result(r *coppicev1.Result) {
	w.known(r.ProtoReflect().GetUnknown())
	var at int
	w.b, at = wire.Open(w.b, replyResults)
	w.b = wire.AppendVarint(w.b, resultCode, uint64(r.GetCode()))
	if r.GetObject() != nil {
		w.object(resultObject, r.GetObject())
	}
	w.odd = w.odd || r.GetError() != nil
	for _, s := range r.GetWarnings() {
		w.element(resultWarnings, s)
	}
	w.b = wire.Close(w.b, at)
}

func (w *writer) object(field protowire.Number, o *coppicev1.Object) {
	w.known(o.ProtoReflect().GetUnknown())
	var at int
	w.b, at = wire.Open(w.b, field)
	w.text(objectAPIVersion, o.GetApiVersion())
	w.text(objectKind, o.GetKind())
	if o.GetMetadata() != nil {
		w.meta(o.GetMetadata())
	}
	w.b = wire.AppendBytes(w.b, objectSpec, o.GetSpec())
	w.b = wire.AppendBytes(w.b, objectStatus, o.GetStatus())
	w.b = wire.AppendBytes(w.b, objectExtra, o.GetExtra())
	w.b = wire.Close(w.b, at)
}

func (w *writer) meta(m *coppicev1.ObjectMeta) {
	w.known(m.ProtoReflect().GetUnknown())
	var at int
	w.b, at = wire.Open(w.b, objectMetadata)
	w.text(metaName, m.GetName())
	w.text(metaGenerateName, m.GetGenerateName())
	w.text(metaNamespace, m.GetNamespace())
	w.text(metaUID, m.GetUid())
	w.b = wire.AppendVarint(w.b, metaResourceVersion, m.GetResourceVersion())
	w.b = wire.AppendVarint(w.b, metaGeneration, uint64(m.GetGeneration()))
	w.time(metaCreation, m.GetCreationTimestamp())
	w.time(metaDeletion, m.GetDeletionTimestamp())
	if p := m.DeletionGracePeriodSeconds; p != nil {
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, metaGracePeriod, protowire.VarintType), uint64(*p))
	}
	w.entries(metaLabels, m.GetLabels())
	w.entries(metaAnnotations, m.GetAnnotations())
	for _, o := range m.GetOwnerReferences() {
		w.owner(o)
	}
	for _, s := range m.GetFinalizers() {
		w.element(metaFinalizers, s)
	}
	w.odd = w.odd || m.GetInitializers() != nil || len(m.GetUses()) > 0 || m.GetProtection() != nil || m.GetExpiresAt() != nil || len(m.GetApplied()) > 0
	w.b = wire.Close(w.b, at)
}

func (w *writer) owner(o *coppicev1.OwnerReference) {
	if o == nil {
		w.odd = true
		return
	}
	w.known(o.ProtoReflect().GetUnknown())
	var at int
	w.b, at = wire.Open(w.b, metaOwners)
	w.text(ownerAPIVersion, o.GetApiVersion())
	w.text(ownerKind, o.GetKind())
	w.text(ownerName, o.GetName())
	w.text(ownerUID, o.GetUid())
	w.optional(ownerController, o.Controller)
	w.optional(ownerBlocking, o.BlockOwnerDeletion)
	w.b = wire.Close(w.b, at)
}

// body encodes maps in the order of their keys, so that equal bodies have equal
// encodings.
func (w *writer) body(m *coppicev1.Body) {
	w.known(m.ProtoReflect().GetUnknown())
	var few [8]entry
	list := appendEntries(few[:0], m.GetLabels())
	labels := len(list)
	list = appendEntries(list, m.GetAnnotations())
	size := text(len(m.GetGenerateName())) + text(len(m.GetSpec())) + text(len(m.GetStatus())) + text(len(m.GetExtra())) + text(len(m.GetApplied()))
	for _, e := range list {
		size += element(entrySize(e.key, e.value))
	}
	w.b = make([]byte, 0, size)
	for _, e := range list[:labels] {
		w.entry(bodyLabels, e.key, e.value)
	}
	for _, e := range list[labels:] {
		w.entry(bodyAnnotations, e.key, e.value)
	}
	w.text(bodyGenerateName, m.GetGenerateName())
	w.b = wire.AppendBytes(w.b, bodySpec, m.GetSpec())
	w.b = wire.AppendBytes(w.b, bodyStatus, m.GetStatus())
	w.b = wire.AppendBytes(w.b, bodyExtra, m.GetExtra())
	w.odd = w.odd || m.GetInitializersResult() != nil
	w.b = wire.AppendBytes(w.b, bodyApplied, m.GetApplied())
}

type entry struct{ key, value string }

func appendEntries(list []entry, m map[string]string) []entry {
	before := len(list)
	for k, v := range m {
		list = append(list, entry{k, v})
	}
	slices.SortFunc(list[before:], func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return list
}

func (w *writer) time(field protowire.Number, t *timestamppb.Timestamp) {
	if t == nil {
		return
	}
	w.known(t.ProtoReflect().GetUnknown())
	var at int
	w.b, at = wire.Open(w.b, field)
	w.b = wire.AppendVarint(w.b, timeSeconds, uint64(t.GetSeconds()))
	w.b = wire.AppendVarint(w.b, timeNanos, uint64(t.GetNanos()))
	w.b = wire.Close(w.b, at)
}

func (w *writer) entries(field protowire.Number, m map[string]string) {
	for k, v := range m {
		w.entry(field, k, v)
	}
}

func (w *writer) entry(field protowire.Number, k, v string) {
	w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
	w.b = protowire.AppendVarint(w.b, uint64(entrySize(k, v)))
	w.element(entryKey, k)
	w.element(entryValue, v)
}

// element encodes a string, also an empty one.
func (w *writer) element(field protowire.Number, s string) {
	w.odd = w.odd || !utf8.ValidString(s)
	w.b = wire.AppendElement(w.b, field, s)
}

func (w *writer) text(field protowire.Number, s string) {
	if s != "" {
		w.element(field, s)
	}
}

func (w *writer) optional(field protowire.Number, p *bool) {
	if p != nil {
		w.b = append(protowire.AppendTag(w.b, field, protowire.VarintType), byte(protowire.EncodeBool(*p)))
	}
}

func (w *writer) known(unknown []byte) { w.odd = w.odd || len(unknown) > 0 }
