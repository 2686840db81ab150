package lifecycle

import (
	"encoding/json"
	"fmt"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// normalJSON checks the JSON that an object carries, and returns the object
// without duplicate members in it, each with a warning: o itself if there are none.
// Of duplicate members the last one counts, as in Kubernetes' API server
// (fieldValidation=Warn, its default). If there are causes, the object returned is o.
func normalJSON(o *coppicev1.Object) (normal *coppicev1.Object, warnings []string, causes []Cause) {
	spec, w, c := normalField("spec", "spec", o.GetSpec())
	warnings, causes = append(warnings, w...), append(causes, c...)
	status, w, c := normalField("status", "status", o.GetStatus())
	warnings, causes = append(warnings, w...), append(causes, c...)
	extra, w, c := normalField("extra", "", o.GetExtra())
	warnings, causes = append(warnings, w...), append(causes, c...)
	if len(c) == 0 {
		causes = append(causes, validateExtra(extra)...)
	}
	if len(causes) > 0 || len(warnings) == 0 {
		return o, warnings, causes
	}
	return &coppicev1.Object{
		ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Metadata: o.GetMetadata(), Spec: spec, Status: status, Extra: extra,
	}, warnings, causes
}

// normalField is normalJSON for one field. prefix is what its members are under
// in a manifest.
func normalField(field, prefix string, raw []byte) (normal []byte, warnings []string, causes []Cause) {
	if len(raw) == 0 {
		return raw, nil, nil
	}
	normal, duplicates, err := jsonvalue.Normalize(raw)
	if err != nil {
		return raw, nil, []Cause{invalidValue(field, "", err.Error())}
	}
	return normal, duplicateWarnings(prefix, duplicates), nil
}

func duplicateWarnings(prefix string, duplicates []string) []string {
	var warnings []string
	for _, path := range duplicates {
		switch {
		case prefix == "":
		case path != "" && path[0] == '[':
			path = prefix + path
		default:
			path = prefix + "." + path
		}
		warnings = append(warnings, fmt.Sprintf("duplicate field %q: the last value was taken", path))
	}
	return warnings
}

// validateExtra checks that extra, which is JSON, is an object, and has no
// members that an object has a field for.
func validateExtra(extra []byte) []Cause {
	if len(extra) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(extra, &members); err != nil || members == nil {
		return []Cause{invalidValue("extra", "", "must be a JSON object")}
	}
	var causes []Cause
	for _, name := range []string{"apiVersion", "kind", "metadata", "spec", "status"} {
		if _, ok := members[name]; ok {
			causes = append(causes, forbidden("extra."+name, "has a field of its own"))
		}
	}
	return causes
}
