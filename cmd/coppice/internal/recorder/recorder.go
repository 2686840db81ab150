package recorder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Recorder writes commits to a file. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	file    *output
	segment *segment.Resumed
	chain   eventlog.Chain // of the commits that are recorded
	room    []byte         // for the content of a commit
	created bool           // there was no file
	added   uint64         // commits
	skipped uint64         // messages that are commits of an older history
	failed  error          // of a sync: the system reports a failure once, and later syncs succeed
}

// Open opens a file, which is created unless it exists. A file that exists must be a
// recording, closed or not: it is continued. Nothing is written to it before the first
// commit is added.
func Open(name string) (r *Recorder, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, datadir.FileMode)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, datadir.FileMode)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file: record into one", name)
	}
	if err == nil && info.Size() == 0 {
		err = f.Chmod(datadir.FileMode)
	}
	if err != nil {
		return nil, err
	}
	r = &Recorder{file: &output{f: f, size: info.Size(), sync: f.Sync}, created: created}
	if r.segment, err = segment.Resume(f, info.Size(), r.file); err != nil {
		return nil, fmt.Errorf("%s: %w; record into another file", name, err)
	}
	r.file.at = r.segment.End
	return r, r.learn()
}

// learn sets the chain behind the last commit of the file.
func (r *Recorder) learn() error {
	if r.segment.Kept == nil {
		return nil
	}
	for c, err := range r.segment.Kept.Commits(r.segment.Last().Sequence) {
		if err != nil {
			return err
		}
		if err := r.follow(c.Position, &c.Header, c.Content, c.Checksum); err != nil {
			return err
		}
	}
	return nil
}

// follow moves the chain behind a commit.
func (r *Recorder) follow(position uint64, h *commitcodec.Header, commit []byte, checksum uint64) error {
	newKey, err := eventlog.NewKeyOf(commit)
	if err != nil {
		return err
	}
	key := newKey
	if key == (eventlog.KeyID{}) {
		key = eventlog.KeyID{Number: h.Key}
	}
	r.chain = eventlog.Chain{RealmID: h.RealmID, Sequence: h.Sequence, Position: position, Checksum: checksum, Epoch: h.Epoch, Time: h.Time, Key: key}
	return nil
}

// Before returns the place before the first commit of the file, and whether there is one.
func (r *Recorder) Before() (before segment.Point, ok bool) {
	if r.segment.Kept == nil {
		return before, false
	}
	return r.segment.Kept.Info().Before, true
}

// Last returns the last commit of the file, zero if there is none.
func (r *Recorder) Last() segment.Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.segment.Last()
}

// OtherError is returned for a log that is not the one that the file has.
type OtherError struct{ What string }

func (e *OtherError) Error() string {
	return "the file has another log: " + e.What + "; record into another file"
}

// Check compares the message at the position of the file's last commit with that commit.
// It returns an OtherError if they differ.
func (r *Recorder) Check(position uint64, message []byte) error {
	last := r.Last()
	commit, err := envelope.Open(message)
	if err != nil || position != last.Position || commitcodec.Checksum(commit) != last.Checksum {
		return &OtherError{What: fmt.Sprintf("its last commit is number %d, and the realm has a different message at position %d", last.Sequence, last.Position)}
	}
	return nil
}

// Add adds the message at a position of the stream, which a graph service has found to be a
// commit, and reports whether it was added. Two kinds of commits are left out: while the file has
// no commits, those whose last revision is before from; and those of an older history of the
// realm, as every reader leaves them out.
func (r *Recorder) Add(position uint64, message []byte, from uint64) (added bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return false, r.failed
	}
	commit, err := envelope.OpenInto(&r.room, message)
	if err != nil {
		return false, err
	}
	h, err := commitcodec.ReadHeader(commit)
	if err != nil {
		return false, err
	}
	n, err := commitcodec.CountEvents(commit)
	if err != nil {
		return false, err
	}
	if h.RealmID != r.chain.RealmID {
		origin, err := commitcodec.Origin(commit)
		if err != nil {
			return false, err
		}
		r.chain.Adopt(&h, origin)
	}
	switch {
	case h.FirstRevision-1+n < from && r.segment.Last().Sequence == 0:
		return false, nil
	case r.chain.Skips(&h) != "":
		r.skipped++
		return false, nil
	}
	if err := r.segment.Add(position, message); err != nil {
		return false, err
	}
	r.added++
	return true, r.follow(position, &h, commit, commitcodec.Checksum(commit))
}

// Added returns the number of commits that were added, and the number of messages that
// were left out as commits of an older history.
func (r *Recorder) Added() (added, skipped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.added, r.skipped
}

// Blocks returns the number of blocks that the file has.
func (r *Recorder) Blocks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.segment.Blocks()
}

// Flush writes the commits that were added to the file and has them stored on disk.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.segment.Size()
	if err := r.segment.Flush(); err != nil || r.segment.Size() == before {
		return errors.Join(r.failed, err)
	}
	return r.sync()
}

// sync has the file stored on disk. After a failure it fails always.
func (r *Recorder) sync() error {
	if r.failed == nil {
		if err := r.file.sync(); err != nil {
			r.failed = fmt.Errorf("%w; what was written may not be stored: record into another file", err)
		}
	}
	return r.failed
}

// Close completes the file: it writes the index and the footer behind the last commit, also if
// nothing was added. If the file has no commits, the error is segment.ErrNoCommits: Close removes
// a file that Open created, and leaves any other file as it is.
func (r *Recorder) Close() (info segment.Info, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { err = errors.Join(err, r.file.f.Close()) }()
	if r.segment.Last().Sequence == 0 {
		if r.created {
			err = r.file.removeEmpty()
		}
		return info, errors.Join(segment.ErrNoCommits, err)
	}
	if r.failed != nil {
		return info, r.failed
	}
	if info, err = r.segment.Close(); err != nil {
		return info, err
	}
	return info, r.sync()
}

// output writes to a file from an offset on, and cuts the file there before the first
// write. It fails if another program has changed the size of the file.
type output struct {
	f        *os.File
	size, at int64
	sync     func() error
}

var _ io.Writer = (*output)(nil)

// removeEmpty removes the file unless another program has written to it.
func (o *output) removeEmpty() error {
	info, err := o.f.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	return os.Remove(o.f.Name())
}

func (o *output) Write(b []byte) (n int, err error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() != o.size {
		return 0, fmt.Errorf("%s: another program has changed the file: it has %d bytes, and had %d", o.f.Name(), info.Size(), o.size)
	}
	if o.size > o.at {
		if err := o.f.Truncate(o.at); err != nil {
			return 0, err
		}
	}
	n, err = o.f.WriteAt(b, o.at)
	o.at += int64(n)
	o.size = o.at
	return n, err
}
