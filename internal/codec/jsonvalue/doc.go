// Package jsonvalue checks and merges the JSON that objects carry: spec, status
// and extra, which Coppice stores without interpreting them.
//
// A value that Check accepts means the same to every reader: it is one JSON
// value (RFC 8259), UTF-8, not nested more deeply than MaxDepth, and no object
// in it has the same member twice. Readers differ in which of two equal members
// they use, so that a rule could read another value than a client does.
package jsonvalue
