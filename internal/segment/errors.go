package segment

import (
	"errors"
	"fmt"
	"io"
)

var (
	// ErrForeign is wrapped by the error for a file that is not a segment.
	ErrForeign = errors.New("it is not a segment of a log: it begins with other bytes")
	// ErrNoCommits is returned by Writer.Close if no commit was added: a segment has at
	// least one.
	ErrNoCommits = errors.New("a segment has at least one commit")
	// ErrFull is returned by Writer.Add when a segment has the most blocks that the format
	// allows, about 1 TiB. Close it, and continue in another segment.
	ErrFull = errors.New("the segment is full; continue in another one")
	// ErrOutside is wrapped by the error for a revision, sequence or time that a segment
	// does not have.
	ErrOutside = errors.New("the segment does not have it")
)

// errTruncated is what is wrong with a segment that ends too early. It wraps
// io.ErrUnexpectedEOF.
var errTruncated = fmt.Errorf("the file ends here, before the end of the segment: %w", io.ErrUnexpectedEOF)

var errHeaderCRC = errors.New("the checksum of the header is wrong")

// DamagedError is returned for a segment that cannot be used from an offset on: it is
// truncated (then the error wraps io.ErrUnexpectedEOF), changed, or no segment at all
// (then it wraps ErrForeign).
type DamagedError struct {
	// Offset in bytes is where the first part begins that cannot be used: the header, a
	// block, the index, the footer, or what follows it. If the file is truncated, it is
	// where the file ends.
	Offset int64
	// Good is the last commit before Offset. It is zero if there is none, or if it is
	// not known because the reader began behind it.
	Good Point
	Err  error
}

func (e *DamagedError) Error() string {
	good := "no commit before it can be used"
	if e.Good.Sequence > 0 {
		good = fmt.Sprintf("the commits before it are good, up to sequence %d and revision %d", e.Good.Sequence, e.Good.Revision)
	}
	return fmt.Sprintf("damaged segment: byte %d: %v; %s", e.Offset, e.Err, good)
}

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

// VersionError is returned for a segment of a newer format. Nothing was read.
type VersionError struct {
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the segment has format version %d, and this program reads versions up to %d: use the version of Coppice that wrote it, or a later one", e.Version, Version)
}

// OtherVersion says that the error is due to the version of Coppice, and not to damage.
func (e *VersionError) OtherVersion() {}

// SequenceError is returned by Writer.Add for a message that does not continue the
// segment. The writer can be used further.
type SequenceError struct {
	Position uint64 // of the message
	What     string
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("the message at sequence %d of the stream does not continue the segment: %s", e.Position, e.What)
}
