package past

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// Sizes of memtables in bytes: of a state that is being built, and of one that is read.
const (
	buildMemTable = 16 << 20
	readMemTable  = 1 << 20
)

// build builds the state of an entry: from the nearest state before it, and the log from there.
func (e *entry) build() (err error) {
	defer func() {
		if p := recover(); p != nil { // the realm goes on
			e.reader.c.Logger.Error("a panic while a state of the past was built", "revision", e.commit.Revision, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	ctx, c := e.reader.ctx, e.reader.cache
	if err := errors.Join(datadir.Make(filepath.Dir(e.dir)), c.free(e, 0)); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	if err := c.grow(e, e.dir); err != nil {
		return err
	}
	if err := e.fold(ctx); err != nil {
		return err
	}
	s, err := state.Open(e.dir, state.Config{Cache: c.blocks, MemTableSize: readMemTable})
	if err != nil {
		return err
	}
	if err := c.grow(e, e.dir); err != nil {
		return errors.Join(err, s.Close())
	}
	e.state = s
	return nil
}

// begin puts the nearest state before the commit into the directory: that of another entry, or a
// snapshot of the archive. Without one, the directory stays empty.
func (e *entry) begin(ctx context.Context) error {
	base := e.reader.cache.nearest(e.reader, e.commit.Sequence)
	if base != nil {
		defer e.reader.cache.release(base)
	}
	if e.reader.c.Archive == nil {
		return e.copy(base)
	}
	realm := e.reader.realmID()
	snapshots, verified, err := archive.Snapshots(ctx, e.reader.c.Archive, realm)
	if err != nil && base == nil && ctx.Err() == nil {
		e.reader.c.Logger.Warn("the archive cannot be listed; building a state of the past from the log alone", "error", err)
		return nil
	}
	newest := uint64(0)
	for _, s := range snapshots {
		if verified[s.Last] && s.Last <= e.commit.Sequence {
			newest = s.Last
		}
	}
	if newest == 0 || base != nil && base.commit.Sequence >= newest {
		return e.copy(base)
	}
	a := &archivestate.Archive{
		Store: e.reader.c.Archive, Realm: realm, Log: e.reader.c.Logger,
		Admit: func(size int64) error { return e.reader.cache.admit(e, size) },
		Grown: func(dir string) error { return e.reader.cache.grow(e, dir) },
	}
	_, err = a.Load(ctx, e.dir, e.reader.c.Created, e.commit.Sequence, state.Config{Cache: e.reader.cache.blocks, MemTableSize: buildMemTable})
	var refused *lifecycle.Error
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &refused):
		return err
	case errors.Is(err, archivestate.ErrNoSnapshot):
		return e.copy(base)
	case base != nil:
		e.reader.c.Logger.Warn("a snapshot cannot be loaded; building a state of the past from an older state", "error", err)
		return e.copy(base)
	}
	// Entries that are damaged were passed over: the archive cannot be read, or the disk written.
	return &wholelog.UnavailableError{Err: err}
}

func (e *entry) copy(base *entry) error {
	if base == nil {
		return nil
	}
	return base.state.CopyTo(e.dir)
}

// nearest returns the entry with the last state before a commit, nil for none. It must be
// released.
func (c *Cache) nearest(reader *Reader, sequence uint64) (nearest *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if e.reader == reader && e.commit.Sequence < sequence && e.done() && (nearest == nil || nearest.commit.Sequence < e.commit.Sequence) {
			nearest = e
		}
	}
	if nearest != nil {
		nearest.users++
	}
	return nearest
}

// pacedLog is a log that is followed at the rate of the cache.
type pacedLog struct {
	replay.Source
	c *Cache
}

// Follow implements replay.Source.
func (l pacedLog) Follow(ctx context.Context, from uint64, visit func(eventlog.Message) error) error {
	return l.Source.Follow(ctx, from, func(m eventlog.Message) error {
		for left := len(m.Data); left > 0; left -= rateBurst {
			if err := l.c.rate.WaitN(ctx, min(left, rateBurst)); err != nil {
				return err
			}
		}
		return visit(m)
	})
}

// fold folds the log into the state in the directory, up to the commit.
func (e *entry) fold(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := e.reader.cache
	s, err := state.Open(e.dir, state.Config{Cache: c.blocks, MemTableSize: buildMemTable})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.Close())
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
	}()
	f := replay.NewFolder(s, e.reader.c.Created, e.reader.c.Keys)
	e.from.Store(f.Sequence())
	f.Applied = func(uint64, []state.Change) {
		e.at.Store(f.Sequence())
		if err := c.grow(e, e.dir); err != nil {
			cancel(err)
		}
	}
	if f.Sequence() == 0 {
		err = f.FoldFromEmpty(ctx, pacedLog{e.reader.c.Log, c}, e.commit.Position)
	} else {
		err = f.FoldTo(ctx, pacedLog{e.reader.c.Log, c}, e.commit.Position)
	}
	if err != nil {
		return err
	}
	if cp := s.Checkpoint(); cp.GetSequence() != e.commit.Sequence || cp.GetChecksum() != e.commit.Checksum {
		return fmt.Errorf("the log has commit %d with checksum %016x, and the fold ends with commit %d with checksum %016x",
			e.commit.Sequence, e.commit.Checksum, cp.GetSequence(), cp.GetChecksum())
	}
	return s.Sync()
}
