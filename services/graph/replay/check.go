package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// CheckLog compares a state's checkpoint with the log before the state is used. It returns a
// MismatchError if the log lost commits that the state has, a ForeignError if the state and the log
// are not of the same installation, a CutError if the log begins behind the state, and an
// eventlog.KeyError if the secret of this process is not that of the log.
// While the server that leads the stream may still be catching up, the caller sets
// catching: if the log then ends before the checkpoint, CheckLog returns ErrBehind, and
// the caller calls it again later. dir is the directory of the state, for the error.
func CheckLog(ctx context.Context, cp *coppicev1.Checkpoint, log Log, realm, dir string, catching bool) error {
	last, first, err := log.Last(ctx)
	if err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return &MismatchError{Realm: realm, Dir: dir, Known: cp.GetSequence(), What: fmt.Sprintf(format, args...)}
	}
	if last > 0 && first > cp.GetPosition()+1 {
		return &CutError{Realm: realm, First: first, Known: cp.GetPosition()}
	}
	if cp.GetSequence() == 0 {
		return checkBeginning(ctx, log, first, last)
	}
	chain := eventlog.ChainOf(cp)
	if err := log.Keys().Fit(&chain); err != nil {
		if of, found := realmOf(ctx, log, first, last); found == nil && of != ([16]byte{}) && of != chain.RealmID {
			return &ForeignError{Realm: realm, Dir: dir}
		}
		return err
	}
	if cp.GetStreamCreated() != log.Created() {
		var key *eventlog.KeyError
		if err := checkSecret(ctx, log, first, last); errors.As(err, &key) {
			return &ForeignError{Realm: realm, Dir: dir, Log: true}
		} else if err != nil {
			return err
		}
		of, err := realmOf(ctx, log, first, last)
		if err != nil {
			return err
		}
		other := ""
		if of != ([16]byte{}) && of != chain.RealmID {
			other = otherRealm(of, chain.RealmID)
		}
		return refuse("the stream of the log was created again since the state was written%s", other)
	}
	if last < cp.GetPosition() {
		if catching {
			return fmt.Errorf("realm %s: sequence %d, with %d known: %w", realm, last, cp.GetPosition(), ErrBehind)
		}
		return refuse("the log went backwards: it ends at sequence %d, and the state has seen %d", last, cp.GetPosition())
	}
	message, err := log.Get(ctx, cp.GetPosition())
	switch {
	case errors.Is(err, eventlog.ErrNotFound) && catching:
		return fmt.Errorf("%w: %w", err, ErrBehind)
	case errors.Is(err, eventlog.ErrForeign):
		return refuse("sequence %d of the log is not the commit that the state has seen: %v", cp.GetPosition(), err)
	case errors.Is(err, eventlog.ErrCut):
		return checkNext(ctx, cp, log, last, refuse)
	case errors.Is(err, eventlog.ErrNotFound):
		return refuse("sequence %d, the last that the state has seen, is gone", cp.GetPosition())
	case err != nil:
		return err
	}
	if eventlog.Checksum(message) != cp.GetChecksum() {
		return refuse("sequence %d of the log is not the commit that the state has seen: it is another history", cp.GetPosition())
	}
	return nil
}

// checkNext compares the last commit of a state, which was cut from the log, with the commit that
// follows it in the log: that names its checksum. If none follows, the stream has lost all its messages, and what
// it must have decides whether that is refused.
func checkNext(ctx context.Context, cp *coppicev1.Checkpoint, log Log, last uint64, refuse func(string, ...any) error) error {
	chain := eventlog.ChainOf(cp)
	at, h, err := firstCommit(ctx, log, cp.GetPosition()+1, last, chain.Skips)
	if err == nil && h.Sequence > cp.GetSequence()+1 {
		err = &CutError{Realm: log.Realm(), First: at, Known: cp.GetPosition()}
	}
	if err == nil && at != 0 && h.Previous != cp.GetChecksum() {
		err = refuse("sequence %d of the log does not continue the last commit that the state has seen: it is another history", at)
	}
	return err
}

