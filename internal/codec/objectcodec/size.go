package objectcodec

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Size returns the size of an object's encoding in bytes, without unknown fields.
func Size(o *coppicev1.Object) int { return sizeWithout(o, 0) }

// WrittenSize is Size without ObjectMeta.Applied, which every write ignores.
func WrittenSize(o *coppicev1.Object) int { return sizeWithout(o, appliedSize(o.GetMetadata())) }

// sizeWithout is Size without some bytes of the metadata.
func sizeWithout(o *coppicev1.Object, bytes int) int {
	size := text(len(o.GetApiVersion())) + text(len(o.GetKind())) +
		text(len(o.GetSpec())) + text(len(o.GetStatus())) + text(len(o.GetExtra()))
	if o.GetMetadata() != nil {
		size += element(metaSize(o.GetMetadata()) - bytes)
	}
	return size
}

// ResultSize returns the size of a result's encoding in bytes, without unknown fields.
func ResultSize(r *coppicev1.Result) int {
	size := varint(uint64(r.GetCode()))
	if r.GetObject() != nil {
		size += element(Size(r.GetObject()))
	}
	if r.GetError() != nil {
		size += element(proto.Size(r.GetError()))
	}
	for _, s := range r.GetWarnings() {
		size += element(len(s))
	}
	return size
}

func metaSize(m *coppicev1.ObjectMeta) int {
	size := text(len(m.GetName())) + text(len(m.GetGenerateName())) + text(len(m.GetNamespace())) + text(len(m.GetUid())) +
		varint(m.GetResourceVersion()) + varint(uint64(m.GetGeneration())) +
		timeSize(m.GetCreationTimestamp()) + timeSize(m.GetDeletionTimestamp()) +
		entriesSize(m.GetLabels()) + entriesSize(m.GetAnnotations())
	if p := m.DeletionGracePeriodSeconds; p != nil {
		size += 1 + protowire.SizeVarint(uint64(*p))
	}
	for _, o := range m.GetOwnerReferences() {
		n := text(len(o.GetApiVersion())) + text(len(o.GetKind())) + text(len(o.GetName())) + text(len(o.GetUid()))
		if o != nil && o.Controller != nil {
			n += 2
		}
		if o != nil && o.BlockOwnerDeletion != nil {
			n += 2
		}
		size += element(n)
	}
	for _, s := range m.GetFinalizers() {
		size += element(len(s))
	}
	if m.GetProtection() != nil {
		size += element(proto.Size(m.GetProtection()))
	}
	if m.GetInitializers() != nil {
		size += element(proto.Size(m.GetInitializers()))
	}
	if m.GetExpiresAt() != nil {
		size += 1 + timeSize(m.GetExpiresAt()) // a field number above 15
	}
	for _, u := range m.GetUses() {
		size += 1 + element(proto.Size(u)) // a field number above 15
	}
	return size + appliedSize(m)
}

func appliedSize(m *coppicev1.ObjectMeta) int {
	if len(m.GetApplied()) == 0 {
		return 0
	}
	return 1 + element(len(m.GetApplied())) // a field number above 15
}

func timeSize(t *timestamppb.Timestamp) int {
	if t == nil {
		return 0
	}
	return element(varint(uint64(t.GetSeconds())) + varint(uint64(t.GetNanos())))
}

func entriesSize(m map[string]string) int {
	size := 0
	for k, v := range m {
		size += element(entrySize(k, v))
	}
	return size
}

func entrySize(k, v string) int { return element(len(k)) + element(len(v)) }

// The fields of these messages have numbers below 16, except those of ObjectMeta that say
// otherwise: their tags take a byte.

func element(length int) int { return 1 + protowire.SizeBytes(length) }

func text(length int) int {
	if length == 0 {
		return 0
	}
	return element(length)
}

func varint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}
