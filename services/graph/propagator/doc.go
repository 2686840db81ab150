// Package propagator publishes pending work as messages.
//
// Pending work is stored in rows of the state, one for each uid: dependents of an
// owner that is absent or waits for them, built-in finalizers that may be done,
// external finalizers and agents to be called, the contents of namespaces and kinds
// that are being deleted. A row exists until its work is done. Messages are hints:
// losing one delays the work until its row is published again, and loses nothing.
//
//	Notify: the rows that a commit changed      Republish, Reconsider, SessionClosed
//	   │                                           │
//	   ▼                                           ▼
//	┌─ rows: a queue of uids, each for now or for a time (propagator.go) ◄──────┐
//	│                                                                           │
//	└► round.go reads a batch of rows, finds what is due (work.go)              │
//	     ├─ few dependents, finalizers, calls ───────────────► publisher.go     │
//	     ├─ many dependents, contents ───► walk.go ──────────►  │ coalesces     │
//	     ├─ calls beyond the quota ──────► refill.go ────────►  ▼ into chunks   │
//	     ├─ owners to be examined ───────► examine.go ───────► outbox.go ─► NATS│
//	     ├─ containers to be drained ────► drain.go: when they are empty ───────┘
//	     └─ objects that are blocked ────► cycles.go: asks the writer to unblock one
//
// Rounds, walks, examinations and checks of containers have a queue each (package
// queue), and goroutines of their own, so that a round never waits for a walk. A
// queue hands out a uid to one goroutine at a time, and again if it was added
// meanwhile. Where a queue is full, the row is read again later; where the queue
// of rows is full, all rows are read.
//
// A round coalesces the dependents of several owners into chunks. An owner with more
// dependents than a chunk is walked from a cursor, in short-lived snapshots. The
// stream bounds how many messages wait: a chunk that it does not accept is published
// again until it does. Calls have limits for each finalizer in addition (quota.go,
// calls.go, consumers.go); one that cannot be published is passed over
// (unpublishable.go).
//
// What a tripped brake pauses is not published (brake.go). The Pods of a namespace are
// deleted before its other contents (podsfirst.go). The dependents of an owner that becomes
// solid are published again, since others of their references may have to be stripped
// (solid.go). [Propagator.Republish] publishes old rows again and reports objects that are stuck
// (republish.go, stuck.go).
//
// The propagator runs next to the writer, on the writer's state. It stores nothing:
// the next writer's propagator begins by reading all rows.
package propagator
