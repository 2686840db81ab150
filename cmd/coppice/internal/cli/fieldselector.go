package cli

import (
	"strings"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// FieldSelector selects objects by name and namespace, as kubectl's --field-selector.
type FieldSelector []fieldRequirement

type fieldRequirement struct {
	field, value string
	not          bool
}

// The fields that can be selected by.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// ParseFieldSelector reads --field-selector.
func ParseFieldSelector(text string) (FieldSelector, error) {
	var s FieldSelector
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		var r fieldRequirement
		var ok bool
		if r.field, r.value, ok = strings.Cut(part, "!="); ok {
			r.not = true
		} else if r.field, r.value, ok = strings.Cut(part, "=="); !ok {
			r.field, r.value, ok = strings.Cut(part, "=")
		}
		if !ok {
			return nil, UsageErrorf("--field-selector: %q is not FIELD=VALUE or FIELD!=VALUE", part)
		}
		if r.field != fieldName && r.field != fieldNamespace {
			return nil, UsageErrorf("--field-selector: the field %q is not supported; there are %s and %s", r.field, fieldName, fieldNamespace)
		}
		s = append(s, r)
	}
	return s, nil
}

// Matches reports whether the selector selects an object.
func (s FieldSelector) Matches(o *coppicev1.Object) bool {
	for _, r := range s {
		value := o.GetMetadata().GetName()
		if r.field == fieldNamespace {
			value = o.GetMetadata().GetNamespace()
		}
		if (value == r.value) == r.not {
			return false
		}
	}
	return true
}

// equal returns the value that the selector requires of a field.
func (s FieldSelector) equal(field string) (string, bool) {
	for _, r := range s {
		if r.field == field && !r.not {
			return r.value, true
		}
	}
	return "", false
}

// narrow returns the target, restricted by what the selector requires, so that as
// little as possible is read. named reports that the object is now asked for by name:
// that it does not exist is no error. labels is the selector of labels, which only a list has.
func (s FieldSelector) narrow(t Target, w Where, labels string) (narrowed Target, named bool) {
	if ns, ok := s.equal(fieldNamespace); ok && w.AllNamespaces && t.namespace == "" {
		t.namespace = ns
	}
	name, ok := s.equal(fieldName)
	if ok && name != "" && labels == "" && len(t.Names) == 0 && (t.namespace != "" || !w.AllNamespaces || !t.Kind.Namespaced()) {
		t.Names = []string{name}
		return t, true
	}
	return t, false
}