// checkBeginning checks that a log with these positions can be folded into an empty state, and
// that the secret fits it.
func checkBeginning(ctx context.Context, log Log, first, last uint64) error {
	if err := checkSecret(ctx, log, first, last); err != nil {
		return err
	}
	at, h, err := firstCommit(ctx, log, first, last, nil)
	if err == nil && h.Sequence > 1 {
		err = &CutError{Realm: log.Realm(), First: at}
	}
	return err
}

// firstCommit returns the header and the position of the first commit from a position of the
// log on for which skips, if it is not nil, returns ""; the position is zero if none is among the next 1,000 messages up to last.
func firstCommit(ctx context.Context, log Log, from, last uint64, skips func(*eventlog.Header) string) (at uint64, h eventlog.Header, err error) {
	from = max(from, 1)
	if from > last {
		return 0, h, nil
	}
	err = log.Follow(ctx, from, func(m eventlog.Message) error {
		found, foreign := log.Keys().Check(m)
		if foreign == "" && (skips == nil || skips(&found) == "") {
			at, h = m.Position, found
			return errReached
		}
		if m.Position >= min(last, from+enough) {
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		err = nil
	}
	return at, h, ofRealm(log, err)
}

// ofRealm adds the name of the realm to an error that says that a log is broken.
func ofRealm(log Log, err error) error {
	if broken := (*eventlog.BrokenError)(nil); errors.As(err, &broken) {
		return fmt.Errorf("realm %s: %w", log.Realm(), err)
	}
	return err
}

// Begins reports whether a log can be folded from its first commit. It cannot if that was cut
// off, and in a realm that continues another log.
func Begins(ctx context.Context, log Log) (bool, error) {
	last, first, err := log.Last(ctx)
	if err != nil || last == 0 {
		return true, err
	}
	_, h, err := firstCommit(ctx, log, first, last, nil)
	return h.Sequence <= 1, err
}

// CutError says that a log begins behind a state: the commits between can be read neither from
// its stream, which was cut or is that of a realm that continues another log, nor from an
// archive.
type CutError struct {
	Realm string
	First uint64 // the position of the first message of the log
	Known uint64 // that of the last commit of the state; 0 for none
}

func (e *CutError) Error() string {
	state := "the state is empty"
	if e.Known > 0 {
		state = fmt.Sprintf("the state ends at sequence %d", e.Known)
	}
	return fmt.Sprintf("realm %s: the log begins at sequence %d of its stream with a commit that is not the realm's first, and %s: the commits between cannot be read. "+
		"Name the archive of the realm with --archive; if there is none, restore the stream from a backup", e.Realm, e.First, state)
}

// ErrBehind says that the log ends before a commit that the state has seen. A server
// that has just become the leader of the stream may have to catch up.
var ErrBehind = errors.New("the log ends before what is known to be in it")

// checkSecret returns an eventlog.KeyError if this process has another secret than the
// one with which the log was begun. Only with the right secret may a message that is not
// authentic be skipped.
//
// A log in which no message looks like a commit has no commits yet. In any other log, an
// authentic commit must be among the first messages after one that looks like a commit.
// With the wrong secret no message of the log is authentic.
func checkSecret(ctx context.Context, log Log, first, last uint64) error {
	if last == 0 {
		return nil
	}
	resembling := uint64(0) // position of the first message that looks like a commit
	err := log.Follow(ctx, max(first, 1), func(m eventlog.Message) error {
		if _, foreign := log.Keys().Check(m); foreign == "" {
			return errReached
		}
		if resembling == 0 && log.Keys().Resembles(m) {
			resembling = m.Position
		}
		if m.Position < last && (resembling == 0 || m.Position < resembling+enough) {
			return nil
		}
		if resembling == 0 {
			return errReached
		}
		return &eventlog.KeyError{Realm: log.Realm(), What: fmt.Sprintf("none of the first %d messages is authentic, and that at sequence %d looks like a commit", m.Position+1-max(first, 1), resembling)}
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return ofRealm(log, err)
}

// enough is the number of messages in which checkSecret looks for an authentic commit.
const enough = 1000

// MismatchError says that a log is not the one that a graph service has seen. Waiting does
// not help, and nothing was changed.
type MismatchError struct {
	Realm, Dir, What string
	// Known is the sequence of the last commit that the graph service has seen.
	Known uint64
	// Rebuild: the log has the last commit that the graph service has seen (CheckTail), so that a rebuild of
	// the state in Dir is not refused.
	Rebuild bool
}

func (e *MismatchError) Error() string {
	rebuild := ""
	if e.Rebuild {
		rebuild = fmt.Sprintf("If the log is complete, stop this graph service and run `coppice rebuild --state %s --realm %s`: its next start then replays the log. ", filepath.Dir(e.Dir), e.Realm)
	}
	return fmt.Sprintf("realm %s: %s. Restore the log, if it was lost, from a backup or from a NATS server that still has the commits; "+
		"a graph service with --archive appends those that the archive has by itself. %s"+
		"To go on with the log as it is, without the lost commits, start this graph service with --accept-loss %s@%d", e.Realm, e.What, rebuild, e.Realm, e.Known)
}

// ForeignError says that a state, or the mark of the log's end, and a log are not of the same realm and installation. Waiting does not help,
// and nothing was changed.
type ForeignError struct {
	Realm, Dir string
	// Log: the secret of the graph service is that of the state, and not that of the log. Otherwise it is that of the
	// log, and not that of the state.
	Log bool
	// Mark is the file of the mark if it is that which does not fit, and not the state; otherwise empty.
	Mark string
	// DataDir is the data directory of `coppice up`, which has the log and the secret too; empty for a graph service
	// that runs by itself.
	DataDir string
}

func (e *ForeignError) Error() string {
	if e.Mark != "" {
		return fmt.Sprintf("realm %s: the file %s, which names the last commit that a graph service has seen, is of another realm or installation: its key is not derived from the secret of this graph service. "+
			"If this secret is the right one, move the file away: the next start writes another", e.Realm, e.Mark)
	}
	states := filepath.Dir(e.Dir)
	if e.Log {
		advice := "Name the NATS server of this installation with --server, or an empty directory with --data and the secret of the log with --secret"
		if e.DataDir != "" {
			advice = fmt.Sprintf("Put the directory %s of this installation back; or, to keep this log, put its secret into %s, and move the directory %s away: the next start then replays the log",
				filepath.Join(e.DataDir, "nats"), filepath.Join(e.DataDir, secret.FileName), states)
		}
		return fmt.Sprintf("realm %s: the log %s is of another installation: the state in %s and the secret of this graph service belong together, and neither fits the log. %s",
			e.Realm, bus.LogStream(e.Realm), e.Dir, advice)
	}
	advice := "Name the directory of this graph service with --data, or an empty one, into which it replays the log, with the same secret"
	if e.DataDir != "" {
		advice = fmt.Sprintf("Move the directory %s away: the next start then replays the log", states)
	}
	return fmt.Sprintf("realm %s: the state in %s is of another realm or installation; the secret of this graph service fits the log. %s", e.Realm, e.Dir, advice)
}

// otherRealm completes the reason for which a log is refused.
func otherRealm(is, was [16]byte) string {
	return fmt.Sprintf(": its commits are of another realm, with the id %x instead of %x", is, was)
}

// realmOf returns the id of the realm whose commits a log has, zero if there are none among its first messages that fit
// the secret.
func realmOf(ctx context.Context, log Log, first, last uint64) ([16]byte, error) {
	_, h, err := firstCommit(ctx, log, first, last, nil)
	return h.RealmID, err
}
