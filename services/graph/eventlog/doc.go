// Package eventlog implements a realm's log: its encoding and its stream.
//
// The log is the source of truth; all other data is derived from it. A realm's log is one
// JetStream stream. Each message is a commit (coppice.v1.Commit): the events of the
// commands that were decided together, stored atomically. Commits are chained: each has
// the checksum of the commit before it and the revision of its first event, so that a
// reader detects a gap, a repetition or another history.
//
// [Builder] encodes a commit and [Decode] decodes one, without reflection, because every
// object of a cascade passes through them. [Log] appends and reads messages, which package
// envelope compresses. [Log.Append] documents what an append guarantees, and what it does
// without an acknowledgement.
package eventlog
