// Package recording reads a recorded log in place of a realm's stream. A recorded log is a
// segment (package segment) that `coppice record` has written.
//
// [Log] is a source of package replay and a [streams.LogReader], so that the code that
// folds and serves a realm folds and serves a recording. It has no keys: the chain of checksums
// shows that no commit is missing or changed, but not that a graph service wrote it.
//
// [Realm] serves a recording that was folded into a directory, to clients in the same process.
package recording
