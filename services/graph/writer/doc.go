// Package writer decides commands and appends them to the log. A realm has one
// writer at a time, and it alone changes anything.
//
// # Group commit
//
// The writer decides all queued requests together, each against the state and the
// changes of the requests before it. It appends the events as one message, waits for
// the acknowledgement, which means that the message is on disk, replies to the clients,
// and applies the commit to the state. Readers that start after the replies wait until
// the commit is applied.
//
// While one commit is in flight, the next is decided on top of it. It accepts requests
// until it can be sent: when the commit before it has been applied to the state, or is
// large and has been appended to the log. If appends are slow (1 ms or more), it also
// waits for the next requests of the clients of the last commit: the adaptive commit
// delay.
//
//	Submit -> queue -> Work.Do on a Decision ─┐
//	                                          └─► Log.Send -> Done -> Tx.Flush
//
// If a commit cannot be appended, the commits that were decided on top of it are dropped
// too; none of their clients has received a reply. If a commit is in the log and cannot
// be written to the state, the writer stops: it sends no further replies and serves no
// further reads. A client that repeats its command gets the outcome from the next writer.
//
// A request that does not fit into the open commit is decided in the next one. If its
// parts are independent of each other, the first of them stay in the open commit.
//
// # What it promises
//
//   - Done is called at most once for every request. If it is not called, the outcome is
//     unknown, and the client's request times out.
//   - The writer sends a reply that depends on events only when these events are in the
//     log. It sends a reply that depends on none (not found, conflict, nothing to do)
//     only when it knows that it was still the writer after it had read the state: by an
//     acknowledged append, or by its lease.
//   - A repeated command whose id is still stored gets the outcome of its first attempt;
//     if the log has only the first parts of it, the writer completes it. A command
//     whose id may already have been deleted is refused.
package writer
