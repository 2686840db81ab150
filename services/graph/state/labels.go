package state

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/uid"
)

// LabelsOf returns the labels of an object without decoding the rest of its body; none if the body
// cannot be decoded.
func (s *Snapshot) LabelsOf(u uid.UID) (labels map[string]string) {
	r := &s.r
	r.key = appendUIDKey(r.key[:0], tableBody, u)
	r.get("body", r.key, func(body []byte) error {
		labels = labelsOf(body)
		return nil
	})
	return labels
}

// labelsOf returns the field labels of an encoded Body, nil if it is malformed.
func labelsOf(body []byte) (labels map[string]string) {
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil
		}
		body = body[n:]
		if number != 1 || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
				return nil
			}
			body = body[n:]
			continue
		}
		entry, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return nil
		}
		body = body[n:]
		var pair [2]string
		for len(entry) > 0 {
			number, kind, n := protowire.ConsumeTag(entry)
			if n < 0 {
				return nil
			}
			entry = entry[n:]
			if kind != protowire.BytesType || number < 1 || number > 2 {
				return nil
			}
			text, n := protowire.ConsumeString(entry)
			if n < 0 || !utf8.ValidString(text) { // a reply with such a text could not be encoded
				return nil
			}
			pair[number-1], entry = text, entry[n:]
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[pair[0]] = pair[1]
	}
	return labels
}
