package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var (
	objectName = (*coppicev1.Object)(nil).ProtoReflect().Descriptor().FullName()
	patchField = (*coppicev1.Patch)(nil).ProtoReflect().Descriptor().Fields().ByName("patch")
)

// MarshalMessage writes a message as protojson does, with two exceptions: objects are
// written as manifests, and a patch as the JSON that it is.
func MarshalMessage(m proto.Message) ([]byte, error) { return marshal(m.ProtoReflect()) }

// MarshalWithObject writes a message that has no field "object" as MarshalMessage does, with an object that is
// encoded already. So an object that many messages have is encoded once.
func MarshalWithObject(m proto.Message, object []byte) ([]byte, error) {
	rest, err := MarshalMessage(m)
	if err != nil {
		return nil, err
	}
	const begin = `{"object":`
	data := make([]byte, 0, len(begin)+len(object)+len(rest))
	data = append(append(data, begin...), object...)
	if rest = rest[1:]; rest[0] != '}' {
		data = append(data, ',')
	}
	return append(data, rest...), nil
}

// UnmarshalMessage reads what MarshalMessage writes. It refuses unknown fields.
func UnmarshalMessage(data []byte, m proto.Message) error {
	if !utf8.Valid(data) {
		return errors.New("must be UTF-8") // encoding/json would replace invalid bytes
	}
	return unmarshal(data, m.ProtoReflect())
}

// special reports whether a field is not written as protojson writes it.
func special(f protoreflect.FieldDescriptor) bool {
	return f == patchField || f.Message() != nil && !f.IsMap() && needsUs(f.Message())
}

var needs sync.Map // full name of a message to bool

// needsUs reports whether a message is an object, or has a special field at any depth.
// The messages of coppice.v1 are not recursive, so the search ends.
func needsUs(d protoreflect.MessageDescriptor) bool {
	if d.FullName() == objectName {
		return true
	}
	if known, ok := needs.Load(d.FullName()); ok {
		return known.(bool)
	}
	found := false
	for i := range d.Fields().Len() {
		found = found || special(d.Fields().Get(i))
	}
	needs.Store(d.FullName(), found)
	return found
}

func marshal(m protoreflect.Message) ([]byte, error) {
	if m.Descriptor().FullName() == objectName {
		return ToJSON(m.Interface().(*coppicev1.Object))
	}
	if !needsUs(m.Descriptor()) {
		return protojson.Marshal(m.Interface())
	}
	plain := m.New()
	members := map[string]json.RawMessage{}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case !special(f):
			plain.Set(f, v)
		case f == patchField:
			members[f.JSONName()] = v.Bytes()
		case f.IsList():
			list := make([]json.RawMessage, v.List().Len())
			for i := range list {
				if list[i], err = marshal(v.List().Get(i).Message()); err != nil {
					return false
				}
			}
			members[f.JSONName()], err = EncodeJSON(list)
		default:
			members[f.JSONName()], err = marshal(v.Message())
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	rest, err := protojson.Marshal(plain.Interface())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(rest, &members); err != nil {
		return nil, err
	}
	return EncodeJSON(members)
}

func unmarshal(data []byte, m protoreflect.Message) error {
	if m.Descriptor().FullName() == objectName {
		o, err := FromJSON(data)
		if err != nil {
			return err
		}
		proto.Merge(m.Interface(), o)
		return nil
	}
	if !needsUs(m.Descriptor()) {
		return protojson.Unmarshal(data, m.Interface())
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	taken := map[string]json.RawMessage{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !special(f) {
			continue
		}
		for _, name := range []string{f.JSONName(), f.TextName()} {
			if raw, ok := members[name]; ok {
				taken[f.JSONName()] = raw
				delete(members, name)
			}
		}
	}
	rest, err := EncodeJSON(members)
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(rest, m.Interface()); err != nil {
		return err
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		raw, ok := taken[f.JSONName()]
		if !ok || !special(f) {
			continue
		}
		if err := set(m, f, raw); err != nil {
			return err
		}
	}
	return nil
}

func set(m protoreflect.Message, f protoreflect.FieldDescriptor, raw json.RawMessage) error {
	switch {
	case f == patchField:
		m.Set(f, protoreflect.ValueOfBytes(compact(raw)))
	case f.IsList():
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("%s: %w", f.JSONName(), err)
		}
		for i, raw := range list {
			v := m.Mutable(f).List().NewElement()
			if err := unmarshal(raw, v.Message()); err != nil {
				return fmt.Errorf("%s[%d]: %w", f.JSONName(), i, err)
			}
			m.Mutable(f).List().Append(v)
		}
	default:
		if err := unmarshal(raw, m.Mutable(f).Message()); err != nil {
			return fmt.Errorf("%s: %w", f.JSONName(), err)
		}
	}
	return nil
}
