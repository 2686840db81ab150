package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// resolve returns the name on the server and the uid of an object that a script names.
type resolve func(k Kind, name string) (called, uid string)

// fill sets the fields of the object that the call names.
func (c *call) fill(o, stored Object, find resolve) error {
	m := o.metadata()
	for _, field := range []string{"apiVersion", "kind"} {
		if c.has(field) {
			o[field] = c.text(field)
		}
	}
	for _, field := range []string{"spec", "status"} {
		if !c.has(field) {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(c.text(field)), &v); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		o[field] = v
	}
	for key, field := range map[string]string{
		"name": "name", "namespace": "namespace", "generateName": "generateName", "uid": "uid", "rv": "resourceVersion",
		"created": "creationTimestamp", "deleted": "deletionTimestamp",
	} {
		if c.has(key) {
			c.set(m, field, c.orIts(key, field, stored))
		}
	}
	for key, field := range map[string]string{"generation": "generation", "grace": "deletionGracePeriodSeconds"} {
		switch {
		case !c.has(key):
		case c.values[key][0] == "none":
			c.set(m, field, c.text(key))
		default:
			n, err := c.number(key)
			if err != nil {
				return err
			}
			m[field] = n
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if c.has(field) {
			m[field] = pairs(c.list(field))
		}
	}
	switch {
	case !c.has("finalizers"):
	case c.values["finalizers"][0] == "none":
		c.set(m, "finalizers", c.text("finalizers"))
	default:
		m["finalizers"] = expanded(c.list("finalizers"))
	}
	if !c.has("owners") {
		return nil
	}
	owners := []any{}
	for _, text := range c.list("owners") {
		r, err := reference(text, find)
		if err != nil {
			return err
		}
		owners = append(owners, r)
	}
	m["ownerReferences"] = owners
	return nil
}

// set sets a field. "none" leaves it out; a patch removes it.
func (c *call) set(m map[string]any, field, value string) {
	switch {
	case value != "none":
		m[field] = value
	case c.verb == Patch:
		m[field] = nil
	default:
		delete(m, field)
	}
}

func pairs(list []string) map[string]any {
	m := map[string]any{}
	for _, pair := range list {
		key, value, _ := strings.Cut(pair, "=")
		m[expand(key)] = expand(value)
	}
	return m
}

func expanded(list []string) []any {
	all := []any{}
	for _, text := range list {
		all = append(all, expand(text))
	}
	return all
}

// reference reads an owner reference: Widget/a blocking=true. Its uid is the uid of the
// object, or one that no object has (uid=other), or the uid of another object
// (of=Widget/b).
func reference(text string, find resolve) (map[string]any, error) {
	r := map[string]any{"apiVersion": "", "kind": "", "name": "", "uid": ""}
	for _, word := range strings.Fields(text) {
		key, value, said := strings.Cut(word, "=")
		switch key {
		case "apiVersion", "kind", "name", "uid":
			r[key] = expand(value)
		case "blocking":
			r["blockOwnerDeletion"] = value == "true"
		case "controller":
			r["controller"] = value == "true"
		case "of":
			o, err := referred(value, find)
			if err != nil {
				return nil, err
			}
			r["uid"] = o["uid"]
		default:
			o, err := referred(word, find)
			if err != nil || said {
				return nil, fmt.Errorf("a reference has no %q", word)
			}
			maps.Copy(r, o)
		}
	}
	return r, nil
}

// referred returns a reference to the object that the script names Widget/a.
func referred(object string, find resolve) (map[string]any, error) {
	kind, name, is := strings.Cut(object, "/")
	k, known := kindOf(func(k Kind) bool { return k.Kind == kind })
	if !is || !known {
		return nil, fmt.Errorf("there can be no %s", object)
	}
	called, uid := find(k, name)
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "name": called, "uid": uid}, nil
}
