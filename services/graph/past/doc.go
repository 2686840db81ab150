// Package past reads the past of a realm: it builds the state as it was after a commit.
//
//	Point: a revision or a time ── Find ──► Commit ── At ──► Past: a state to read
//
// [Reader.Find] searches the log by bisection. [Reader.At] materializes the state after the commit: it begins with the
// nearest state before it (one that the cache has, a verified snapshot of the archive, or
// nothing) and folds the log from there, with the code that a replica uses to catch up.
//
// A state exists after each commit, and not within one: a commit is what every reader sees at
// once. A revision stands for the commit that contains it, and every reply names the revision
// that is shown, which is the last one of the commit.
//
// The states are in a [Cache] on disk, which all realms of a process share. It has bounds for bytes,
// for states, and for what is built at the same time and waits for that. A state is built once
// for all requests that want it; a request that ends meanwhile does not end it. The least recently used
// states are removed first. A state is never larger than the bound: building it fails instead.
//
// Nothing here writes to the log or to the realm's state.
package past
