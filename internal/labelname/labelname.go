// Package labelname has the syntax of the keys and values of labels, which is that of Kubernetes.
package labelname

import "strings"

const (
	maxName  = 253 // of a prefix, in bytes
	maxValue = 63  // of a name or a value, in bytes
)

// IsLabel reports whether s is ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$, without the cost of a regexp for
// every object.
func IsLabel(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLowerAlnum(c) && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}

// IsSubdomain reports whether s is labels with dots between them.
func IsSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !IsLabel(label) {
			return false
		}
	}
	return true
}

// isNamePart is ^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$.
func isNamePart(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := isLowerAlnum(c) || c >= 'A' && c <= 'Z'
		if !alnum && (c != '-' && c != '_' && c != '.' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return s != ""
}

func isLowerAlnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// QualifiedName returns what is wrong with [prefix/]name, the syntax of finalizers
// and of the keys of labels, or "" if nothing.
func QualifiedName(s string) string {
	name := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		prefix := s[:i]
		name = s[i+1:]
		if len(prefix) > maxName || !IsSubdomain(prefix) {
			return "prefix part must be a lowercase RFC 1123 subdomain, such as 'example.com'"
		}
	}
	switch {
	case name == "":
		return "name part must be non-empty"
	case len(name) > maxValue:
		return "name part must be no more than 63 bytes"
	case !isNamePart(name):
		return "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'example.com/MyName')"
	}
	return ""
}

// IsLabelValue reports whether v can be the value of a label.
func IsLabelValue(v string) bool { return v == "" || len(v) <= maxValue && isNamePart(v) }
