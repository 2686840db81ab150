// Package archiver copies a realm's log and snapshots of its state to an archive, and cuts the
// stream of the log to its retention.
//
//	stream of the log ──► segment ──► archive ──┐
//	                                            ├─► folded in a second directory: equal hash?
//	state (Pebble snapshot) ──► snapshot ──► archive       └─► record: the snapshot is verified
//
// An [Archiver] runs in each graph service of a realm. One at a time works: the one that holds the
// realm's archiver lease, preferably on a standby. It reads the log without a consumer, and
// the state from a snapshot of Pebble. It limits its rate, and is never on the path of a
// commit.
//
// To verify a snapshot, the archiver reads the previous verified snapshot, if there is one, and the
// segments since from the archive, folds them, and compares the content hashes. Only if these are
// equal, the new snapshot is put into the archive, read back, and recorded as verified. Replicas
// start only from such a snapshot.
//
// Two archivers that work at the same time, because a lease is no lock, do no harm: entries are never
// replaced, and segments may overlap. Commits that the log has and the archive lacks are archived,
// for example after an operator has deleted a damaged segment.
//
// [Rest] archives what is left of a log before it is deleted.
//
// The stream is cut at the end of a segment that a verified snapshot covers. Commits after the newest
// such snapshot are not cut, and neither are commits whose command ids may still be kept, which
// include the newest commit. Before each cut the commits at its place are compared with the archive,
// and the stream is given the position, so that graph services can distinguish the cut from a loss. A
// crash between these steps leaves commits both in the stream and in the archive.
//
// If the archive fails, the archiver reports it and tries again, and the log grows. In the archive it merges small
// segments, and deletes what is beyond the retention of the archive and precedes the two newest verified snapshots. It keeps
// the segments from which holes of the stream are filled.
//
// A verification works for a share of the time while the process has commits, and only with room on the disk. The
// archiver works faster as the log grows beyond its retention.
package archiver
