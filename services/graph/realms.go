package graph

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/api/realms"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/registry"
)

// listInterval is the time between two looks at the list of realms. Another graph service
// may have changed it.
const listInterval = time.Second

// all returns the realms that this process serves, ordered by name.
func (s *Service) all() []*realm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.realms), func(a, b *realm) int { return cmp.Compare(a.name, b.name) })
}

// changed has followList read the list of realms again at once.
func (s *Service) changed() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// followList runs the realms of the list in g, and follows the list, until ctx ends.
// While the list cannot be read, the realms run on.
func (s *Service) followList(ctx context.Context, g *errgroup.Group) error {
	added, reported, applied, all := false, "", "", true
	for {
		err := s.addRealms(ctx, &added)
		var list registry.List
		if err == nil {
			list, err = s.registry.List(ctx)
		}
		if err == nil {
			list, err = s.relist(ctx, list)
		}
		switch {
		case err == nil:
			reported = ""
			s.waits.Store(nil)
			if list.Version != applied || !all {
				all = s.follow(ctx, g, list, list.Version != applied)
				applied = list.Version
			}
		case ctx.Err() == nil && err.Error() != reported:
			reported = err.Error()
			why := waiting(ctx, s.c.Log, "waiting for the list of realms", err)
			if applied == "" { // later the realms run on
				s.waits.Store(&why)
			}
		}
		pause := listInterval
		if err != nil {
			pause /= 4
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-time.After(pause):
		}
	}
}

// addRealms adds the realms of the configuration to the list, once.
func (s *Service) addRealms(ctx context.Context, added *bool) error {
	if *added {
		return nil
	}
	for _, name := range s.c.Realms {
		r, err := s.registry.Ensure(ctx, name, s.c.Now())
		if err != nil {
			return err
		}
		if state := r.GetState(); state != coppicev1.RealmState_REALM_STATE_ACTIVE {
			s.c.Log.Warn("the realm was deleted, and is not served; `coppice realm create` creates it again", "realm", name, "by", r.GetDeletedBy())
		}
	}
	*added = true
	return nil
}

// relist adds realms that run and are not in the list. Keys are never removed from it, so its
// bucket was lost, and was created again.
func (s *Service) relist(ctx context.Context, list registry.List) (registry.List, error) {
	lost := false
	for _, r := range s.all() {
		if r.cancel == nil || list.Of(r.name) != nil {
			continue
		}
		s.c.Log.Warn("the list of realms was lost; adding the realm to it again", "realm", r.name)
		if _, err := s.registry.Ensure(ctx, r.name, s.c.Now()); err != nil {
			return list, err
		}
		lost = true
	}
	if !lost {
		return list, nil
	}
	return s.registry.List(ctx)
}

// follow starts the realms that are in the list, and stops those that are not. changed is
// whether the list has changed since the last call. It reports whether all that are not served
// any more have ended; if not, it must be called again.
func (s *Service) follow(ctx context.Context, g *errgroup.Group, list registry.List, changed bool) (all bool) {
	for _, r := range s.all() {
		listed := list.Of(r.name)
		r.listed.Store(listed)
		if listed.GetState() != coppicev1.RealmState_REALM_STATE_ACTIVE {
			s.stop(r)
		}
	}
	ended := s.ended(ctx)
	for _, listed := range list.Realms {
		name := listed.GetName()
		if s.stopping[name] != nil || !changed && !ended[name] {
			continue
		}
		switch listed.GetState() {
		case coppicev1.RealmState_REALM_STATE_ACTIVE:
			s.start(ctx, g, listed)
		case coppicev1.RealmState_REALM_STATE_DELETING:
			s.delete(ctx, g, name)
		case coppicev1.RealmState_REALM_STATE_DELETED:
			if err := s.discard(listed); err != nil {
				s.c.Log.Warn("cannot delete the state of a realm that was deleted; it takes space on the disk", "realm", name, "error", err)
			}
		}
	}
	return len(s.stopping) == 0
}

