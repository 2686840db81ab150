package objectcodec

import (
	"bytes"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// reader decodes messages. Once odd is set, what it has decoded must be discarded.
type reader struct {
	odd bool // the generated code has to decode the message

	// The values of the previous object: usually all objects have the same.
	apiVersion, kind string
}

// A field's tag has its number and, in the lower three bits, its wire type.
const (
	number = 3 // shift
	asInt  = uint64(protowire.VarintType)
	asText = uint64(protowire.BytesType)
)

// field is a field of a message: its tag, and its value if it is a varint, otherwise the range of
// its bytes.
type field struct {
	tag, value uint64
	start, end int
}

// next decodes the field at an offset of b, and returns the offset behind it.
func (r *reader) next(b []byte, at int) (f field, behind int) {
	var n, m int
	if f.tag, n = protowire.ConsumeVarint(b[at:]); n < 0 {
		r.odd = true
		return f, len(b)
	}
	at += n
	f.value, m = protowire.ConsumeVarint(b[at:])
	switch {
	case m < 0:
		r.odd = true
		return f, len(b)
	case f.tag&7 == asInt:
		return f, at + m
	case f.tag&7 == asText && f.value <= uint64(len(b)-at-m):
		f.start = at + m
		f.end = f.start + int(f.value)
		return f, f.end
	}
	r.odd = true
	return f, len(b)
}

func (r *reader) request(b []byte, m *coppicev1.ObjectsRequest) {
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case requestObjects<<number | asText:
			m.Objects = append(m.Objects, r.object(b[f.start:f.end]))
		case requestAtomic<<number | asInt:
			m.Atomic = protowire.DecodeBool(f.value)
		case requestDryRun<<number | asInt:
			m.DryRun = protowire.DecodeBool(f.value)
		case requestReturn<<number | asInt:
			m.ReturnObjects = protowire.DecodeBool(f.value)
		case requestStrict<<number | asInt:
			m.StrictOwners = protowire.DecodeBool(f.value)
		case requestProtocol<<number | asInt:
			m.Protocol = uint32(f.value)
		default:
			r.odd = true
		}
	}
}

func (r *reader) reply(b []byte, m *coppicev1.ObjectsReply) {
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case replyResults<<number | asText:
			m.Results = append(m.Results, r.result(b[f.start:f.end]))
		case replyRevision<<number | asInt:
			m.Revision = f.value
		default:
			r.odd = true
		}
	}
}

func (r *reader) result(b []byte) *coppicev1.Result {
	m := &coppicev1.Result{}
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case resultCode<<number | asInt:
			m.Code = uint32(f.value)
		case resultObject<<number | asText:
			r.once(m.Object == nil)
			m.Object = r.object(b[f.start:f.end])
		case resultWarnings<<number | asText:
			m.Warnings = append(m.Warnings, r.text(string(b[f.start:f.end])))
		default:
			r.odd = true
		}
	}
	return m
}

func (r *reader) object(b []byte) *coppicev1.Object {
	// Most objects have metadata.
	room := &struct {
		object coppicev1.Object
		meta   coppicev1.ObjectMeta
	}{}
	m := &room.object
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		content := b[f.start:f.end]
		switch f.tag {
		case objectAPIVersion<<number | asText:
			m.ApiVersion = r.again(&r.apiVersion, content)
		case objectKind<<number | asText:
			m.Kind = r.again(&r.kind, content)
		case objectMetadata<<number | asText:
			r.once(m.Metadata == nil)
			m.Metadata = &room.meta
			r.meta(content, string(content), m.Metadata)
		case objectSpec<<number | asText:
			m.Spec = bytes.Clone(content)
		case objectStatus<<number | asText:
			m.Status = bytes.Clone(content)
		case objectExtra<<number | asText:
			m.Extra = bytes.Clone(content)
		default:
			r.odd = true
		}
	}
	return m
}

// meta decodes metadata. s is string(b); the strings of the result share its memory.
func (r *reader) meta(b []byte, s string, m *coppicev1.ObjectMeta) {
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case metaName<<number | asText:
			m.Name = r.text(s[f.start:f.end])
		case metaGenerateName<<number | asText:
			m.GenerateName = r.text(s[f.start:f.end])
		case metaNamespace<<number | asText:
			m.Namespace = r.text(s[f.start:f.end])
		case metaUID<<number | asText:
			m.Uid = r.text(s[f.start:f.end])
		case metaResourceVersion<<number | asInt:
			m.ResourceVersion = f.value
		case metaGeneration<<number | asInt:
			m.Generation = int64(f.value)
		case metaCreation<<number | asText:
			r.once(m.CreationTimestamp == nil)
			m.CreationTimestamp = r.time(b[f.start:f.end])
		case metaDeletion<<number | asText:
			r.once(m.DeletionTimestamp == nil)
			m.DeletionTimestamp = r.time(b[f.start:f.end])
		case metaGracePeriod<<number | asInt:
			m.DeletionGracePeriodSeconds = new(int64(f.value))
		case metaLabels<<number | asText:
			r.entry(b[f.start:f.end], s[f.start:f.end], &m.Labels)
		case metaAnnotations<<number | asText:
			r.entry(b[f.start:f.end], s[f.start:f.end], &m.Annotations)
		case metaOwners<<number | asText:
			m.OwnerReferences = append(m.OwnerReferences, r.owner(b[f.start:f.end], s[f.start:f.end]))
		case metaFinalizers<<number | asText:
			m.Finalizers = append(m.Finalizers, r.text(s[f.start:f.end]))
		default:
			r.odd = true
		}
	}
}

func (r *reader) owner(b []byte, s string) *coppicev1.OwnerReference {
	m := &coppicev1.OwnerReference{}
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case ownerAPIVersion<<number | asText:
			m.ApiVersion = r.text(s[f.start:f.end])
		case ownerKind<<number | asText:
			m.Kind = r.text(s[f.start:f.end])
		case ownerName<<number | asText:
			m.Name = r.text(s[f.start:f.end])
		case ownerUID<<number | asText:
			m.Uid = r.text(s[f.start:f.end])
		case ownerController<<number | asInt:
			m.Controller = new(protowire.DecodeBool(f.value))
		case ownerBlocking<<number | asInt:
			m.BlockOwnerDeletion = new(protowire.DecodeBool(f.value))
		default:
			r.odd = true
		}
	}
	return m
}

func (r *reader) entry(b []byte, s string, m *map[string]string) {
	var key, value string
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case entryKey<<number | asText:
			key = r.text(s[f.start:f.end])
		case entryValue<<number | asText:
			value = r.text(s[f.start:f.end])
		default:
			r.odd = true
		}
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

func (r *reader) time(b []byte) *timestamppb.Timestamp {
	m := &timestamppb.Timestamp{}
	for at := 0; at < len(b) && !r.odd; {
		var f field
		f, at = r.next(b, at)
		switch f.tag {
		case timeSeconds<<number | asInt:
			m.Seconds = int64(f.value)
		case timeNanos<<number | asInt:
			m.Nanos = int32(f.value)
		default:
			r.odd = true
		}
	}
	return m
}

// text returns s, and sets odd if s is not UTF-8.
func (r *reader) text(s string) string {
	r.odd = r.odd || !utf8.ValidString(s)
	return s
}

// again returns b as a string. It returns *last, without allocating, if that is equal.
func (r *reader) again(last *string, b []byte) string {
	if string(b) != *last {
		*last = r.text(string(b))
	}
	return *last
}

// once sets odd if a field occurs a second time: the generated code merges such fields.
func (r *reader) once(first bool) { r.odd = r.odd || !first }
