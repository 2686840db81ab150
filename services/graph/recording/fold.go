package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// What the directory of a folded recording has.
const (
	logName   = "log.segment"
	stateName = "state"
	pastName  = ".past"
)

// Folded says what Fold has done.
type Folded struct {
	segment.Info
	Events uint64
}

// PartialError is returned for a recording that does not begin with the first commit of its
// realm, and therefore cannot be folded.
type PartialError struct {
	First uint64 // the sequence of its first commit
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("the recording begins with commit %d: only one that begins with commit 1 can be replayed; record the log without --from. The log of a restored realm begins later, and cannot be replayed", e.First)
}

// Fold copies a recorded log into a directory, which must be empty or not exist, and folds
// it into a state there. The directory has both or nothing: Fold works in one next to it.
// It calls progress with the sequence of the last commit that it has folded, and of the last commit. The errors are those of
// Open, a PartialError, or of the file system.
func Fold(ctx context.Context, file, dir string, progress func(sequence, last uint64)) (f Folded, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return f, err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return f, fmt.Errorf("%s is not empty: name a directory that does not exist", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	partial := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".replay")
	if err := state.CheckUnlocked(filepath.Join(partial, stateName)); err != nil {
		return f, fmt.Errorf("%s: %w", partial, err)
	}
	if err := os.RemoveAll(partial); err != nil { // of a call that was killed
		return f, err
	}
	if f, err = foldInto(ctx, file, partial, progress); err != nil {
		return f, errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return f, errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Rename(partial, dir); err != nil {
		return f, errors.Join(err, os.RemoveAll(partial))
	}
	return f, nil
}

func foldInto(ctx context.Context, file, dir string, progress func(sequence, last uint64)) (f Folded, err error) {
	in, err := os.Open(file)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return f, err
	}
	l, err := Open(in, info.Size())
	if err != nil {
		return f, fmt.Errorf("%s: %w", file, err)
	}
	if !l.Begins() {
		return f, fmt.Errorf("%s: %w", file, &PartialError{First: l.info.Before.Sequence + 1})
	}
	if err := datadir.Own(dir); err != nil {
		return f, err
	}
	s, err := state.Open(filepath.Join(dir, stateName), state.Config{})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if f, err = l.foldInto(ctx, s, progress); err != nil {
		return f, fmt.Errorf("%s: %w", file, err)
	}
	return f, errors.Join(s.Sync(), copyFile(filepath.Join(dir, logName), io.NewSectionReader(in, 0, info.Size())))
}

// foldInto folds a recording into an empty state.
func (l *Log) foldInto(ctx context.Context, s *state.State, progress func(sequence, last uint64)) (f Folded, err error) {
	f.Info = l.info
	folder := replay.NewFolder(s, 0, l.keys)
	folder.Applied = func(uint64, []state.Change) { progress(folder.Sequence(), l.info.Last.Sequence) }
	err = folder.FoldFromEmpty(ctx, l, l.info.Last.Position)
	f.Events = folder.Events()
	return f, err
}

// copyFile writes a file of its own, so that a recording that is continued does not change
// the copy.
func copyFile(name string, from io.Reader) (err error) {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, datadir.FileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
