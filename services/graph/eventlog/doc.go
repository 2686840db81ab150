// Package eventlog is a realm's log: its encoding, and its stream.
//
// The log is the only truth. It is one JetStream stream per realm; each
// message is a commit (coppice.v1.Commit), the events of many commands, decided
// together and stored atomically. Commits are chained: each carries the
// checksum of the commit before it and the revision of its first event, so that
// a reader notices a gap, a repetition or another history.
//
// Builder encodes a commit, Decode reads one, and both do it without
// reflection: every object of a cascade passes through them. Log appends and
// reads, by way of internal/envelope, which compresses. What an append promises
// is said at Log.Append, how a doubtful one is settled as well.
package eventlog
