// Package api answers requests on a realm's subjects: the object API and the
// internal operations, as NATS micro services. It translates messages into work
// for the writer, and reads from snapshots of the state; it decides nothing.
//
// Two services come from it. ServeWriter answers what must come from the
// writer: commands, and reads that are as new as the last answer that anybody
// got. ServeReplica answers what any replica can tell, at a revision that the
// reply names. Only the writer of a realm has the former, so no queue group
// stands between it and its clients.
//
// Every request is answered, or was in doubt when the writer ended. Overload
// is answered as such, with the time after which to try again.
package api
