// Package jsonvalue checks and merges the JSON that objects carry: spec, status
// and extra, which Coppice stores without interpreting them.
//
// A value that [Normalize] returns means the same to every reader: it is one JSON
// value (RFC 8259) in UTF-8, it is nested at most [MaxDepth] levels deep, and no object
// in it has the same member twice. Readers differ in which of two members with the
// same name they use, so a rule could otherwise read another value than a client.
package jsonvalue
