package graph

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
	"github.com/coppice-gc/coppice/services/graph/registry"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// A realm is deleted in steps, which any graph service continues after a crash:
//
//	list: deleting ─► each process stops the realm ─► one of them acquires the lease, so
//	that none writes ─► list: the id of the log ─► delete the streams ─► list: deleted ─►
//	each process deletes its state, whose log has that id
//
// The id is in the list before the log is gone, because a state is deleted only if its log
// is known to be deleted.

// deletionPause is the time between two attempts to delete a realm.
const deletionPause = time.Second

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
		for {
			err := s.tryDelete(ctx, name)
			switch {
			case err == nil || ctx.Err() != nil:
				return nil
			case err.Error() != reported:
				reported = err.Error()
				s.c.Log.Warn("cannot delete the realm yet; trying again", "realm", name, "error", err)
				if fail := s.registry.Waiting(ctx, name, reported); fail != nil {
					s.c.Log.Warn("cannot record what a deletion waits for", "realm", name, "error", fail)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(deletionPause):
			}
		}
	})
}

// tryDelete deletes the streams of a realm, unless another process has deleted it.
func (s *Service) tryDelete(ctx context.Context, name string) error {
	// The realm may have been deleted by another process, and created again.
	list, err := s.registry.List(ctx)
	if err != nil || list.Of(name).GetState() != coppicev1.RealmState_REALM_STATE_DELETING {
		return err
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
	id, err := s.logID(ctx, name)
	if err != nil {
		return err
	}
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
	if !l.Holds() {
		return errors.New("the lease was lost before the streams were deleted")
	}
	if err := bus.DeleteStreams(ctx, s.js, name); err != nil {
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
		return nil, fmt.Errorf("the graph service %s still writes the realm; wait until it has stopped, or stop that process", writer)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the graph service %s did not get the lease of the realm within 2 s, see its log: %w", s.c.Instance, err)
	}
	return l, err
}

// logID returns the id of a realm's log, nil if it has no commit or is gone.
func (s *Service) logID(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	log, err := eventlog.OpenExisting(ctx, s.js, name, eventlog.NewKeys(s.c.Secrets, name))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	last, first, err := log.Last(ctx)
	if err != nil {
		return nil, err
	}
	for ; last >= max(first, 1); last-- {
		b, err := log.Get(ctx, last)
		if errors.Is(err, eventlog.ErrForeign) || errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var c coppicev1.Commit
		if err := proto.Unmarshal(b, &c); err != nil {
			return nil, fmt.Errorf("the commit at sequence %d of the log of realm %s: %w", last, name, err)
		}
		return c.GetRealmId(), nil
	}
	return nil, nil
}

// discard deletes the state of a realm that was deleted, if there is one.
func (s *Service) discard(listed *coppicev1.Realm) error {
	r := &realm{c: &s.c, name: listed.GetName(), log: s.c.Log.With("realm", listed.GetName())}
	if _, err := os.Stat(r.dir()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	r.listed.Store(listed)
	r.openTail()
	if err := r.openState(); err != nil {
		return err
	}
	err := r.discardDeleted()
	if r.state != nil {
		err = errors.Join(err, r.state.Close())
	}
	if err != nil || r.unusable != nil || r.seen.GetSequence() > 0 {
		return err // its log is none that was deleted, or is not known
	}
	return os.RemoveAll(r.dir())
}

// discardDeleted replaces the state by an empty one, if its log is one that was deleted with
// its realm. The realm may have been created again since.
func (r *realm) discardDeleted() error {
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
	// The mark goes first: without its state it would be compared with the next log.
	if err := os.Remove(tail.File(r.c.Dir, r.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := state.Remove(r.dir()); err != nil {
		return err
	}
	r.openTail()
	return r.openState()
}
