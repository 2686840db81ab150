// Package writer decides commands and appends them to the log. A realm has one
// writer at a time, and it alone changes anything.
//
// # Group commit
//
// The writer decides all requests that have queued, each against the state plus
// what those before it have changed; publishes one message; waits for the
// acknowledgement, which means that it is on disk; answers; and applies it to the
// state. Whoever reads the state from then on waits for that. While one commit is on
// its way, the next is decided on top of it, and takes requests until it can follow:
// when the one before is in the state or, if it is large by then, in the log, and
// where the disk is slow, when those who were answered have come again.
//
//	Submit -> queue -> Work.Do on a Decision ─┐
//	                                          └─► Log.Send -> Done -> Tx.Flush
//
// If a commit comes to nothing, so does what was decided on top of it, of which
// nobody was told. If one that is in the log cannot be written into the state, nobody
// is told of those that follow, and nothing is read any more: who repeats a command
// gets its outcome from the next writer.
//
// A request that does not fit into the commit any more goes into the next one,
// or, where its parts are independent of each other, goes on there.
//
// # What it promises
//
//   - Done is called once for every request, or never: then it is not known what
//     became of it, and the client's timeout tells as much.
//   - A successful answer that rests on events is given after these are in the
//     log. An answer that rests on none (not found, conflict, nothing to do)
//     is given when the writer knows that it was still the writer after it had
//     read: by an acknowledged append, or by its lease.
//   - A command with an id that is kept gets the outcome that it had, or goes on where
//     the log has the first parts of it. One whose id may be forgotten is refused.
package writer
