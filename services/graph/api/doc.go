// Package api answers requests on a realm's subjects: the object API and the internal
// operations, as NATS micro services. It translates messages into commands for the writer,
// and reads from snapshots of the state. It has no rules: the deciders that it gives to commands
// (deciders.go) call those of package lifecycle.
//
// It has four services. [ServeWriter] serves what only the writer can: commands, and
// linearizable reads, which include every command that was acknowledged before.
// [ServeReplica] serves reads that any replica can answer, at a revision that the reply
// names. Only the writer of a realm runs the first service, so it needs no queue group.
// [ServeRealms] serves the list of realms. [ServeRecording] serves the reads of a recording.
//
// A request gets a reply, unless its outcome was unknown when the writer stopped, or the NATS
// client has dropped it because too many wait (limits.go). A message whose reply subject is not
// an inbox gets none. An overloaded service replies with a retryable error that has the time after
// which to retry.
package api
