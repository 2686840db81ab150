package archiver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Flushed says what of the log the archive has.
type Flushed struct {
	// Sequence and Revision are those of the last commit up to which segments and a verified snapshot have what
	// was not pruned; zero if that is not known.
	Sequence, Revision uint64
}

// flushing is what the callers of Flush and the archiver share.
type flushing struct {
	wake   chan struct{} // has an element if the archiver is not to sleep
	leased atomic.Bool   // the archiver has the lease
	due    atomic.Bool   // a commit is to be archived, and the last attempt has not failed

	mu      sync.Mutex
	until   uint64 // the last commit that is to be archived
	done    Flushed
	failed  error         // why the last attempt has failed
	changed chan struct{} // closed when done or failed change
}

func newFlushing() flushing {
	return flushing{wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Flush puts the log into the archive up to a commit, without waiting until a segment is complete. It returns when that is done, when
// an attempt has failed, or when ctx ends; then the archiver goes on, and another call with the same commit
// continues to wait. The first call for a commit sets again, so that nothing of earlier calls counts. It is safe for
// concurrent use; Run must run.
func (a *Archiver) Flush(ctx context.Context, until uint64, again bool) (Flushed, error) {
	f := &a.flushing
	f.mu.Lock()
	if again || until > f.until || f.failed != nil { // a call after a failure tries again
		f.done, f.failed = Flushed{}, nil
	}
	f.until = max(f.until, until)
	f.due.Store(f.done.Sequence < f.until && f.failed == nil)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	for {
		f.mu.Lock()
		done, failed, changed := f.done, f.failed, f.changed
		f.mu.Unlock()
		if done.Sequence >= until || failed != nil {
			return done, failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return done, nil
		}
	}
}

// Leased reports whether the archiver has the lease of the realm.
func (a *Archiver) Leased() bool { return a.flushing.leased.Load() }

// finish records what was archived.
func (f *flushing) finish(done Flushed) {
	f.change(func() { f.done, f.failed = done, nil })
}

// fail records that an attempt has failed, if one was asked for.
func (f *flushing) fail(err error) {
	if f.due.Load() {
		f.change(func() { f.failed = err })
	}
}

func (f *flushing) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.due.Store(f.done.Sequence < f.until && f.failed == nil)
	close(f.changed)
	f.changed = make(chan struct{})
}

// sleep waits for a duration, until ctx ends, or until Flush is called.
func (a *Archiver) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.flushing.wake:
	case <-t.C:
	}
	return nil
}

// flush archives the log up to the last commit of the state, if a caller of Flush waits for that and the state has its
// commit.
func (w *work) flush(ctx context.Context) (put bool, err error) {
	if !w.flushing.due.Load() {
		return false, nil
	}
	w.flushing.mu.Lock()
	until := w.flushing.until
	w.flushing.mu.Unlock()
	end := w.at.Checkpoint()
	last := end.GetSequence()
	if last < until {
		return false, nil // the next step looks again
	}
	if err := w.list(ctx); err != nil { // an operator may have deleted segments
		return false, err
	}
	before := w.done.Segments
	if err := w.archiveAll(ctx, last); err != nil {
		return false, err
	}
	if err := w.has(last); err != nil {
		return false, err
	}
	done, err := w.archived(ctx, end)
	if err == nil {
		w.flushing.finish(done)
	}
	return w.done.Segments > before, err
}

// archived returns the last commit that the archive has. It has the commit of a checkpoint.
func (w *work) archived(ctx context.Context, end *coppicev1.Checkpoint) (done Flushed, err error) {
	last := end.GetSequence()
	if w.base.Sequence >= last {
		return Flushed{w.base.Sequence, w.base.Revision}, nil
	}
	chain := archive.Chain(w.segments, last)
	if len(chain) == 0 { // it was pruned
		return Flushed{Sequence: last, Revision: end.GetRevision()}, nil
	}
	info, err := w.openSegment(ctx, chain[len(chain)-1])
	return Flushed{info.Last.Sequence, info.Last.Revision}, err
}

// pace is Archiver.pace. While a snapshot is verified, which may take hours, it also does what Flush waits for.
func (w *work) pace(ctx context.Context, bytes int) error {
	if err := w.Archiver.pace(ctx, bytes); err != nil {
		return err
	}
	if w.archiving || w.pacer.resumed.IsZero() || !w.flushing.due.Load() {
		return nil
	}
	resumed := w.pacer.resumed
	w.pacer.resumed = time.Time{} // as outside of a verification
	_, err := w.flush(ctx)
	w.pacer.resumed = resumed
	if err != nil && ctx.Err() == nil {
		w.flushing.fail(err) // the verification goes on
	}
	return ctx.Err()
}

// archives has pace not call archive, until end is called.
func (w *work) archives() (end func()) {
	before := w.archiving
	w.archiving = true
	return func() { w.archiving = before }
}
