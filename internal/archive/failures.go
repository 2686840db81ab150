package archive

import (
	"context"
	"errors"
)

// maxUnread is the number of entries in a row which a store cannot read that counts as a failure of the store.
const maxUnread = 3

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
func (f *failures) at(ctx context.Context, failed error) (problem *Problem, err error) {
	if ctx.Err() != nil {
		return nil, failed
	}
	if IsDamaged(failed) || errors.Is(failed, ErrNotFound) {
		f.read()
		return &Problem{Err: failed}, nil
	}
	f.row, f.last = f.row+1, failed
	if f.row >= maxUnread {
		return nil, failed
	}
	return &Problem{Err: failed, Unread: true}, nil
}

// end returns the failure of a store that could not read any entry.
func (f *failures) end() error {
	if f.reading {
		return nil
	}
	return f.last
}
