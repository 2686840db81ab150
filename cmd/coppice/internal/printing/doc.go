// Package printing writes objects in the formats of -o: tables, manifests, names,
// JSONPath templates and custom columns. A [Printer] gets one object after the other.
package printing
