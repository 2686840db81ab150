// Package propagator turns what is owed into work messages.
//
// What is owed are rows of the state (lifecycle.Owed): dependents of an owner
// that is absent or waits for them, built-in finalizers that may be done,
// external finalizers to be called, the contents of namespaces and kinds that
// are being deleted. A row is there until it is no longer true,
// so messages are only for speed: when one is lost, the row is published again.
//
// Hints say which rows have changed. They are bounded: when there are too many,
// all rows are read instead. Owners with few dependents share chunks; those
// with many, and namespaces and kinds, are walked beside, from a cursor, in
// snapshots that do not live long. The stream bounds how much work is out: a
// chunk that it does not take waits.
//
// Dependents of an owner that was never seen wait for it, each for its own time.
// Where only some of them are due, those are handed out, and the owner is looked
// at again when more are.
//
// Whether an owner that waits for its dependents is done cannot always be told by
// counters: then its dependents are examined beside the rounds (examine.go).
//
// The propagator runs beside the writer, on the writer's own state. It keeps
// nothing that the next one would need.
package propagator