// stopping is a realm that is not served any more and has not ended. Others do not wait for it:
// it may never end, for example because a disk hangs.
type stopping struct {
	*realm
	since    time.Time
	reported bool
}

// slowStop is how long a realm may take to end before this is reported.
const slowStop = 10 * time.Second

// stop makes a realm end.
func (s *Service) stop(r *realm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.realms, r.name)
	if r.cancel == nil { // it was never started
		r.metrics.remove()
		return
	}
	r.log.Info("the realm is not served any more")
	r.cancel()
	s.stopping[r.name] = &stopping{realm: r, since: time.Now()}
}

// ended removes the realms that have ended from those that are stopping, and returns their names.
func (s *Service) ended(ctx context.Context) map[string]bool {
	names := map[string]bool{}
	for name, r := range s.stopping {
		select {
		case <-r.ended:
			r.metrics.remove()
			delete(s.stopping, name)
			names[name] = true
			continue
		default:
		}
		if !r.reported && time.Since(r.since) > slowStop {
			r.reported = true
			r.log.Warn("the realm has not ended yet; look for a disk that does not answer, or restart this process", "since", r.since)
			s.waiting(ctx, name, &otherError{fmt.Errorf("the graph service %s has not ended the realm since %s: see its log", s.c.Instance, r.since.Format(time.RFC3339))})
		}
	}
	return names
}

// start runs a realm, unless it runs.
func (s *Service) start(ctx context.Context, g *errgroup.Group, listed *coppicev1.Realm) {
	s.mu.Lock()
	r := s.realms[listed.GetName()]
	if r == nil {
		r = s.newRealm(listed.GetName())
		s.realms[r.name] = r
	}
	s.mu.Unlock()
	if r.cancel != nil {
		return
	}
	r.listed.Store(listed)
	ctx, r.cancel = context.WithCancel(ctx)
	r.ended = make(chan struct{})
	g.Go(func() error {
		defer s.changed() // it may have been stopped
		defer close(r.ended)
		return s.runRealm(ctx, r)
	})
}

// couldWrite reports whether this process could write all of its realms that have not
// failed.
func (s *Service) couldWrite() bool {
	for _, r := range s.all() {
		if p := r.phase.Load().(phase); p == phaseWaiting || p == phaseCatching {
			return false
		}
	}
	return true
}

// serveRealms serves requests about the list of realms.
func (s *Service) serveRealms() (*serve.Server, error) {
	return api.ServeRealms(serve.Config{
		Realm: bus.SystemRealm, Conn: s.c.Answers, AnyActor: s.c.AnyActor, Access: s.c.Access, Actors: s.c.Actors, Instance: s.c.Instance, Version: s.c.Version, Log: s.c.Log,
		Refused: newRefusals(s.metrics.rejected, bus.SystemRealm).count,
	}, realms.Config{
		List: func(ctx context.Context) ([]*coppicev1.Realm, string, error) {
			list, err := s.registry.List(ctx)
			return list.Realms, list.Version, err
		},
		Writers: s.member.Writers, Archives: s.c.Archive != nil,
		Create: func(ctx context.Context, name, actor, id string) (*coppicev1.Realm, error) {
			defer s.changed()
			created, err := s.registry.Create(ctx, name, actor, id, s.clock.Now())
			if err == nil { // the realm's own log begins with a command of a graph service
				s.c.Log.Info("realm created", "realm", name, "actor", actor)
			}
			return created, err
		},
		Delete: func(ctx context.Context, name, actor string, withoutArchive bool) (*coppicev1.Realm, error) {
			if err := s.checkProtected(ctx, name); err != nil {
				return nil, err
			}
			defer s.changed()
			deleted, err := s.registry.Delete(ctx, name, actor, withoutArchive, s.clock.Now())
			if err == nil {
				s.c.Log.Info("deletion of realm begun", "realm", name, "actor", actor)
			}
			return deleted, err
		},
	})
}
