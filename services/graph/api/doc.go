// Package api answers requests on a realm's subjects: the object API and the internal
// operations, as NATS micro services. It has the tables that say what handles each verb and each operation:
//
//   - [ServeWriter] serves what only the writer can: commands, and linearizable reads, which include every
//     command that was acknowledged before. Only the writer of a realm runs it, so it needs no queue group.
//   - [ServeReplica] serves reads that any replica can answer, at a revision that the reply names.
//   - [ServeRealms] serves the list of realms.
//   - [ServeRecording] serves the reads of a recording.
//
// The handlers are in packages by topic: objects, operations, expiry, streams and realms. Package serve
// has what they share. They translate messages into commands for the writer, and read from snapshots of the state.
// The rules about objects are those of package lifecycle, which the deciders of commands call. Handlers decide only what it cannot
// know: whether an expiry policy can be evaluated, whether a plan still holds, and whether a grant is valid.
//
// A request gets a reply, unless its outcome was unknown when the writer stopped, or the NATS
// client has dropped it because too many wait. A message whose reply subject is not
// an inbox gets none. An overloaded service replies with a retryable error that has the time after
// which to retry.
package api
