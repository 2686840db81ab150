// Package segment reads and writes segments: files with consecutive commits of one
// realm's log, byte for byte as they are in its stream. Archives consist of segments.
// docs/formats.md specifies the format.
//
//	header   format version, realm id, what precedes the first commit
//	block    about 1 MiB of messages, compressed with zstd; CRC-32   (block.go)
//	...
//	index    where each block begins, and with which commit
//	footer   the last commit, SHA-256 of all messages
//
// A [Writer] needs nothing but an [io.Writer], and writes each block once. A [Reader] needs an
// [io.ReaderAt]: it finds a sequence, a revision or a time by reading one block. A [Scanner]
// reads from beginning to end, also a file that has no end yet.
//
// Every byte of a segment is covered by a checksum, and all commits that are read are
// checked against the chain of the log: each names the checksum of the commit before it,
// and revisions are consecutive. Authentication codes are not checked: only the graph
// service has the keys. A reader reports damage as a [DamagedError], with the
// offset of the first part that is unusable and the last commit before it. A failure of
// the underlying reader is returned as it is: it is no damage.
//
// Equal commits and equal calls give equal bytes, with the same build. The SHA-256 of the
// messages is equal for every build.
//
// Memory: a [Writer] needs about 4 MiB, a [Reader] twice the size of one block, and
// both 40 bytes for each block. A block exceeds 1 MiB only if a single commit does; its
// message is limited by [MaxMessage].
package segment
