package archive

import (
	"context"
	"errors"
	"fmt"
)

// ProblemKind says what is to be done about a Problem.
type ProblemKind int

const (
	// ProblemDamaged is an entry that arrived completely, and is damaged or has the content of another one.
	ProblemDamaged ProblemKind = iota
	// ProblemMissing is a gap before an entry: see GapError.
	ProblemMissing
	// ProblemUnread is an entry that the store could not read, or whose snapshot it could not read. It may be undamaged.
	ProblemUnread
	// ProblemGone is an entry that was deleted since it was listed, or whose snapshot is not in the list.
	ProblemGone
	// ProblemVersion is an entry of another version of Coppice.
	ProblemVersion
	// ProblemConflict is an entry of which two archives have different ones.
	ProblemConflict
)

// Problem is something that is wrong with an archive.
type Problem struct {
	Name string // of the entry at which it was found
	Kind ProblemKind
	Err  error
}

// GapError says that commits are in no segment that can be read.
type GapError struct {
	First, Last uint64 // sequences
}

func (e *GapError) Error() string {
	return fmt.Sprintf("commits %d to %d before it are in no segment that can be read", e.First, e.Last)
}

// found returns the problem of an entry that was read, or that is gone.
func found(name string, err error) Problem {
	var version interface{ OtherVersion() }
	switch {
	case errors.Is(err, ErrNotFound):
		return Problem{name, ProblemGone, err}
	case errors.As(err, &version):
		return Problem{name, ProblemVersion, err}
	}
	return Problem{name, ProblemDamaged, err}
}

// errEmpty says that an entry has no bytes.
var errEmpty = &unusableError{errors.New("it is empty")}

// maxUnread is the number of entries in a row which a store cannot read that counts as a failure of the store. Each one
// that makes no progress (ErrStalled) counts for stalledUnread.
const (
	maxUnread     = 10
	stalledUnread = 5
)

// failures decides whether work on several entries goes on when one cannot be read. Its zero value is ready.
type failures struct {
	row     int // of entries that could not be read
	last    error
	reading bool // an entry was read
}

// read says that an entry was read.
func (f *failures) read() { f.row, f.reading = 0, true }

// at returns the error at an entry as a problem of this entry, or as err if the work must end: ctx has ended, or the
// store has failed at several entries in a row.
func (f *failures) at(ctx context.Context, name string, failed error) (problem *Problem, err error) {
	switch {
	case ctx.Err() != nil:
		return nil, failed
	case IsDamaged(failed) || errors.Is(failed, ErrNotFound):
		f.read()
		p := found(name, failed)
		return &p, nil
	case errors.Is(failed, ErrStalled):
		f.row += stalledUnread
	default:
		f.row++
	}
	if f.last = failed; f.row >= maxUnread {
		return nil, failed
	}
	return &Problem{name, ProblemUnread, failed}, nil
}

// end returns the failure of a store that could not read any entry.
func (f *failures) end() error {
	if f.reading {
		return nil
	}
	return f.last
}
