// Package jsonpath evaluates the JSONPath templates and paths that users of kubectl
// write, as in:
//
//	{.items[*].metadata.name}
//	{range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}
//	{.items[?(@.metadata.name=="web")].spec}
//	{.metadata.labels.app\.kubernetes\.io/name}
//
// Kubernetes' syntax is older than the standard, RFC 9535, and differs from it. This
// package reads Kubernetes' syntax, translates each step of a path to RFC 9535, and
// leaves the evaluation to github.com/theory/jsonpath.
//
// What it does not read is refused with an error that names the place: functions,
// conditions with && or ||, and regular expressions, which kubectl refuses too.
//
// Templates and paths are safe for concurrent use.
package jsonpath
