package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// aroundHoles is the number of messages before and behind the holes of a stream with which the
// commits of the archive are compared: among them are commits, even if some are none.
const aroundHoles = 1000

// fillsHoles reports whether the archive has all commits that the stream of the log lacks between its first
// and its last message. They are then read from there: see wholelog.Log. The error is one of reading.
func (r *withLog) fillsHoles(ctx context.Context, e *eventlog.Extent, damage error) (bool, error) {
	if r.archive == nil {
		return false, nil
	}
	from, until := e.First, e.Last
	if e.AllNamed {
		if first := e.Missing[0]; first > aroundHoles {
			from = max(from, first-aroundHoles)
		}
		until = min(until, e.LastMissing+aroundHoles)
	}
	err := replay.CheckFilled(ctx, r.wholeLog, from, until)
	var broken *eventlog.BrokenError
	switch {
	case errors.As(err, &broken):
		r.log.Error("the stream of the log lacks messages, and the archive does not have all commits that stood there", "archive", r.archive.String(), "error", err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("realm %s: %w; whether the archive %s has the commits that stood there cannot be found out: %w", r.name, damage, r.archive, err)
	}
	r.log.Error("the stream of the log lacks messages; the archive has all commits that stood there, and they are read from it", "archive", r.archive.String(), "error", damage)
	return true, nil
}

// openArchived opens the history of the realm: its log, with its archive. If the stream has lost all its
// commits, and the state too, the mark of the log's end names the realm id.
func (r *opening) openArchived(ctx context.Context) error {
	open := func(id [16]byte) {
		r.wholeLog, r.clientLog = wholelog.New(ctx, r.events, r.archive, id), wholelog.New(ctx, r.events, r.archive, id)
		r.clientLog.PassOver(r.unreadableSegment)
	}
	open(realmID(r.seen))
	mark := r.tail.Mark()
	if r.archive == nil || r.seen.GetSequence() > 0 || mark.Created != r.events.Created() {
		return nil
	}
	var id [16]byte
	err := r.await(ctx, func(ctx context.Context) (err error) {
		id, err = r.wholeLog.RealmID(ctx)
		return err
	})
	if err == nil && id == [16]byte{} {
		open(mark.Realm())
	}
	return err
}

// seenEnd returns the position and the checksum of the last commit that this replica or the archive has
// seen of the stream; zeros for none. ofArchive: the archive alone has seen it.
func (r *opening) seenEnd(ctx context.Context) (position, checksum uint64, ofArchive bool) {
	if r.seen.GetStreamCreated() == r.events.Created() {
		position, checksum = r.seen.GetPosition(), r.seen.GetChecksum()
	}
	if mark := r.tail.Mark(); mark.Created == r.events.Created() && mark.Position > position {
		position, checksum = mark.Position, mark.Checksum
	}
	// What no segment has, and an archive that cannot be read now, are found out below.
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if end, err := r.wholeLog.ArchiveEnd(limited); err == nil && end.Position > position {
		return end.Position, end.Checksum, true
	}
	return position, checksum, false
}

// restoreTail appends the commits to the log again that its stream has lost from its end and that the
// archive has. It changes nothing if the stream has all that is known of it, or if the archive has another
// history. Other replicas may do the same at the same time. While the server that leads the stream may
// still be catching up, the caller sets catching.
func (r *opening) restoreTail(ctx context.Context, catching func() bool) error {
	if r.archive == nil {
		return nil
	}
	position, checksum, ofArchive := r.seenEnd(ctx)
	var last uint64
	if err := r.await(ctx, func(ctx context.Context) (err error) {
		if last, _, err = r.events.Last(ctx); err == nil && last < position && catching() {
			err = fmt.Errorf("realm %s: sequence %d, with %d known: %w", r.name, last, position, replay.ErrBehind)
		}
		return err
	}); err != nil || last >= position {
		return err
	}
	if !ofArchive && !r.accepts(r.known()) {
		archived, ok, err := r.wholeLog.Archived(ctx, position)
		if err != nil {
			return fmt.Errorf("the archive %s cannot be read: %w", r.archive, err)
		}
		if !ok || archived != checksum {
			return fmt.Errorf("the archive %s does not have the commit at sequence %d", r.archive, position)
		}
	}
	before, end, err := r.appendLost(ctx)
	if end > before {
		r.log.Error("the log had lost its newest commits; they were appended again from the archive", "archive", r.archive.String(), "first", before+1, "last", end)
		if id, err := r.wholeLog.RealmID(ctx); err == nil {
			r.warner.Damaged(uid.FromUUID(id), fmt.Sprintf("the log had lost its newest commits; those from sequence %d to %d were appended again from the archive: look for the cause", before+1, end))
		}
	}
	if err != nil {
		err = fmt.Errorf("the commits of the archive %s cannot be appended again from sequence %d on: %w", r.archive, max(end, last)+1, err)
	}
	return err
}

// appendLost appends commits of the archive behind the last message of the stream, each of which must continue the
// one before it. It returns the positions of the last message before and after that.
func (r *withLog) appendLost(ctx context.Context) (before, end uint64, err error) {
	before, sequence, checksum, err := r.events.EndOf(ctx)
	if err != nil {
		return 0, 0, err
	}
	end = before
	err = r.wholeLog.Lost(ctx, end, func(m eventlog.Message) error {
		h, foreign := r.events.Keys().Check(m)
		if foreign == "" && (h.Sequence != sequence+1 || h.Previous != checksum) {
			foreign = fmt.Sprintf("commit %d of the archive does not continue commit %d of the log", h.Sequence, sequence)
		}
		if foreign != "" {
			return &eventlog.BrokenError{Position: m.Position, What: foreign}
		}
		commit, err := m.Open(new([]byte))
		if err != nil {
			return err
		}
		if err := r.events.Restore(ctx, m); err != nil {
			return err
		}
		end, sequence, checksum = m.Position, h.Sequence, eventlog.Checksum(commit)
		return nil
	})
	return before, end, err
}
