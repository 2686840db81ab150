package archiver

import (
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Place is the end of a segment of the archive at which the stream may be cut, and what is known of it.
type Place struct {
	// End is the last commit of the segment.
	End segment.Point
	// Verified is the commit of the newest verified snapshot, 0 for none.
	Verified uint64
	// KeptSince is the time since which the ids of commands may be kept: see state.KeptSince.
	KeptSince lifecycle.Time
	// Last is the position of the newest message of the stream.
	Last uint64
}

// Stays says why the commits up to the place must stay in the stream; "" if they may be cut. The caller has found that
// segments have all of them.
func (p Place) Stays() string {
	switch {
	case p.End.Sequence > p.Verified:
		return fmt.Sprintf("no verified snapshot covers commit %d", p.End.Sequence)
	case p.End.Time >= p.KeptSince:
		return fmt.Sprintf("the command id of commit %d may still be kept", p.End.Sequence)
	case p.End.Position >= p.Last:
		return fmt.Sprintf("commit %d is the newest one", p.End.Sequence)
	}
	return ""
}

// Due is when the stream of a log is cut next.
type Due struct {
	// Bytes is the size at which it is cut; 0 if no size bounds it.
	Bytes uint64
	// At is when its oldest commit is cut; zero if no age bounds it.
	At time.Time
}

// DueOf returns when a stream whose oldest message has a time is cut, if a verified snapshot covers the commits then.
func DueOf(keep lifecycle.Retention, oldest time.Time) (d Due) {
	if keep.Bytes > 0 {
		d.Bytes = uint64(keep.Bytes / keptPart)
	}
	if keep.Age > 0 {
		d.At = oldest.Add(keep.Age / 4 * 3)
	}
	return d
}

// Is reports whether a stream of a size is to be cut at a time.
func (d Due) Is(bytes uint64, now time.Time) bool {
	return d.Bytes > 0 && bytes > d.Bytes || !d.At.IsZero() && now.After(d.At)
}

// Follows returns an error unless a commit of the stream, at a position, is the one behind the place. lost says that the stream
// has lost messages: then the error for a later commit wraps eventlog.ErrNotFound.
func (p Place) Follows(next eventlog.Header, position uint64, lost bool) error {
	switch {
	case next.Sequence == p.End.Sequence+1 && next.Previous == p.End.Checksum:
		return nil
	case lost && next.Sequence > p.End.Sequence+1:
		return fmt.Errorf("commit %d: %w; nothing is cut", p.End.Sequence+1, eventlog.ErrNotFound)
	}
	return &eventlog.BrokenError{Position: position, What: fmt.Sprintf("it is commit %d and names the checksum %016x, after commit %d with %016x; nothing is cut",
		next.Sequence, next.Previous, p.End.Sequence, p.End.Checksum)}
}
