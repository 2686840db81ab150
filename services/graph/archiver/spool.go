package archiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// spool is a segment in a file, which is put when it is complete.
type spool struct {
	file  *os.File
	w     *segment.Writer
	began time.Time // the time of its first commit, and not later than when that was read
	bytes int64     // of its messages
	// chain is behind its last commit, and at the position of the last message that was read.
	chain eventlog.Chain
	at    uint64
	until uint64 // the sequence of the last commit that it may have
	room  []byte
}

// Bounds of one read of the log.
const (
	readMessages = 1000
	readBytes    = 4 << 20
)

// archive reads commits of the log that the archive lacks into segments, up to a commit that the
// state has. It leaves the last segment open unless it is complete.
func (w *work) archive(ctx context.Context, last uint64) (put bool, err error) {
	defer w.archives()()
	most := w.limits().SegmentBytes
	for {
		if w.spool == nil {
			more, err := w.open(ctx, last)
			if err != nil || !more {
				return put, err
			}
		}
		s := w.spool
		for s.chain.Sequence < min(last, s.until) && s.bytes < most {
			if err := w.read(ctx, min(last, s.until), most); err != nil {
				return put, err
			}
		}
		if s.bytes < most && s.chain.Sequence < s.until {
			return put, nil
		}
		put = true
		if err := w.put(ctx); err != nil {
			return put, err
		}
	}
}

// open opens a segment for the first commits that the archive lacks. It reports false if there
// are none up to a commit.
func (w *work) open(ctx context.Context, last uint64) (more bool, err error) {
	if last <= w.complete {
		return false, nil
	}
	h, _, err := wholelog.New(ctx, w.c.Log, nil, w.realm).FirstCommit(ctx)
	if err != nil || h.Sequence == 0 {
		return false, err
	}
	first, until := lacking(w.segments, max(h.Sequence, w.pruned+1))
	if first > last {
		w.complete = last
		return false, nil
	}
	position, err := w.at.Position(ctx, first)
	if err != nil {
		return false, err
	}
	s := &spool{at: position - 1, until: until, began: w.c.Now()}
	if h, _, err = w.commit(ctx, position); err != nil {
		return false, err
	}
	if h.Sequence != first {
		return false, fmt.Errorf("the log has commit %d at sequence %d, where the state has commit %d", h.Sequence, position, first)
	}
	if at := h.Time.Time(); at.Before(s.began) {
		s.began = at // a process that lives for less than SegmentAge archives it, too
	}
	if first > 1 {
		s.chain = eventlog.ChainBefore(&h)
		if err := w.continues(ctx, &h); err != nil {
			return false, err
		}
	}
	if s.file, err = os.OpenFile(filepath.Join(w.c.Dir, "segment"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600); err != nil {
		return false, err
	}
	if s.w, err = segment.NewWriter(s.file); err != nil {
		return false, errors.Join(err, s.file.Close())
	}
	w.spool = s
	return true, nil
}

// continues checks that a commit continues the segment that ends before it.
func (w *work) continues(ctx context.Context, h *eventlog.Header) error {
	for _, s := range w.segments {
		if s.Last != h.Sequence-1 {
			continue
		}
		info, known, err := w.usable(ctx, s, &archive.Fallback{})
		if err != nil {
			return err
		}
		if end := info.Last.Checksum; known && end != h.Previous {
			return w.lost([]string{s.Entry.Name}, fmt.Sprintf("commit %d of the log follows a commit with checksum %016x, and the segment ends with %016x", h.Sequence, h.Previous, end))
		}
	}
	return nil
}

// read reads some messages into the spool, up to a commit, or until it is complete.
func (w *work) read(ctx context.Context, last uint64, most int64) error {
	s := w.spool
	before := s.at
	_, err := w.c.Log.Read(ctx, s.at+1, readMessages, readBytes, func(m eventlog.Message) error {
		if s.chain.Sequence >= last || s.bytes >= most {
			return errEnough
		}
		if err := w.pace(ctx, len(m.Data)); err != nil {
			return err
		}
		s.at = m.Position
		return s.add(w.c.Log.Keys(), m)
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && s.at == before:
		return fmt.Errorf("log of realm %s: nothing can be read after sequence %d, and commit %d is there", w.c.Realm, before, last)
	}
	return err
}

// errEnough ends a read.
var errEnough = errors.New("enough")

// add adds a message, unless it is no commit of the realm.
func (s *spool) add(keys *eventlog.Keys, m eventlog.Message) error {
	h, foreign := keys.Check(m)
	if foreign != "" || s.chain.Skips(&h) != "" {
		return nil
	}
	commit, err := m.Open(&s.room)
	if err != nil {
		return &eventlog.BrokenError{Position: m.Position, Last: m.Position, What: err.Error()}
	}
	newKey, err := eventlog.NewKeyOf(commit)
	if err != nil {
		return &eventlog.BrokenError{Position: m.Position, Last: m.Position, What: err.Error()}
	}
	if err := s.chain.Follow(m.Position, &h, newKey, eventlog.Checksum(commit)); err != nil {
		return err
	}
	s.bytes += int64(len(m.Data))
	if err := s.w.Add(m.Position, m.Data); !errors.Is(err, segment.ErrFull) {
		return err
	}
	return errors.New("the segment is full")
}

// put completes the segment, and puts it into the archive.
func (w *work) put(ctx context.Context) error {
	s := w.spool
	defer w.discard()
	info, err := s.w.Close()
	if err != nil {
		return err
	}
	if _, err := s.file.Seek(0, 0); err != nil {
		return err
	}
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
	if err := w.c.Store.Put(ctx, name.String(), s.file, info.Size); err != nil && !errors.Is(err, archive.ErrExists) {
		return err
	}
	w.add(name, info.Size)
	w.since += s.bytes
	w.end = s.chain
	w.done.Segments = max(w.done.Segments, info.Last.Revision)
	w.c.Progress(w.done)
	return nil
}

// discard deletes the segment that is being written.
func (w *work) discard() {
	if w.spool != nil {
		_ = w.spool.file.Close() // an error does not matter: the segment was put, or is read again
		_ = os.Remove(w.spool.file.Name())
		w.spool = nil
	}
}
