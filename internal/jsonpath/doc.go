// Package jsonpath evaluates the JSONPath templates and paths that users of kubectl
// write, by the library that kubectl uses:
//
//	{.items[*].metadata.name}
//	{range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}
//	{.items[?(@.metadata.name=="web")].spec}
//	{.metadata.labels.app\.kubernetes\.io/name}
//
// Values are selected from what [Document] returns.
package jsonpath
