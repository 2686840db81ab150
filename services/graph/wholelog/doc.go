// Package wholelog reads a realm's log also where its stream was cut.
//
// The stream of a log has the newest commits. Those before it were archived in segments before
// the writer cut them. A [Log] is both together: it reads the stream, and the archive for what
// precedes the stream's first message. Its positions are those of the stream: a segment
// records where in the stream each of its commits was.
//
// Messages that were no commits of the realm are not archived. So from the archive a reader gets fewer
// positions than the stream had; commits are never missing: each names the checksum of the one
// before it.
//
// The archive may be pruned. Then the log begins later, and [Log.Last] says where.
//
// A realm that was restored or replayed continues the log of another one. [Lineage] reads both.
package wholelog
