// Package replay folds the log of a realm into a state. A replica does this all the time,
// and a writer before it decides its first command. `coppice rebuild` folds the log into
// an empty state, and `coppice verify` compares the result with the present state.
//
//	eventlog ──► read ahead: check, decompress, decode several messages at a time
//	                 │  (ahead.go)
//	                 ▼
//	             Folder: one message after the other, in order       (fold.go)
//	                 │   not a commit of the realm: skipped
//	                 │   a commit: its events are applied to a state.Tx
//	                 ▼
//	             state.Tx.Apply: after 30,000 events, 32 MiB, or at the end of the log
//
// [CheckLog] compares a state with the log before the state is used. A log that lost commits
// of the state, or has another history, is never followed.
//
// # Replay elision
//
// Most objects of an old log were deleted long ago. [Folder.FoldFromEmpty] leaves them out. It
// divides the log into stretches and reads each three times:
//
//  1. The liveness pass lists the objects that the stretch removes (summary.go).
//  2. The reference pass finds the objects that refer to them (references.go). An object
//     need not be written if it is created and removed in the stretch and no object refers
//     to it at the end (elision.go has the exact rule).
//  3. The fold leaves these objects out.
//
// Until the fold reaches the end of a stretch, the state is not the fold of any prefix of
// the log. Its checkpoint records this. After a crash in that time the state is rebuilt.
// Requests are never served from such a state.
//
// Memory: about 250 MiB for the liveness of objects (memoryBounds), 4 MiB of commits
// that are decoded ahead, and the changes of one batch.
package replay
