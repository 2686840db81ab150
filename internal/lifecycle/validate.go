package lifecycle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/labelname"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Limits of metadata, in bytes (A1.14).
const (
	maxName        = 253
	maxLabelValue  = 63
	maxAnnotations = 256 << 10
)

// maxListed is how many owner references, finalizers and initializers an object
// has at most, each: every command on the object, and every evaluation of it,
// reads them all.
const maxListed = 1000

var kindPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,62}$`)

func checkLabel(field, s string) []Cause {
	if len(s) > 63 || !labelname.IsLabel(s) {
		return []Cause{invalidValue(field, s, "a lowercase RFC 1123 label must consist of at most 63 lower case alphanumeric characters or '-', and must start and end with an alphanumeric character")}
	}
	return nil
}

func checkSubdomain(field, s string) []Cause {
	if len(s) > maxName || !labelname.IsSubdomain(s) {
		return []Cause{invalidValue(field, s, "a lowercase RFC 1123 subdomain must consist of at most 253 lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character")}
	}
	return nil
}

// checkName accepts what can be a segment of a path, as Kubernetes does for
// names in general. Most of its kinds want a subdomain; some, such as roles,
// do not, and import must take them all.
func checkName(field, s string) []Cause {
	switch why := nameFault(s); {
	case why != "":
		return []Cause{invalidValue(field, s, why)}
	case len(s) > maxName:
		return []Cause{tooLong(field, maxName)}
	}
	return nil
}

// nameFault returns what is wrong with a name of any length, "" if nothing.
func nameFault(s string) string {
	switch {
	case s == "." || s == "..":
		return "may not be '.' or '..'"
	case strings.ContainsAny(s, "/%"):
		return "may not contain '/' or '%'"
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return "may not contain spaces or control characters"
		}
	}
	return ""
}

// CheckName returns an error if no object can have the name.
func CheckName(name string) *Error {
	switch why := nameFault(name); {
	case name == "":
		return ErrBadRequest("it may not be empty")
	case why != "":
		return ErrBadRequest("it %s", why)
	case len(name) > maxName:
		return ErrBadRequest("it has %d bytes, at most %d", len(name), maxName)
	}
	return nil
}

// validateMeta checks what create and update have in common. The caller has
// checked name and namespace, and has removed duplicates from the owners: what
// is there twice is no contradiction (A1.9).
func validateMeta(m *coppicev1.ObjectMeta, owners []*coppicev1.OwnerReference) []Cause {
	var causes []Cause
	for _, k := range invalidKeys(m.GetLabels(), func(k, v string) bool { return labelname.QualifiedName(k) == "" && labelname.IsLabelValue(v) }) {
		if why := labelname.QualifiedName(k); why != "" {
			causes = append(causes, invalidValue("metadata.labels", k, why))
		}
		if v := m.GetLabels()[k]; !labelname.IsLabelValue(v) {
			causes = append(causes, invalidValue("metadata.labels", v, "a valid label must be an empty string or consist of at most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"))
		}
	}
	size := 0
	for _, k := range invalidKeys(m.GetAnnotations(), func(k, v string) bool {
		size += len(k) + len(v)
		return labelname.QualifiedName(strings.ToLower(k)) == ""
	}) {
		causes = append(causes, invalidValue("metadata.annotations", k, labelname.QualifiedName(strings.ToLower(k))))
	}
	if size > maxAnnotations {
		causes = append(causes, tooLong("metadata.annotations", maxAnnotations))
	}
	causes = append(causes, validateFinalizers(m.GetFinalizers())...)
	causes = append(causes, validateUses(m.GetUses())...)
	return append(causes, validateOwners(owners)...)
}

// finalizerName reports what is wrong with the name of a finalizer, "" if nothing.
func finalizerName(s string) string {
	why := labelname.QualifiedName(s)
	if why == "" && strings.Contains(s, "..") {
		why = "must not contain '..': a finalizer is part of a subject"
	}
	return why
}

// validateFinalizers checks names and that the two built-in policies do not
// contradict each other (A1.10). Duplicates are kept verbatim (A1.11).
func validateFinalizers(list []string) []Cause {
	if len(list) > maxListed {
		return []Cause{tooMany("metadata.finalizers", len(list), maxListed)}
	}
	var causes []Cause
	for i, f := range list {
		if why := finalizerName(f); why != "" {
			causes = append(causes, invalidValue(fmt.Sprintf("metadata.finalizers[%d]", i), f, why))
		}
	}
	if slices.Contains(list, FinalizerOrphan) && slices.Contains(list, FinalizerForeground) {
		causes = append(causes, invalidValue("metadata.finalizers", fmt.Sprint(list),
			fmt.Sprintf("finalizer %s and %s cannot be both set", FinalizerOrphan, FinalizerForeground)))
	}
	return causes
}

// finalizerWarnings has the advice of A1.12 on those of the list that were not
// there before.
func finalizerWarnings(before, list []string) []string {
	var warnings []string
	known := oneOf(before)
	for i, f := range list {
		if known(f) {
			continue
		}
		if !strings.Contains(f, "/") && !IsBuiltinFinalizer(f) && f != "kubernetes" {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers[%d]: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", i, f))
		}
	}
	return warnings
}

// validateOwners checks references on their face (A1.5 to A1.7). That the
// owner exists, and is what the reference says, is not checked here or
// anywhere before the collector classifies it (A1.8).
func validateOwners(refs []*coppicev1.OwnerReference) []Cause {
	if len(refs) > maxListed {
		return []Cause{tooMany("metadata.ownerReferences", len(refs), maxListed)}
	}
	var causes []Cause
	var controller *coppicev1.OwnerReference
	for i, r := range refs {
		field := func(of string) string { return fmt.Sprintf("metadata.ownerReferences[%d]%s", i, of) }
		if VersionOf(r.GetApiVersion()) == "" {
			causes = append(causes, invalidValue(field(".apiVersion"), r.GetApiVersion(), "version must not be empty"))
		}
		if strings.Count(r.GetApiVersion(), "/") > 1 {
			causes = append(causes, invalidValue(field(".apiVersion"), r.GetApiVersion(), "must be <group>/<version> or <version>"))
		}
		if r.GetKind() == "" {
			causes = append(causes, invalidValue(field(".kind"), "", "must not be empty"))
		}
		if r.GetName() == "" {
			causes = append(causes, invalidValue(field(".name"), "", "must not be empty"))
		}
		if r.GetUid() == "" {
			causes = append(causes, invalidValue(field(".uid"), "", "must not be empty"))
		} else if _, err := uid.Parse(r.GetUid()); err != nil {
			causes = append(causes, invalidValue(field(".uid"), r.GetUid(), err.Error()))
		}
		for _, part := range []struct{ name, value string }{
			{"apiVersion", r.GetApiVersion()}, {"kind", r.GetKind()}, {"name", r.GetName()},
		} {
			if len(part.value) > maxName {
				causes = append(causes, tooLong(field("."+part.name), maxName))
			} else if strings.ContainsRune(part.value, 0) {
				causes = append(causes, invalidValue(field("."+part.name), part.value, "may not contain NUL"))
			}
		}
		if GroupOf(r.GetApiVersion()) == "" && VersionOf(r.GetApiVersion()) == "v1" && r.GetKind() == "Event" {
			causes = append(causes, invalidValue(field(""), r.GetApiVersion()+" "+r.GetKind(), "is disallowed from being an owner"))
		}
		if r.GetController() {
			if controller != nil {
				causes = append(causes, invalidValue("metadata.ownerReferences", "", fmt.Sprintf(
					"Only one reference can have Controller set to true. Found \"true\" in references for %s/%s and %s/%s",
					controller.GetKind(), controller.GetName(), r.GetKind(), r.GetName())))
			} else {
				controller = r
			}
		}
	}
	return causes
}

// dedupOwners removes references that are equal in every field (A1.9). It
// returns refs itself if there are none, or too many to be valid.
func dedupOwners(refs []*coppicev1.OwnerReference) (unique []*coppicev1.OwnerReference, warnings []string) {
	if len(refs) < 2 || len(refs) > maxListed {
		return refs, nil
	}
	type equal struct {
		uid, name, kind, apiVersion string
		controller, blocking        Ternary
	}
	type named struct{ kind, name string }
	seen, warned := make(map[equal]bool, len(refs)), map[named]bool{}
	for _, r := range refs {
		key := equal{
			r.GetUid(), r.GetName(), r.GetKind(), r.GetApiVersion(), TernaryOf(r.Controller), TernaryOf(r.BlockOwnerDeletion),
		}
		if !seen[key] {
			seen[key] = true
			unique = append(unique, r)
			continue
		}
		if name := (named{r.GetKind(), r.GetName()}); !warned[name] {
			warned[name] = true
			warnings = append(warnings, fmt.Sprintf(".metadata.ownerReferences contains duplicate entries for %s %q; the duplicates were removed", r.GetKind(), r.GetName()))
		}
	}
	if len(unique) == len(refs) {
		return refs, nil
	}
	return unique, warnings
}

// invalidKeys are the keys of the entries that are not valid, in order.
func invalidKeys(m map[string]string, valid func(k, v string) bool) []string {
	var keys []string
	for k, v := range m {
		if !valid(k, v) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
