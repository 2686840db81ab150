// Package archive stores immutable entries, segments of a realm's log (package
// segment) and snapshots of its state, outside of NATS and of a replica's state.
//
// [Store] is the interface to a place that has entries; each implementation is a package of
// its own, and passes archivetest.Run:
//
//	dirstore   file:///dir                          a directory
//	natsstore  nats://bucket                        a JetStream object store
//	s3store    s3://bucket/prefix?endpoint=URL      Amazon S3 and what is compatible with it
//
// [Location] is a parsed URL, and package stores opens it, as a [Limited]: no call of an archive hangs for
// ever, and no entry seems to end before it does. A [Name] says what an entry contains
// (names.go): a segment, a snapshot of the state, or the record that a snapshot was verified.
// An entry never changes and is never replaced.
//
// An archive has the contents of deleted objects, secrets among them, for everyone who can read it:
// protect it like the log.
package archive
