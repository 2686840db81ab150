// Package objectcodec encodes and decodes requests with objects, their replies, and the
// bodies of objects without reflection, because every created or updated object passes
// through them. The encoding is exactly that of the .proto files; tests compare it with
// the generated code.
//
// A message with rare or malformed fields is passed to the generated code instead.
package objectcodec

import (
	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Field numbers.
const (
	requestObjects  = 1
	requestAtomic   = 2
	requestDryRun   = 3
	requestReturn   = 4
	requestStrict   = 5
	requestProtocol = 15

	replyResults  = 1
	replyRevision = 2

	resultCode     = 1
	resultObject   = 2
	resultError    = 3
	resultWarnings = 4

	objectAPIVersion = 1
	objectKind       = 2
	objectMetadata   = 3
	objectSpec       = 4
	objectStatus     = 5
	objectExtra      = 6

	metaName            = 1
	metaGenerateName    = 2
	metaNamespace       = 3
	metaUID             = 4
	metaResourceVersion = 5
	metaGeneration      = 6
	metaCreation        = 7
	metaDeletion        = 8
	metaGracePeriod     = 9
	metaLabels          = 10
	metaAnnotations     = 11
	metaOwners          = 12
	metaFinalizers      = 13
	metaInitializers    = 14

	ownerAPIVersion = 1
	ownerKind       = 2
	ownerName       = 3
	ownerUID        = 4
	ownerController = 5
	ownerBlocking   = 6

	timeSeconds = 1
	timeNanos   = 2

	entryKey   = 1
	entryValue = 2

	bodyLabels       = 1
	bodyAnnotations  = 2
	bodyGenerateName = 3
	bodySpec         = 4
	bodyStatus       = 5
	bodyExtra        = 6
	bodyResult       = 7
	bodyApplied      = 8
)

// Marshal encodes m as proto.Marshal does. Only ObjectsRequest and ObjectsReply are
// encoded without reflection.
func Marshal(m proto.Message) ([]byte, error) {
	var w writer
	switch m := m.(type) {
	case *coppicev1.ObjectsRequest:
		w.request(m)
	case *coppicev1.ObjectsReply:
		w.reply(m)
	default:
		return proto.Marshal(m)
	}
	if w.odd {
		return proto.Marshal(m)
	}
	return w.b, nil
}

// Unmarshal decodes b into m as proto.Unmarshal does. Only ObjectsRequest and
// ObjectsReply are decoded without reflection.
func Unmarshal(b []byte, m proto.Message) error {
	var r reader
	switch m := m.(type) {
	case *coppicev1.ObjectsRequest:
		m.Reset()
		r.request(b, m)
	case *coppicev1.ObjectsReply:
		m.Reset()
		r.reply(b, m)
	default:
		return proto.Unmarshal(b, m)
	}
	if r.odd {
		return proto.Unmarshal(b, m)
	}
	return nil
}

// MarshalBody returns the deterministic encoding of a body, which is never nil.
func MarshalBody(body *coppicev1.Body) ([]byte, error) {
	var w writer
	w.body(body)
	if !w.odd {
		return w.b, nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(body)
	if b == nil {
		b = []byte{}
	}
	return b, err
}
