package jsonvalue

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fields is a set of members of a JSON value, in the format FieldsV1 of Kubernetes: the name
// "f:spec" stands for the member spec, `v:"x"` for the element "x" of a list that is a set, and
// `k:{"uid":"x"}` for the element of a list whose elements have keys. A member without members
// of its own has an empty set. The zero value is an empty set.
type Fields map[string]Fields

// The prefixes of names in Fields.
const (
	memberPrefix  = "f:"
	elementPrefix = "v:"
	keyPrefix     = "k:"
)

// FieldName returns the name of a member in Fields.
func FieldName(member string) string { return memberPrefix + member }

// ElementName returns the name of an element of a list that is a set.
func ElementName(element string) string {
	return elementPrefix + string(appendString(nil, "", element))
}

// KeyName returns the name of an element of a list whose elements have keys: pairs are the names
// and values of the key, of which empty ones are left out.
func KeyName(pairs ...string) string {
	b := []byte(keyPrefix + "{")
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = appendString(b, "", pairs[i])
		b = append(b, ':')
		b = appendString(b, "", pairs[i+1])
	}
	return string(append(b, '}'))
}

// ParseKey reads the names and values of a name that KeyName has returned.
func ParseKey(name string, into any) error {
	pairs, ok := strings.CutPrefix(name, keyPrefix)
	if !ok {
		return fmt.Errorf("%q is no key", name)
	}
	return json.Unmarshal([]byte(pairs), into)
}

// ParseFields reads a set that a FieldsWriter has written. No bytes are the empty set.
func ParseFields(raw []byte) (f Fields, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("the record of applied members: %w", err)
	}
	return f, nil
}

// FieldsWriter writes a set in the encoding that ParseFields reads. The order of members is that of the calls.
type FieldsWriter struct {
	b []byte
}

// NewFieldsWriter returns a FieldsWriter with room for some bytes.
func NewFieldsWriter(room int) *FieldsWriter {
	return &FieldsWriter{append(make([]byte, 0, room), '{')}
}

// Add writes an element of a list, or a member, without members.
func (w *FieldsWriter) Add(name string) {
	w.name("", name)
	w.b = append(w.b, "{}"...)
}

// AddMember writes a member without members.
func (w *FieldsWriter) AddMember(member string) {
	w.name(memberPrefix, member)
	w.b = append(w.b, "{}"...)
}

// Open begins an element of a list, and returns what Close needs to end it.
func (w *FieldsWriter) Open(name string) (mark int) { return w.open("", name) }

// OpenMember begins a member with members, and returns what Close needs to end it.
func (w *FieldsWriter) OpenMember(member string) (mark int) { return w.open(memberPrefix, member) }

func (w *FieldsWriter) open(prefix, name string) (mark int) {
	mark = len(w.b)
	w.name(prefix, name)
	w.b = append(w.b, '{')
	return mark
}

// Close ends what Open or OpenMember has begun. Without members it is removed.
func (w *FieldsWriter) Close(mark int) {
	if w.b[len(w.b)-1] == '{' {
		w.b = w.b[:mark]
		return
	}
	w.b = append(w.b, '}')
}

// AddValue writes a member with the members of a JSON value, which must have passed Check. Members
// that are null are left out.
func (w *FieldsWriter) AddValue(member string, raw []byte) {
	w.name(memberPrefix, member)
	s := fieldScanner{raw: raw, b: w.b}
	s.space()
	s.value()
	w.b = s.b
}

// AddMembers writes the members of a JSON object, as AddValue does.
func (w *FieldsWriter) AddMembers(raw []byte) {
	s := fieldScanner{raw: raw, b: w.b}
	s.space()
	if s.raw[s.at] != '{' {
		return
	}
	s.members()
	w.b = s.b
}

// Bytes returns the encoding, nil for the empty set. Nothing may be written afterwards.
func (w *FieldsWriter) Bytes() []byte {
	if len(w.b) == 1 {
		return nil
	}
	return append(w.b, '}')
}

func (w *FieldsWriter) name(prefix, name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(appendString(w.b, prefix, name), ':')
}

// appendString appends a JSON string that begins with prefix.
func appendString(b []byte, prefix, s string) []byte {
	plain := true
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != '"' && s[i] != '\\' && s[i] < utf8.RuneSelf
	}
	if plain {
		b = append(b, '"')
		b = append(b, prefix...)
		b = append(b, s...)
		return append(b, '"')
	}
	quoted, err := json.Marshal(prefix + s)
	if err != nil {
		panic(err) // a string has no error
	}
	return append(b, quoted...)
}

