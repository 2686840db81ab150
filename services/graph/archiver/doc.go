// Package archiver copies a realm's log and snapshots of its state to an archive.
//
//	stream of the log ──► segment ──► archive ──┐
//	                                            ├─► folded in a second directory: equal hash?
//	state (Pebble snapshot) ──► snapshot ──► archive       └─► record: the snapshot is verified
//
// An Archiver runs in each graph service of a realm. One at a time works: the one that holds the
// realm's archiver lease, preferably on a standby. It reads the log without a consumer, and
// the state from a snapshot of Pebble. It limits its rate, and is never on the path of a
// commit.
//
// A snapshot is verified if the snapshot that was verified before, or nothing, and the segments
// since, read back from the archive and folded, have the same content. Only then it is put into
// the archive, read back, and recorded as verified. Replicas start only from such a snapshot.
//
// Two archivers that work at the same time, because a lease is no lock, do no harm: entries are never
// replaced, and segments may overlap. What the log has and the archive lacks is archived,
// also if a damaged segment was deleted.
//
// If the archive fails, the archiver reports it and tries again. It deletes nothing, neither in
// the log nor in the archive.
package archiver
