package archiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// snapshotDue reports whether another snapshot is to be made.
func (w *work) snapshotDue() bool {
	if w.at.Checkpoint().GetSequence() <= w.base.Sequence || time.Since(w.refused) < refusedPause*w.l.Interval {
		return false
	}
	if w.unusable > 0 && w.unusable == w.base.Sequence {
		return true
	}
	since := w.since
	if w.spool != nil {
		since += w.spool.bytes
	}
	l := w.limits()
	return since >= l.SnapshotBytes || w.c.Now().Sub(w.basedAt) >= l.SnapshotAge
}

// refusedPause is how many times Limits.Interval passes after a snapshot that was not verified
// or could not be stored.
const refusedPause = 600

// snapshot puts the segments up to the last commit of the state into the archive, verifies a
// snapshot of the state with them, and puts the snapshot and the record of its verification into
// the archive.
func (w *work) snapshot(ctx context.Context) (err error) {
	defer w.pacer.verifying()()
	// The file of the snapshot and the second state are each at most about as large as the state.
	if err := w.room(2 * w.c.State.Metrics().DiskSpaceUsage()); err != nil {
		w.refused = time.Now()
		return err
	}
	f, err := os.OpenFile(filepath.Join(w.c.Dir, "snapshot"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		if err != nil && ctx.Err() == nil {
			w.refused = time.Now()
		}
	}()
	snap := w.c.State.Snapshot()
	written, err := snapshot.Write(ctx, f, snap, snapshot.WriteOptions{Pace: w.pace})
	cp := snap.Checkpoint()
	if err = errors.Join(err, snap.Close()); err != nil {
		return err
	}
	if err := w.archiveAll(ctx, cp.GetSequence()); err != nil {
		return err
	}
	from, err := w.verify(ctx, cp, written)
	if err != nil {
		return err
	}
	size, err := w.putSnapshot(ctx, f, cp, written)
	if err != nil {
		return err
	}
	now := w.c.Now()
	v := archive.Verification{
		Sequence: cp.GetSequence(), Position: cp.GetPosition(), Revision: cp.GetRevision(), Checksum: cp.GetChecksum(),
		Hash: written.Hash, From: from, By: w.c.Instance, At: now,
	}
	if err := w.record(ctx, v); err != nil {
		return err
	}
	w.c.Failpoint(FailVerified)
	w.c.Logger.Info("a snapshot was archived and verified", "commit", v.Sequence, "revision", v.Revision, "bytes", size, "since-commit", v.From)
	w.base, w.size, w.since, w.basedAt, w.done.Snapshot = v, size, 0, now, v.Revision
	w.c.Progress(w.done)
	return nil
}

// record stores the record of a verification. One that is there must be of the same content.
func (w *work) record(ctx context.Context, v archive.Verification) error {
	err := archive.PutVerification(ctx, w.c.Store, w.realm, v)
	if !errors.Is(err, archive.ErrExists) {
		return err
	}
	before, err := archive.ReadVerification(ctx, w.c.Store, w.realm, v.Sequence)
	if archive.IsDamaged(err) {
		err = advised(err, "delete it, and the snapshot is verified again")
	}
	if err == nil && (before.Hash != v.Hash || before.Checksum != v.Checksum) {
		err = fmt.Errorf("archive %s: %s is the record of another snapshot; delete it", w.c.Store, archive.VerifiedName(w.realm, v.Sequence))
	}
	return err
}

// verify compares a snapshot of the state with the segments behind an earlier snapshot, and returns the
// commit of that, 0 for none.
func (w *work) verify(ctx context.Context, cp *coppicev1.Checkpoint, written snapshot.Info) (from uint64, err error) {
	folded, from, err := w.fold(ctx, cp)
	if err != nil {
		return 0, fmt.Errorf("the snapshot of commit %d cannot be verified: %w", cp.GetSequence(), err)
	}
	if written.Hash != folded {
		return 0, fmt.Errorf("the snapshot of commit %d is not verified: the segments give the content %x, and the state has %x; run coppice verify and coppice archive verify",
			cp.GetSequence(), folded, written.Hash)
	}
	return from, nil
}

// putSnapshot puts a snapshot into the archive, and reads it back.
func (w *work) putSnapshot(ctx context.Context, f *os.File, cp *coppicev1.Checkpoint, written snapshot.Info) (size int64, err error) {
	if _, err := f.Seek(0, 0); err != nil {
		return 0, err
	}
	name := archive.SnapshotName(w.realm, cp.GetSequence())
	if err := w.c.Store.Put(ctx, name.String(), f, written.Size); err != nil && !errors.Is(err, archive.ErrExists) {
		return 0, err
	}
	stored, err := w.stored(ctx, cp.GetSequence())
	if err != nil {
		return 0, err
	}
	if stored.Hash != written.Hash {
		return 0, fmt.Errorf("archive %s: %s has the content %x, and the state has %x; delete the entry and its record %s, and another snapshot is stored", w.c.Store, name, stored.Hash, written.Hash, archive.VerifiedName(w.realm, cp.GetSequence()))
	}
	w.checked[name.String()] = stored.Hash
	return stored.Size, nil
}

// isChecked reports whether this process has read the snapshot of a verification since it was put. From
// then on it relies on the store.
func (w *work) isChecked(base archive.Verification) bool {
	hash, ok := w.checked[archive.SnapshotName(w.realm, base.Sequence).String()]
	return ok && hash == base.Hash
}

// checkBase returns an error unless the snapshot of a verification can be read and has the content that was
// verified.
func (w *work) checkBase(ctx context.Context, base archive.Verification) error {
	name := archive.SnapshotName(w.realm, base.Sequence)
	err := w.entry(ctx, name, func(in reader) error {
		info, err := snapshot.Verify(ctx, &paced{ctx, w, in})
		if err == nil && info.Hash != base.Hash {
			err = otherContent(info.Hash, base.Hash)
		}
		return err
	})
	if unusable(err) {
		w.unusable = base.Sequence
	}
	if err == nil {
		w.checked[name.String()] = base.Hash
	}
	return err
}

// unusable reports whether an error is that of one snapshot: another one may serve.
func unusable(err error) bool {
	return snapshot.IsUnusable(err) || errors.As(err, new(*snapshot.ReadError))
}

// deleteBase says what to do about a damaged snapshot of a verification.
func (w *work) deleteBase(base archive.Verification) string {
	return "delete it with its record " + archive.VerifiedName(w.realm, base.Sequence).String()
}

// otherContent is the error for a snapshot that can be read, and is not the one that was verified.
func otherContent(is, verified [32]byte) error {
	return archive.Damaged(fmt.Errorf("its content is %x, and %x was verified", is, verified))
}

// stored reads a snapshot back from the archive.
func (w *work) stored(ctx context.Context, sequence uint64) (info snapshot.Info, err error) {
	err = w.entry(ctx, archive.SnapshotName(w.realm, sequence), func(in reader) (err error) {
		info, err = snapshot.Verify(ctx, &paced{ctx, w, in})
		return err
	})
	return info, err
}

// fold returns the content hash of the state after the commit to, folded from the archive alone: from
// the last verified snapshot that can be used, or else from commit 1, and the segments since. from
// is the commit of that snapshot, 0 for none.
func (w *work) fold(ctx context.Context, to *coppicev1.Checkpoint) (hash [32]byte, from uint64, err error) {
	var unusable *baseError // the last snapshot that was passed over
	var fallback archive.Fallback
	for base := w.base; ; {
		hash, err = w.foldFrom(ctx, base, to)
		if err == nil {
			return hash, base.Sequence, nil
		}
		before := unusable
		if !errors.As(err, &unusable) {
			if before != nil {
				err = fmt.Errorf("%w; and %w", before, err)
			}
			return hash, 0, err
		}
		if err := fallback.From(ctx, err, snapshot.IsUnusable(err)); err != nil {
			return hash, 0, err
		}
		w.c.Unusable(archive.SnapshotName(w.realm, base.Sequence).String(), err)
		_, older, ok, err := archive.VerifiedBefore(ctx, w.c.Store, w.realm, base.Sequence, w.skipped)
		if err != nil {
			return hash, 0, err
		}
		if base = older; !ok {
			base = archive.Verification{}
		}
	}
}

// baseError says that the snapshot with which foldFrom begins cannot be used.
type baseError struct{ error }

func (e *baseError) Unwrap() error { return e.error }

// foldFrom is fold with one snapshot; the zero Verification names none.
func (w *work) foldFrom(ctx context.Context, base archive.Verification, to *coppicev1.Checkpoint) (hash [32]byte, err error) {
	chain := archive.Chain(w.segments, base.Sequence+1)
	if len(chain) == 0 || chain[len(chain)-1].Last < to.GetSequence() {
		missing := base.Sequence + 1
		if len(chain) > 0 {
			missing = chain[len(chain)-1].Last + 1
		}
		return hash, fmt.Errorf("archive %s: no segment has commit %d, and the log has it no more; copy it from the archive that has it (coppice archive copy)", w.c.Store, missing)
	}
	dir := filepath.Join(w.c.Dir, "verify")
	if err := os.RemoveAll(dir); err != nil {
		return hash, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if base.Sequence > 0 {
		err := w.load(ctx, base, dir)
		if unusable(err) {
			return hash, &baseError{advised(err, w.deleteBase(base))}
		}
		if err != nil {
			return hash, err
		}
	}
	s, err := state.Open(dir, foldConfig)
	if err != nil {
		return hash, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f := replay.NewFolder(s, w.c.Log.Created(), w.c.Log.Keys())
	source := wholelog.Source{Store: w.c.Store, Segments: chain, Pace: w.pace}
	if err := f.FoldTo(ctx, source, to.GetPosition()); err != nil {
		return hash, err
	}
	for _, s := range chain {
		if s.Last <= to.GetSequence() { // the last one may have been read in part
			w.readBefore[s.Entry.Name] = true
		}
	}
	snap := s.Snapshot().Until(ctx)
	hash, err = snap.ContentHash(func(bytes int) error { return w.pace(ctx, bytes) })
	return hash, errors.Join(err, snap.Close())
}

// foldConfig is the configuration of the state in the second directory: it needs little
// memory, since nothing is read from it but what the fold reads.
var foldConfig = state.Config{CacheSize: 64 << 20, MemTableSize: 16 << 20}

// load loads a verified snapshot into a directory.
func (w *work) load(ctx context.Context, base archive.Verification, dir string) error {
	return w.entry(ctx, archive.SnapshotName(w.realm, base.Sequence), func(in reader) error {
		info, err := snapshot.Build(ctx, &paced{ctx, w, in}, dir, snapshot.Stream{RealmID: w.realm[:], Created: w.c.Log.Created()}, foldConfig)
		if err == nil && info.Hash != base.Hash {
			err = otherContent(info.Hash, base.Hash)
		}
		return err
	})
}

// reader is an entry that is read.
type reader interface {
	Read(b []byte) (int, error)
}

// entry reads an entry of the archive.
func (w *work) entry(ctx context.Context, name archive.Name, read func(reader) error) (err error) {
	for e, err := range w.c.Store.List(ctx, name.String()) {
		if err != nil {
			return err
		}
		if e.Name != name.String() {
			continue
		}
		in, err := w.c.Store.Open(ctx, e.Name, 0, e.Size)
		if err != nil {
			return &snapshot.ReadError{Err: err}
		}
		if err := errors.Join(read(in), in.Close()); err != nil {
			return fmt.Errorf("archive %s: %s: %w", w.c.Store, e.Name, err)
		}
		return nil
	}
	return fmt.Errorf("archive %s: %s: %w", w.c.Store, name, archive.ErrNotFound)
}
