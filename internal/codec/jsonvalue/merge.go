package jsonvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MergePatch returns the document to which a JSON merge patch changes doc
// (RFC 7386). Both must have passed Check, and doc may be empty for none. Of
// duplicate members the last one counts.
//
// Members of the patch that are null remove those of doc. Null in an array
// stays, as an array replaces what was there. (Kubernetes' API server deviates
// from the RFC: it drops members that are null in objects in arrays.)
func MergePatch(doc, patch []byte) ([]byte, error) {
	change, err := decode(patch)
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	var was any
	if len(doc) > 0 {
		if was, err = decode(doc); err != nil {
			return nil, fmt.Errorf("merge patch: the document: %w", err)
		}
	}
	merged, err := encode(merge(was, change))
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	return merged, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode keeps numbers as they are spelled.
func decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// merge changes doc. It is recursive to the depth of the patch, at most MaxDepth.
func merge(doc, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	members, ok := doc.(map[string]any)
	if !ok {
		members = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(members, name)
		} else {
			members[name] = merge(members[name], change)
		}
	}
	return members
}
