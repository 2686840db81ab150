package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// CheckTail returns a MismatchError if the log has lost the commit of a mark, or has
// another one in its place, and a ForeignError instead if the mark is of another installation. See CheckLog for the other parameters and ErrBehind.
func CheckTail(ctx context.Context, mark tail.Mark, log Log, realm, dir string, catching bool) error {
	if mark == (tail.Mark{}) {
		return nil
	}
	last, first, unavailable, err := readable(ctx, log)
	if err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		what := fmt.Sprintf(format, args...)
		of, err := realmOf(ctx, log, first, last)
		if err == nil && of != mark.Realm() {
			if err := CheckMark(mark, log.Keys(), realm, dir); err != nil {
				return err
			}
		}
		if was := mark.Realm(); err == nil && of != ([16]byte{}) && was != ([16]byte{}) && of != was {
			what += otherRealm(of, was) // a log may also continue another realm, and is then not refused
		}
		return &MismatchError{Realm: realm, Dir: dir, Known: mark.Sequence, What: what}
	}
	if last < mark.Position {
		if catching {
			return fmt.Errorf("realm %s: sequence %d, with %d known: %w", realm, last, mark.Position, ErrBehind)
		}
		return refuse("the log has lost its newest commits: its stream ends at sequence %d, and this graph service has seen commit %d at sequence %d",
			last, mark.Sequence, mark.Position)
	}
	commit, err := log.Get(ctx, mark.Position)
	switch {
	case errors.Is(err, eventlog.ErrNotFound) && catching:
		return fmt.Errorf("%w: %w", err, ErrBehind)
	case errors.Is(err, eventlog.ErrCut) && unavailable != nil:
		return unavailable
	case errors.Is(err, eventlog.ErrCut) && mark.Position+1 < first:
		return nil // the next commit was cut too: this one cannot be compared, and the log is longer than the mark knows
	case errors.Is(err, eventlog.ErrCut):
		// The next commit names its checksum.
		at, h, err := firstCommit(ctx, log, mark.Position+1, last, nil)
		if err == nil && h.Sequence == mark.Sequence+1 && h.Previous != mark.Checksum {
			err = refuse("the log has lost commits and was continued: sequence %d of it does not continue commit %d, which this graph service has seen before it: it is another history", at, mark.Sequence)
		}
		return err
	case errors.Is(err, eventlog.ErrNotFound), errors.Is(err, eventlog.ErrForeign):
		return refuse("the log has lost commits: its stream ends at sequence %d, and commit %d, which this graph service has seen at sequence %d, is not there",
			last, mark.Sequence, mark.Position)
	case err != nil:
		return err
	case eventlog.Checksum(commit) != mark.Checksum:
		return refuse("the log has lost commits and was continued: its stream ends at sequence %d, and sequence %d is not commit %d that this graph service has seen there: it is another history",
			last, mark.Position, mark.Sequence)
	}
	return nil
}

// CheckMark returns a ForeignError if the key of a mark is not derived from the secret of this process: another
// installation, or another realm of this one, has written the mark. If the key fits, a log of another realm has
// taken the place of the one that the mark knows, whose commits are lost.
func CheckMark(mark tail.Mark, keys *eventlog.Keys, realm, dir string) error {
	of := eventlog.Chain{RealmID: mark.Realm(), Key: eventlog.KeyID{Number: mark.Key}}
	fingerprint, err := hex.DecodeString(mark.Fingerprint)
	if err != nil || copy(of.Key.Fingerprint[:], fingerprint) < len(of.Key.Fingerprint) || keys.Fit(&of) == nil {
		return nil //nolint:nilerr // a mark without a fingerprint names no key
	}
	return &ForeignError{Realm: realm, Dir: dir, Mark: tail.File(filepath.Dir(dir), realm)}
}

// readable is Log.Last, with why the archive of the log could not be read; nil for a log without one.
func readable(ctx context.Context, log Log) (last, first uint64, unavailable, err error) {
	if l, ok := log.(interface {
		Readable(ctx context.Context) (eventlog.Readable, error)
	}); ok {
		e, err := l.Readable(ctx)
		return e.Last, e.First, e.Unavailable, err
	}
	last, first, err = log.Last(ctx)
	return last, first, nil, err
}
