// Package replay folds the log of a realm into a state: what a replica does all the
// time, a writer before it decides anything, `coppice rebuild` into an empty state,
// and `coppice verify` to compare a state with its log.
//
//	eventlog ──► read ahead: check, decompress, decode several messages at a time
//	                 │  (ahead.go)
//	                 ▼
//	             Folder: one message after the other, in order       (fold.go)
//	                 │   not a commit of the realm: skipped
//	                 │   a commit: its events are applied to a state.Tx
//	                 ▼
//	             state.Tx.Flush: after 30,000 events, 32 MiB, or at the end of the log
//
// A state is compared with the log before either is relied on (CheckLog): a log that
// went backwards or has another history is never followed.
//
// # Replay elision
//
// Most objects of an old log were deleted long ago. FoldFromEmpty leaves them out. It
// divides the log into stretches and reads each three times:
//
//  1. The liveness pass lists the objects that the stretch removes (summary.go).
//  2. The reference pass finds who refers to them (references.go). An object that is
//     created and removed in the stretch, and that nothing refers to at the end, needs
//     not be written (elision.go has the rule).
//  3. The fold leaves these objects out.
//
// Until the fold reaches the end of a stretch, the state is not the fold of any prefix
// of the log. its checkpoint says so, and after a crash before
// that the state is rebuilt. Nothing is served from such a state.
//
// Memory: about 250 MiB for the liveness of objects (memoryBounds), 4 MiB of commits
// that are decoded ahead, and the changes of one flush.
package replay
