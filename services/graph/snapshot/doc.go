// Package snapshot writes the state of a realm after one commit to a file, and builds a state
// from such a file. docs/formats.md specifies the format.
//
//	header   format version, manifest: realm id, last commit, version of the layout
//	chunk    about 1 MiB of rows, sorted by key, compressed with zstd; CRC-32
//	...
//	chunk    positions of commits in the stream of the log
//	...
//	footer   rows of each table, SHA-256 of the content
//
// A snapshot is independent of Pebble. Its content is what the commits of the log determine:
// see [state.AppendManifest]. Snapshots of the same commit by different replicas have
// equal SHA-256 sums; equal bytes too if the replicas follow the same stream and have the same build.
// The positions of commits in the stream are in the file, but not in the content, because a
// realm that is restored has another stream.
//
// Every byte is covered by a checksum. A reader reports damage as a [DamagedError] with the
// offset of the first part that cannot be used, and a file of a later version as a
// [VersionError]. What [Build] has built is a state only when the whole file has been read and is good.
//
// Memory: a writer and a reader need a few MiB, or about three times the largest row.
package snapshot
