package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/continuation"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Begin folds a recorded log of a size in bytes, and begins a realm that continues it: see
// continuation.Begin. The commits of the recording are put into the archive of the realm, so that
// clients of the realm can read its past. dir is a directory for temporary files, which
// must not exist; the caller removes it. progress is called as by Fold.
//
// A recording that cannot be used is refused before anything is stored. After another error
// its segments may be in the archive, and the error names them: they are not deleted, because
// the archiver of the recorded realm may have found them already. After a crash there is
// either the realm, or segments and a snapshot in the archive that no realm needs.
// The errors are those of Open, a PartialError, and a BeginError if the recording is good.
func Begin(ctx context.Context, in io.ReaderAt, size int64, dir string, c continuation.Config, progress func(sequence, last uint64)) (f Folded, b continuation.Begun, err error) {
	l, err := Open(in, size)
	if err != nil {
		return f, b, err
	}
	if !l.Begins() {
		return f, b, &PartialError{First: l.info.Before.Sequence + 1}
	}
	s, err := state.Open(filepath.Join(dir, stateName), state.Config{})
	if err != nil {
		return f, b, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if f, err = l.foldInto(ctx, s, progress); err != nil {
		return f, b, err
	}
	p := &putter{store: c.Archive, file: filepath.Join(dir, logName)}
	if err = p.put(ctx, l.r); err == nil {
		b, err = continuation.Begin(ctx, s, c)
	}
	if err != nil {
		err = &BeginError{Archive: c.Archive.String(), Left: p.new, Err: err}
	}
	return f, b, err
}

// BeginError is returned if a realm could not begin with a recording that was read.
type BeginError struct {
	Archive string
	Left    []string // entries that were put into the archive, and stay there
	Err     error
}

func (e *BeginError) Error() string {
	if len(e.Left) == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v; the commits of the recording stay in the archive %s: %s", e.Err, e.Archive, strings.Join(e.Left, ", "))
}

// Unwrap implements errors.Unwrap.
func (e *BeginError) Unwrap() error { return e.Err }

// segmentBytes is the size in bytes of the messages from which on a segment is complete.
const segmentBytes = 64 << 20

// putter puts the commits of a recording into an archive.
type putter struct {
	store archive.Store
	file  string   // a temporary file
	new   []string // entries that were put, and were not there before
}

// put puts all commits, those of each realm id as segments of their own.
func (p *putter) put(ctx context.Context, r *segment.Reader) (err error) {
	var w *segment.Writer
	out, err := os.OpenFile(p.file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var realm [16]byte
	bytes := 0
	for c, err := range r.Commits(0) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && w != nil && (bytes >= segmentBytes || c.RealmID != realm) {
			err, w = p.segment(ctx, out, w), nil
		}
		if err == nil && w == nil {
			bytes, realm = 0, c.RealmID
			w, err = segment.NewWriter(out)
		}
		if err == nil {
			bytes += len(c.Message)
			err = w.Add(c.Position, c.Message)
		}
		if err != nil {
			return err
		}
	}
	return p.segment(ctx, out, w)
}

// segment completes a segment and puts it. An entry of its name must have the same commits.
func (p *putter) segment(ctx context.Context, out *os.File, w *segment.Writer) error {
	info, err := w.Close()
	if err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
	switch err := p.store.Put(ctx, name.String(), out, info.Size); {
	case errors.Is(err, archive.ErrExists):
		if err := p.compare(ctx, name, &info); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		p.new = append(p.new, name.String())
	}
	_, err = out.Seek(0, io.SeekStart)
	return errors.Join(err, out.Truncate(0))
}

// compare returns an error unless an entry of the archive has the same commits as a segment.
func (p *putter) compare(ctx context.Context, name archive.Name, info *segment.Info) error {
	for e, err := range p.store.List(ctx, name.String()) {
		if err != nil {
			return err
		}
		if e.Name != name.String() {
			continue
		}
		r, err := archive.OpenSegment(ctx, p.store, e)
		if err == nil && r.Info().Hash != info.Hash {
			err = fmt.Errorf("it has other commits than the recording: they are of different histories; name another archive")
		}
		if err != nil {
			return fmt.Errorf("archive %s: %s: %w", p.store, name, err)
		}
	}
	return nil
}
