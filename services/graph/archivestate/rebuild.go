package archivestate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// Rebuild is replay.Rebuild for a log whose stream lacks commits of the realm, the first ones or others,
// which the archive has: it begins with the newest snapshot of the archive, if there is one, and reads the
// commits since from the stream and from the segments of the archive.
func Rebuild(ctx context.Context, log *eventlog.Log, store archive.Store, states string, to *slog.Logger) (r replay.Rebuilt, err error) {
	realm := log.Realm()
	dir := filepath.Join(states, realm)
	mark, err := tail.Read(tail.File(states, realm))
	if err != nil && !errors.Is(err, tail.ErrDamaged) {
		return r, err
	}
	whole := wholelog.New(ctx, log, store, [16]byte{})
	if id, err := whole.RealmID(ctx); err == nil && id == [16]byte{} && mark.Created == log.Created() { // the stream has lost all its commits
		whole = wholelog.New(ctx, log, store, mark.Realm())
	}
	if err := replay.CheckTail(ctx, mark, whole, realm, dir, false); err != nil {
		return r, err
	}
	a := &Archive{Store: store, Log: to}
	if a.Realm, err = whole.RealmID(ctx); err != nil {
		return r, err
	}
	commits, err := log.LastCommit(ctx)
	if err != nil {
		return r, err
	}
	last, _, err := log.Last(ctx)
	if err != nil {
		return r, err
	}
	err = replay.ReplaceBy(realm, states, func(rebuilt string) (err error) {
		_, none := a.Load(ctx, rebuilt, log.Created(), commits, state.Config{})
		if none != nil && !errors.Is(none, ErrNoSnapshot) {
			return none
		}
		s, err := state.Open(rebuilt, state.Config{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if err := replay.CheckLog(ctx, s.Checkpoint(), whole, realm, dir, false); err != nil {
			return errors.Join(err, none)
		}
		f := replay.NewFolder(s, log.Created(), log.Keys())
		if r.Commits = f.Sequence(); r.Commits == 0 {
			err = f.FoldFromEmpty(ctx, whole, last)
		} else {
			err = f.FoldTo(ctx, whole, last)
		}
		if err != nil {
			return fmt.Errorf("realm %s: %w", realm, err)
		}
		r.Commits, r.Events, r.Revision = f.Sequence()-r.Commits, f.Events(), f.Revision()
		return s.Sync()
	})
	return r, err
}
