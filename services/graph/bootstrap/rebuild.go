package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/archived"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// Rebuild is replay.Rebuild for a log whose stream does not have the realm's first commits: it
// replaces the state in the directory of a graph service, which must not be running, by the newest
// snapshot of the archive, and folds the log from there. If that cannot be read to its end, the
// state is that of the snapshot or of a later commit, from which a graph service continues.
func Rebuild(ctx context.Context, log *eventlog.Log, store archive.Store, dir string, to *slog.Logger) (r replay.Rebuilt, err error) {
	realm := log.Realm()
	history := archived.New(ctx, log, store, [16]byte{})
	mark, err := tail.Read(tail.File(dir, realm))
	if err != nil && !errors.Is(err, tail.ErrDamaged) {
		return r, err
	}
	dir = filepath.Join(dir, realm)
	if err := replay.CheckTail(ctx, mark, history, realm, dir, false); err != nil {
		return r, err
	}
	a := &Archive{Store: store, Log: to}
	if a.Realm, err = history.RealmID(ctx); err != nil {
		return r, err
	}
	commits, err := log.LastCommit(ctx)
	if err != nil {
		return r, err
	}
	if _, err := a.Load(ctx, dir, log.Created(), commits, state.Config{}); err != nil {
		return r, fmt.Errorf("realm %s: %w; the state in %s is unchanged", realm, err, dir)
	}
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := replay.CheckLog(ctx, s.Checkpoint(), history, realm, dir, false); err != nil {
		return r, err
	}
	last, _, err := log.Last(ctx)
	if err != nil {
		return r, err
	}
	f := replay.NewFolder(s, log.Created(), log.Keys())
	r.Commits = f.Sequence()
	if err := f.FoldTo(ctx, history, last); err != nil {
		return r, err
	}
	r.Commits, r.Events, r.Revision = f.Sequence()-r.Commits, f.Events(), f.Revision()
	return r, s.Sync()
}
