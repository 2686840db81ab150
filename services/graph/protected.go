package graph

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// protectedNamed is the maximum number of protected objects that a refusal names.
const protectedNamed = 5

// checkProtected refuses to delete a realm with protected objects. It sees the effects of all commands
// that were acknowledged before the call. A realm that this process does not serve yet, or that has failed
// in it while another process writes it, is not deleted now: the client tries again, and another
// graph service may reply. A realm that has failed and that no process writes can be deleted.
func (s *Service) checkProtected(ctx context.Context, name string) error {
	s.mu.Lock()
	r := s.realms[name]
	s.mu.Unlock()
	if r == nil || r.failed.Load() != nil {
		return s.checkUnserved(ctx, name, r != nil)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	named, more, err := r.protectedObjects(ctx)
	switch {
	case err != nil:
		return unknownProtection(name, err)
	case len(named) == 0:
		return nil
	}
	said := strings.Join(named, ", ")
	if more {
		said += " and more"
	}
	return &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf(
		"realm %s has protected objects, and is not deleted while it has: %s; `coppice unprotect` removes the protection", name, said)}
}

// checkUnserved is checkProtected for a realm that has failed in this process, or that it does not
// have.
func (s *Service) checkUnserved(ctx context.Context, name string, failed bool) error {
	list, err := s.registry.List(ctx)
	if err != nil {
		return unknownProtection(name, err)
	}
	if list.Of(name).GetState() != coppicev1.RealmState_REALM_STATE_ACTIVE {
		return nil // the list says what becomes of the request
	}
	if !failed {
		return unknownProtection(name, errNotServed)
	}
	if writer := s.member.Writers()[name]; writer != "" {
		return unknownProtection(name, fmt.Errorf("the realm has failed in the graph service %s, and the graph service %s writes it", s.c.Instance, writer))
	}
	return nil
}

// unknownProtection returns the error for a realm of which the protected objects cannot be read now.
func unknownProtection(name string, why error) error {
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: its protected objects cannot be read now: %v; try again", name, why),
	}
}

// errNotServed is returned while a process does not serve a realm.
var errNotServed = errors.New("this graph service does not serve the realm yet")

// protectedObjects names protected objects of the realm, in a state that has everything that is
// in the log at the time of the call.
func (r *realm) protectedObjects(ctx context.Context) (named []string, more bool, err error) {
	r.serving.Lock()
	defer r.serving.Unlock()
	if r.served == nil {
		return nil, false, errNotServed
	}
	end, err := lastCommit(ctx, r.served.log)
	if err != nil {
		return nil, false, err
	}
	for r.served.state.Checkpoint().GetSequence() < end {
		select {
		case <-ctx.Done():
			return nil, false, fmt.Errorf("this graph service has not reached commit %d: %w", end, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	snap := r.served.state.Snapshot()
	snap.EachProtected(func(resource, namespace, name string, _ uid.UID) bool {
		if more = len(named) == protectedNamed; more {
			return false
		}
		said := resource + "/" + name
		if namespace != "" {
			said += " (" + namespace + ")"
		}
		named = append(named, said)
		return true
	})
	return named, more, errors.Join(snap.Err(), snap.Close())
}

// served is what a realm needs to answer checkProtected.
type served struct {
	state *state.State
	log   *eventlog.Log
}

// setServed sets what answers checkProtected; nil before the state is closed.
func (r *realm) setServed(s *served) {
	r.serving.Lock()
	defer r.serving.Unlock()
	r.served = s
}

// lastCommit returns the sequence of the last commit of a log, zero if it has none.
func lastCommit(ctx context.Context, log *eventlog.Log) (uint64, error) {
	last, first, err := log.Last(ctx)
	if err != nil {
		return 0, err
	}
	for ; last >= max(first, 1); last-- {
		b, err := log.Get(ctx, last)
		if errors.Is(err, eventlog.ErrForeign) || errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		h, err := commitcodec.ReadHeader(b)
		return h.Sequence, err
	}
	return 0, nil
}