// fieldScanner reads JSON that has passed Check.
type fieldScanner struct {
	raw []byte
	at  int
	b   []byte
}

func (s *fieldScanner) space() {
	for s.at < len(s.raw) && isSpace(s.raw[s.at]) {
		s.at++
	}
}

// value reads a value, and appends its set.
func (s *fieldScanner) value() {
	if s.raw[s.at] != '{' {
		s.skip()
		s.b = append(s.b, '{', '}')
		return
	}
	s.b = append(s.b, '{')
	s.members()
	s.b = append(s.b, '}')
}

// members reads an object, and appends its members.
func (s *fieldScanner) members() {
	for s.at++; ; {
		s.space()
		switch s.raw[s.at] {
		case '}':
			s.at++
			return
		case ',':
			s.at++
			s.space()
		}
		begin := s.at
		s.text()
		name := s.raw[begin+1 : s.at] // with the closing quote
		s.space()
		s.at++ // the colon
		s.space()
		if s.raw[s.at] == 'n' {
			s.skip()
			continue
		}
		if s.b[len(s.b)-1] != '{' {
			s.b = append(s.b, ',')
		}
		s.b = append(s.b, '"')
		s.b = append(s.b, memberPrefix...)
		s.b = append(s.b, name...)
		s.b = append(s.b, ':')
		s.value()
	}
}

// text reads a string.
func (s *fieldScanner) text() {
	for s.at++; s.raw[s.at] != '"'; s.at++ {
		if s.raw[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// skip reads a value that has no members to append.
func (s *fieldScanner) skip() {
	for depth := 0; s.at < len(s.raw); {
		switch c := s.raw[s.at]; c {
		case '"':
			s.text()
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			if depth == 0 {
				return // the end of the object around a number or a word
			}
			depth--
			s.at++
		case ',':
			if depth == 0 {
				return
			}
			s.at++
			continue
		default:
			s.at++
			continue
		}
		if depth == 0 {
			return
		}
	}
}

// Minus returns the members of f that g does not have.
func (f Fields) Minus(g Fields) Fields {
	var rest Fields
	keep := func(name string, members Fields) {
		if rest == nil {
			rest = Fields{}
		}
		rest[name] = members
	}
	for name, members := range f {
		has, ok := g[name]
		if !ok {
			keep(name, members)
		} else if less := members.Minus(has); len(less) > 0 {
			keep(name, less)
		}
	}
	return rest
}

// Has reports whether the set has a member.
func (f Fields) Has(name string) bool {
	_, ok := f[name]
	return ok
}

// Of returns the members of a member.
func (f Fields) Of(member string) Fields { return f[FieldName(member)] }

// ApplyPatch is MergePatch of the document without the members in lost: those that an earlier patch has
// set, and this one does not have. Members that lost does not name stay, and so do the members around them.
// An empty patch merges nothing. The result is empty if nothing is left.
func ApplyPatch(doc, patch []byte, lost Fields) ([]byte, error) {
	return applyPatch(doc, patch, len(lost) > 0, func(was any) any {
		if members, ok := was.(map[string]any); ok && !without(members, lost) {
			return nil
		}
		return was
	})
}

// ApplyMember is ApplyPatch for the value of a member. lost names members of the object that has the member.
func ApplyMember(name string, doc, patch []byte, lost Fields) ([]byte, error) {
	return applyPatch(doc, patch, lost.Has(FieldName(name)), func(was any) any {
		object := map[string]any{name: was}
		without(object, lost)
		return object[name]
	})
}

// applyPatch is MergePatch of what reduce leaves of the document, if the document loses anything.
func applyPatch(doc, patch []byte, loses bool, reduce func(any) any) ([]byte, error) {
	if loses && len(doc) > 0 {
		was, err := decode(doc)
		if err != nil {
			return nil, fmt.Errorf("apply: the document: %w", err)
		}
		if was = reduce(was); was == nil {
			doc = nil
		} else if doc, err = encode(was); err != nil {
			return nil, fmt.Errorf("apply: %w", err)
		}
	}
	if len(patch) == 0 {
		return doc, nil
	}
	return MergePatch(doc, patch)
}

// without removes members of an object, and reports whether any are left. A map that replaces a value without
// members stays, because others have set its members.
func without(object map[string]any, lost Fields) (left bool) {
	for name, of := range lost {
		name, ok := strings.CutPrefix(name, memberPrefix)
		if !ok {
			continue
		}
		inner, nested := object[name].(map[string]any)
		if nested && len(inner) > 0 && (len(of) == 0 || without(inner, of)) {
			continue
		}
		delete(object, name)
	}
	return len(object) > 0
}
