// Package propagator publishes pending work as messages.
//
// Pending work is stored in rows of the state, one for each object: dependents of an
// owner that is absent or waits for them, built-in finalizers that may be done,
// external finalizers and agents to be called, the contents of namespaces and kinds
// that are being deleted. A row exists until its work is done. Messages are hints:
// losing one delays the work until its row is published again, and loses nothing.
//
//	Notify: rows that a commit changed         Republish, Reconsider, SessionClosed
//	      │                                          │
//	      ▼                                          ▼
//	 rows ── a queue of uids, each at once or at a time (schedule.go) ◄────────┐
//	      │                                                                    │
//	      ▼                                                                    │
//	 round.go: evaluates a batch of rows in one snapshot                       │
//	      │                                                                    │
//	      ├─ few dependents, finalizers, calls ──────────────► publisher.go    │
//	      ├─ many dependents, contents ──► walks (walk.go) ──►  │ chunks       │
//	      ├─ calls beyond the quota ─────► refill.go ────────►  ▼              │
//	      │                                                  outbox.go ──► NATS│
//	      ├─ owners to be examined ──────► examine.go ──► finish messages      │
//	      ├─ containers to be drained ───► drain.go ─── when they are empty ───┘
//	      └─ objects that are blocked ───► cycles.go ──► Config.Unblock
//
// Each arrow into a component other than the publisher adds a key to a queue of
// package queue, which hands a key to one goroutine at a time, and again if it was
// added meanwhile. Each component has goroutines of its own: rounds never wait for a
// walk. Where a queue is full, the row is evaluated again later; where the queue of
// rows is full, all rows are evaluated.
//
// A round coalesces the dependents of several owners into chunks. An owner with more
// dependents than a chunk is walked from a cursor, in snapshots that do not live long.
// The stream bounds how many messages wait: a chunk that it does not accept is
// published again until it does.
//
// The propagator runs next to the writer, on the writer's state. It stores nothing: the
// next writer's propagator begins by evaluating all rows.
package propagator
