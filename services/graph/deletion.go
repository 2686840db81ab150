package graph

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/registry"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// A realm is deleted in steps, which any graph service continues after a crash:
//
//	list: deleting ─► each process stops the realm ─► one of them acquires the lease, so
//	that none writes ─► it archives the rest of the log ─► list: the id of the log ─► delete
//	the streams ─► list: deleted ─► each process deletes its state, whose log has that id
//
// The id is in the list before the log is gone, because a state is deleted only if its log
// is known to be deleted.

// The pauses between two attempts to delete a realm: each attempt may read much of the archive.
const (
	deletionPause    = time.Second
	maxDeletionPause = time.Minute
)

// delete carries out the deletion of a realm in g, unless this process does so already.
func (s *Service) delete(ctx context.Context, g *errgroup.Group, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleting[name] {
		return
	}
	s.deleting[name] = true
	g.Go(func() error {
		defer func() {
			s.mu.Lock()
			delete(s.deleting, name)
			s.mu.Unlock()
			s.changed()
		}()
		reported := ""
		for pause := deletionPause; ; {
			err := s.tryDelete(ctx, name)
			if err == nil || ctx.Err() != nil {
				return nil
			}
			if err.Error() != reported {
				reported = err.Error()
				s.c.Log.Warn("cannot delete the realm yet; trying again", "realm", name, "error", err)
			}
			s.waiting(ctx, name, err)
			if !s.pauseDeletion(ctx, name, pause) {
				return nil
			}
			var other *otherError
			if pause = min(2*pause, maxDeletionPause); errors.As(err, &other) {
				pause = deletionPause
			}
		}
	})
}

// pauseDeletion waits until the next attempt to delete a realm: for a time, or until the realm is to be deleted
// without archive. It returns false if ctx has ended.
func (s *Service) pauseDeletion(ctx context.Context, name string, pause time.Duration) bool {
	for end := time.Now().Add(pause); ; {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(pause, deletionPause)):
		}
		if time.Now().After(end) {
			return true
		}
		if list, err := s.registry.List(ctx); err == nil && list.Of(name).GetWithoutArchive() {
			return true
		}
	}
}

// otherError is why a process cannot delete a realm which another may be deleting.
type otherError struct{ error }

// waiting records in the list what a deletion waits for, unless the list has it. An otherError does
// not replace a reason that is recorded.
func (s *Service) waiting(ctx context.Context, name string, why error) {
	list, err := s.registry.List(ctx)
	var other *otherError
	if recorded := list.Of(name).GetWaiting(); err == nil && (recorded == why.Error() || recorded != "" && errors.As(why, &other)) {
		return
	}
	if err == nil {
		err = s.registry.Waiting(ctx, name, why.Error())
	}
	if err != nil && ctx.Err() == nil {
		s.c.Log.Warn("cannot record what the deletion of the realm waits for", "realm", name, "error", err)
	}
}

// tryDelete archives the rest of a realm's log and deletes its streams, unless another process has
// deleted it.
func (s *Service) tryDelete(ctx context.Context, name string) error {
	// The realm may have been deleted by another process, and created again.
	list, err := s.registry.List(ctx)
	if err != nil || list.Of(name).GetState() != coppicev1.RealmState_REALM_STATE_DELETING {
		return err
	}
	if s.c.Archive == nil && !list.Of(name).GetWithoutArchive() {
		return &otherError{fmt.Errorf("the graph service %s has no archive: start it with --archive, or delete the realm with --without-archive", s.c.Instance)}
	}
	l, err := s.stopped(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = l.Release(context.WithoutCancel(ctx)) }()
	list, err = s.registry.List(ctx)
	if err != nil || list.Of(name).GetState() != coppicev1.RealmState_REALM_STATE_DELETING {
		return err
	}
	// A process that has not seen the new list yet may still create streams of the realm.
	age := s.c.Now().Sub(time.UnixMicro(list.Of(name).GetDeleted()))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3*listInterval - max(age, 0)):
	}
	e, err := s.endOf(ctx, name, list.Of(name).GetWithoutArchive())
	if err != nil {
		return err
	}
	if err := s.archiveRest(ctx, l, e); err != nil {
		return err
	}
	id := e.last.GetRealmId()
	if len(id) == 0 { // the log is gone, or was never begun: what this process has seen of it
		if seen, err := tail.Open(tail.File(s.c.Dir, name)); err == nil {
			if id, err = hex.DecodeString(seen.Mark().RealmID); err != nil {
				return err
			}
		}
	}
	if err := s.registry.Deleting(ctx, name, id); err != nil {
		return err
	}
	s.c.Failpoint("delete streams")
	if err := bus.DeleteStreams(ctx, s.js, name, func() error { return s.unchanged(ctx, l, e) }); err != nil {
		return err
	}
	if err := s.registry.Deleted(ctx, name); err != nil {
		return err
	}
	s.c.Log.Info("the realm is deleted", "realm", name)
	return nil
}

// stopped waits until no process writes a realm, and returns the realm's lease.
func (s *Service) stopped(ctx context.Context, name string) (*lease.Lease, error) {
	waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l, err := s.member.Acquire(waiting, name, lease.Options{Anyway: true})
	if writer := s.member.Writers()[name]; err != nil && ctx.Err() == nil && writer != "" {
		return nil, &otherError{fmt.Errorf("the graph service %s still writes the realm; wait until it has stopped, or stop that process", writer)}
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the graph service %s did not get the lease of the realm within 2 s, see its log: %w", s.c.Instance, err)
	}
	return l, err
}

// discard deletes the state of a realm that was deleted, if there is one.
func (s *Service) discard(listed *coppicev1.Realm) error {
	if err := os.RemoveAll(filepath.Join(s.c.Dir, archiverDir, listed.GetName())); err != nil {
		return err
	}
	r := &realm{c: &s.c, name: listed.GetName(), log: s.c.Log.With("realm", listed.GetName())}
	if _, err := os.Stat(r.dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	r.listed.Store(listed)
	o := newOpening(r)
	if err := o.openState(); err != nil {
		return err
	}
	err := o.discardDeleted()
	if o.state != nil {
		err = errors.Join(err, o.state.Close())
	}
	if err != nil || o.unusable != nil || o.seen.GetSequence() > 0 {
		return err // the log of the state was not deleted, or is not known
	}
	return os.RemoveAll(r.dir())
}

// discardDeleted replaces the state by an empty one, if its log is one that was deleted with
// its realm. The realm may have been created again since.
func (r *opening) discardDeleted() error {
	id := r.seen.GetRealmId()
	if len(id) == 0 { // after a crash nothing but the mark may be left
		var err error
		if id, err = hex.DecodeString(r.tail.Mark().RealmID); err != nil {
			return err
		}
	}
	if !registry.WasDeleted(r.listed.Load(), id) {
		return nil
	}
	r.log.Info("deleting the state of the realm's former log, which was deleted")
	if r.state != nil {
		if err := r.state.Close(); err != nil {
			return err
		}
		r.state = nil
	}
	// The mark is removed first: if it were left without the state, for example by a crash, it would be
	// compared with the next log.
	if err := os.Remove(tail.File(r.c.Dir, r.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := state.Remove(r.dir()); err != nil {
		return err
	}
	r.openTail()
	return r.openState()
}
