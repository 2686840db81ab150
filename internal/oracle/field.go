package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// path returns the members that lead to a field.
func path(field string) []string {
	switch field {
	case "labels", "annotations", "finalizers", "ownerReferences":
		return []string{"metadata", field}
	}
	return strings.Split(field, ".")
}

// setField sets a field of an object to a value as tables spell it: see the package comment.
// The value "-" leaves the field out.
func setField(o Object, field, value string) error {
	at, names := map[string]any(o), path(field)
	if value == "-" {
		names = names[:len(names)-1]
	}
	for i, name := range names {
		if i == len(names)-1 && value != "-" {
			v, err := parseValue(field, value)
			at[name] = v
			return err
		}
		below := map[string]any{}
		at[name] = below
		at = below
	}
	return nil
}

func parseValue(field, value string) (any, error) {
	switch list, is := strings.CutPrefix(value, "["); {
	case is:
		members := []any{}
		for _, word := range strings.Fields(strings.TrimSuffix(list, "]")) {
			members = append(members, parseMember(field, word))
		}
		return members, nil
	case value == "null":
		return nil, nil
	case value == "{}":
		value = ""
	}
	m := map[string]any{}
	for _, word := range strings.Fields(value) {
		key, text, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no value of %s", value, field)
		}
		if m[key] = any(text); text == "null" {
			m[key] = nil
		}
	}
	return m, nil
}

const finalizerPrefix = "example.com/"

// parseMember reads the member of a list. A member that ends with an exclamation mark is an
// owner reference with blockOwnerDeletion.
func parseMember(field, word string) any {
	switch field {
	case "finalizers":
		return finalizerPrefix + word
	case "ownerReferences":
		name, blocks := strings.CutSuffix(word, "!")
		r := map[string]any{"apiVersion": apiVersion, "kind": "Rack", "name": name, "uid": name + "0000000-0000-4000-8000-000000000000"}
		if blocks {
			r["blockOwnerDeletion"] = true
		}
		return r
	}
	return word
}

// fieldOf describes a field of an object as tables spell it, and other fields that the object
// has.
func fieldOf(o Object, field string) string {
	if o == nil {
		return "gone"
	}
	rest := maps.Clone(shown(o))
	text := "-"
	at, is := any(rest), true
	names := path(field)
	if names[0] == "metadata" {
		names = names[1:]
	}
	var parent map[string]any
	for _, name := range names {
		parent, _ = at.(map[string]any)
		if at, is = parent[name]; !is {
			break
		}
	}
	if is {
		text = spell(field, at)
		delete(rest, names[0])
		if len(names) > 1 {
			if delete(parent, names[1]); len(parent) > 0 {
				rest[names[0]] = parent
			}
		}
	}
	if spec, ok := rest["spec"].(map[string]any); ok && len(spec) == 0 && len(names) > 1 {
		delete(rest, "spec")
	}
	if len(rest) > 0 {
		text += " and " + describeFields(rest)
	}
	return text
}

// spell is the inverse of parseValue.
func spell(field string, value any) string {
	var words []string
	switch v := value.(type) {
	case nil:
		return "null"
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, is := v[key].(string)
			if !is {
				text = compact(v[key])
			}
			words = append(words, key+"="+text)
		}
		return strings.Join(words, " ")
	case []any:
		for _, member := range v {
			words = append(words, spellMember(field, member))
		}
		return "[" + strings.Join(words, " ") + "]"
	}
	return compact(value)
}

func spellMember(field string, member any) string {
	switch v := member.(type) {
	case string:
		if field == "finalizers" {
			return strings.TrimPrefix(v, finalizerPrefix)
		}
		return v
	case map[string]any:
		name, _ := v["name"].(string)
		word := name
		if v["blockOwnerDeletion"] == true {
			word += "!"
		}
		if compact(parseMember(field, word)) == compact(v) {
			return word
		}
	}
	return compact(member)
}

// lastApplied is the annotation in which kubectl stores the manifest.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// shown returns the fields of an object that steps and tables show.
func shown(o Object) map[string]any {
	fields := map[string]any{}
	for _, field := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if v, is := o.metadata()[field]; is {
			fields[field] = v
		}
	}
	if a, is := fields["annotations"].(map[string]any); is {
		a = maps.Clone(a)
		fields["annotations"] = a
		if _, is := a[lastApplied]; is {
			if delete(a, lastApplied); len(a) == 0 {
				delete(fields, "annotations")
			}
		}
	}
	for _, field := range []string{"spec", "data"} {
		if v, is := o[field]; is {
			fields[field] = v
		}
	}
	return fields
}

// describe describes the fields of an object that shown returns.
func describe(o Object) string {
	if o == nil {
		return "no object"
	}
	fields := shown(o)
	if len(fields) == 0 {
		return "-"
	}
	return describeFields(fields)
}

func describeFields(fields map[string]any) string {
	var words []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		words = append(words, field+"="+compact(fields[field]))
	}
	return strings.Join(words, " ")
}

func compact(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	return string(raw)
}
