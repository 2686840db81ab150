package jsonvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Decode is json.Decoder.Decode with DisallowUnknownFields, for a value that has
// passed Check, except that names must agree in case, as in Kubernetes:
// encoding/json takes "Finalizers" for "finalizers", so that a value could mean
// something else to another reader. Of duplicate members the last one counts.
func Decode(raw []byte, into any) error {
	raw, _, err := Normalize(raw)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	v, err := decode(raw)
	if err != nil {
		return err
	}
	return checkNames(v, reflect.TypeOf(into))
}

// checkNames returns an error if v, from which a value of type t was decoded, has a member with the
// exact name of no field. It does not check types that implement json.Unmarshaler.
func checkNames(v any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		if t.Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return nil
		}
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
			return nil
		}
		for _, item := range v {
			if err := checkNames(item, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		fields := fieldsOf(t)
		for name, member := range v {
			of, ok := fields[name]
			if !ok {
				return fmt.Errorf("json: unknown field %q", name)
			}
			if err := checkNames(member, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// fieldsOf are the types of the fields of a struct by their names in JSON. The
// structs that are decoded have tags, and embed none.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			name = t.Field(i).Name
		}
		fields[name] = t.Field(i).Type
	}
	return fields
}
