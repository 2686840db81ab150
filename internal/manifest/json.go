// Package manifest converts objects to and from manifests: JSON in the shape
// in which kubectl prints it. Package manifestfile reads and writes files of them.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// FromJSON reads one manifest. Members other than apiVersion, kind, metadata,
// spec and status are kept as the object's extra. It does not check what the rules of
// internal/lifecycle check.
func FromJSON(data []byte) (*coppicev1.Object, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not a manifest: must be UTF-8")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("not a manifest: %w", err)
	}
	if members == nil {
		return nil, errors.New("not a manifest: null")
	}
	o := &coppicev1.Object{}
	var m meta
	for _, f := range []struct {
		name string
		into any
	}{{"apiVersion", &o.ApiVersion}, {"kind", &o.Kind}, {"metadata", &m}} {
		raw, ok := members[f.name]
		if !ok {
			continue
		}
		if err := jsonvalue.Decode(raw, f.into); err != nil {
			return nil, describe(f.name, err)
		}
		delete(members, f.name)
	}
	for name, into := range map[string]*[]byte{"spec": &o.Spec, "status": &o.Status} {
		if raw, ok := members[name]; ok {
			if !bytes.Equal(raw, []byte("null")) {
				*into = compact(raw)
			}
			delete(members, name)
		}
	}
	if len(members) > 0 {
		extra, err := EncodeJSON(members) // sorted by name, compact
		if err != nil {
			return nil, fmt.Errorf("not a manifest: %w", err)
		}
		o.Extra = extra
	}
	o.Metadata = m.proto()
	return o, nil
}

// FieldError says what is wrong with a member of a manifest.
type FieldError struct {
	Path []string // the names that lead to the member
	what string
}

func (e *FieldError) Error() string { return e.what }

// describe adds the path of the field to an error of encoding/json.
func describe(field string, err error) error {
	if known := (*FieldError)(nil); errors.As(err, &known) {
		return known
	}
	fail := func(format string, args ...any) error {
		return &FieldError{Path: strings.Split(field, "."), what: field + ": " + fmt.Sprintf(format, args...)}
	}
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		field = strings.Trim(field+"."+t.Field, ".")
		return fail("must be %s, not %s", jsonType(t.Type.String()), t.Value)
	}
	if strings.HasPrefix(err.Error(), field+".") {
		return err
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fail("unknown field %s", name)
	}
	return fail("%v", err)
}

func jsonType(goType string) string {
	switch {
	case strings.HasPrefix(goType, "map[") || strings.HasPrefix(goType, "manifest."):
		return "an object"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasSuffix(goType, "bool"):
		return "true or false"
	case strings.HasSuffix(goType, "int64"):
		return "a number"
	}
	return "a string"
}

func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw // not reached: raw was parsed before
	}
	return b.Bytes()
}

// EncodeJSON is json.Marshal without HTML escapes.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ToJSON writes the manifest of an object as compact JSON. The members have the order in
// which kubectl prints them: apiVersion, those of extra, kind, metadata, spec, status.
// ToJSON fails if spec, status or extra are not JSON.
func ToJSON(o *coppicev1.Object) ([]byte, error) {
	var b bytes.Buffer
	member := func(name string, value any) error {
		v, err := EncodeJSON(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		n, err := EncodeJSON(name)
		if err != nil {
			return err
		}
		b.Write(n)
		b.WriteByte(':')
		b.Write(v)
		return nil
	}
	b.WriteByte('{')
	if err := member("apiVersion", o.GetApiVersion()); err != nil {
		return nil, err
	}
	if err := eachExtra(o, member); err != nil {
		return nil, err
	}
	if err := member("kind", o.GetKind()); err != nil {
		return nil, err
	}
	if err := member("metadata", metaOf(o.GetMetadata())); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		raw  []byte
	}{{"spec", o.GetSpec()}, {"status", o.GetStatus()}} {
		if len(f.raw) > 0 {
			if err := member(f.name, json.RawMessage(f.raw)); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func eachExtra(o *coppicev1.Object, member func(string, any) error) error {
	if len(o.GetExtra()) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(o.GetExtra()))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("extra: not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return fmt.Errorf("extra: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("extra: %w", err)
		}
		if err := member(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// Generic returns the manifest of an object as encoding/json decodes it, with numbers as
// json.Number.
func Generic(o *coppicev1.Object) (any, error) {
	raw, err := ToJSON(o)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return v, nil
}
