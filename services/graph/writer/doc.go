// Package writer decides commands and appends them to the log. A realm has one writer at a
// time. Only the writer changes the realm.
//
// # The commit pipeline
//
// Submit puts a request into a bounded queue (queue.go). A full queue refuses it as overloaded,
// or a request of the actor that has the most. From there four steps lead to the reply. Names
// and comments of this package, of [state.Tx] and of their callers use these words for them:
//
//	decide     The open commit takes queued requests, one of each actor in turn. Each
//	           decides on an OpenCommit: the state with the changes of the requests before it
//	           (decide.go, opencommit.go). Its events are added to the commit (OpenCommit.Add,
//	           state.Tx.Add). The commit ends (endCommit, state.Tx.EndCommit) when the
//	           brakes, the notices and the work that its events cause are recorded.
//	append     The commit is sent to the log as one message (append.go), and is in flight
//	           from then on (inflight.go). It is appended when the log has acknowledged
//	           it: then it is on disk.
//	answer     The replies are sent to the clients (unanswered.go).
//	apply      The changes are written to the state, as one Pebble batch with the
//	           checkpoint. state.Tx.Encode encodes the batch during the append, and
//	           state.Tx.AnswerAndApply writes it.
//
// Run's goroutine decides, and starts to append. Each commit in flight has a goroutine, which
// waits for the append, and answers and applies the commit (answerAndApply). At most two
// commits are in flight, and one is open on top of them:
//
//	commit 1   decide │ append ───────────────► answer │ apply ──────►
//	commit 2          │ decide ─────────────────────── │ append ──────────────► answer │ apply
//	commit 3          │                                │ decide ──────────────────────────── ...
//
// The open commit takes requests until it can be appended (canAppend):
//
//   - when no commit is in flight, and the commit delay is over;
//   - if it is large (32 KiB or more), when the one commit in flight is appended. That one
//     need not be applied, because to apply a large commit takes long. Small commits
//     wait until it is: they grow meanwhile, and cost less together.
//
// # The adaptive commit delay
//
// If an append takes 1 ms or more, the open commit waits for the next commands of the
// callers of the last commit, for at most half the time of an append and at most 25 ms
// (delay.go). This is what commit_delay and commit_siblings are for in PostgreSQL, with
// measured values instead of settings. docs/design/0022-cost-of-creations.md has the
// measurements.
//
// # Invariants
//
//   - Only Run's goroutine decides and appends. So commits are decided, appended and
//     numbered in one order.
//   - A commit names the sequence and the checksum of the one before, and its message the
//     position in the stream that it expects. If another writer has appended, the log
//     refuses the message (fencing).
//   - Commits are answered and applied in the order of the log: answerAndApply waits for
//     the commit before.
//   - A reply that depends on events is sent only when these events are in the log. A
//     reply that depends on none (not found, conflict, nothing to do) is sent only when
//     the writer knows that it was still the writer after it had read the state: by an
//     acknowledged append, or by its lease.
//   - If a commit cannot be appended, the commits that were decided on top of it are
//     dropped; none of their clients has received a reply. If it is unknown whether a
//     commit was appended, none of its clients receives a reply.
//   - If a commit is appended and cannot be applied, the writer stops: it
//     sends no further replies and serves no further reads. A client that repeats its
//     command gets the outcome from the next writer.
//   - Readers that start after a reply wait until its commit is applied ([state.Tx]).
//   - Done is called at most once for every request. If it is not called, the outcome is
//     unknown, and the client's request times out.
//
// # Large commands and repetitions
//
// A request that does not fit into the open commit returns to the front of the queue, and is
// decided first in the next one. If its parts are independent of each other ([Partial]), the
// first of them stay in the open commit, and the log records where the command continues: when
// its actor has the next turn.
//
// A repetition of a command that is queued, being decided or in flight gets the outcome of
// that command; only its Done is kept (unanswered.go). A request whose client no longer waits
// is dropped when its turn comes, unless the client of a repetition waits ([Request.Expires]).
// A repeated command whose id is still stored gets the outcome of its first attempt
// (recall.go, reply.go). If the log has only the first parts of it, the writer completes
// it. A command whose id may already have been deleted is refused (id.go).
//
// A new writer begins with a commit that starts its epoch. The first of a realm also
// registers the built-in kinds (epoch.go).
package writer
