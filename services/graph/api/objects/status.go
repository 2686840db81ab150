package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/expiry"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Status replies with counts of pending work, with what is known of expiry policies, or with what the realm takes on disks. The
// counts include the work of every command that was acknowledged before the request.
func (s *Writer) Status(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.StatusRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if r.GetPolicies() {
		s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) { return s.policyStatus(ctx, q) })
		return nil
	}
	if r.GetStorage() {
		s.Background(q, s.storage)
		return nil
	}
	if r.GetLeases() {
		s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) { return s.leases(ctx, q, at.Actor) })
		return nil
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply, err := s.c.Status(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, &lifecycle.Error{Reason: api.ErrTimeout, Message: "status: there is more pending work than can be counted in time; try again later"}
		case err != nil:
			return nil, s.ErrUnreadable(err)
		case !s.c.Lease.Holds():
			return nil, s.notWriter()
		}
		reply.Paused = s.State.Realm().Paused
		return reply, nil
	})
	return nil
}

// storage returns what the realm takes on disks.
func (s *Writer) storage(ctx context.Context) (proto.Message, *lifecycle.Error) {
	found, err := s.c.Storage(ctx)
	switch {
	case err != nil:
		return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: fmt.Sprintf("realm %s: what it takes on disks cannot be measured: %v; try again", s.Realm, err)}
	case !s.c.Lease.Holds():
		return nil, s.notWriter()
	}
	return &coppicev1.StatusReply{Revision: s.State.Checkpoint().GetRevision(), Paused: s.State.Realm().Paused, Storage: found}, nil
}

// leases returns the leases of controllers; a user who may not get all objects sees its own.
func (s *Writer) leases(ctx context.Context, q *serve.Request, actor string) (proto.Message, *lifecycle.Error) {
	found, err := s.c.Leases(ctx)
	if err != nil {
		return nil, s.ErrJetStream("leases of controllers", err)
	}
	if !q.Rules.SeesAll() {
		found = slices.DeleteFunc(found, func(l *coppicev1.ControllerLease) bool { return l.GetActor() != actor })
	}
	return &coppicev1.StatusReply{Revision: s.State.Checkpoint().GetRevision(), Paused: s.State.Realm().Paused, Leases: found}, nil
}

// policyStatus returns what is known of the expiry policies.
func (s *Writer) policyStatus(ctx context.Context, q *serve.Request) (proto.Message, *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	reply := &coppicev1.StatusReply{Revision: snap.Revision(), Paused: snap.Realm().Paused}
	if policies := snap.Kinds().Resource(expiry.Resource); policies != nil {
		snap.Nodes(policies, "", state.NameCursor{}, func(n *lifecycle.Node) bool {
			if q.Sees(policies, n) {
				reply.Policies = append(reply.Policies, s.policies.Status(n))
			}
			return true
		})
	}
	switch {
	case snap.Err() != nil:
		return nil, s.ErrUnreadable(snap.Err())
	case !s.c.Lease.Holds():
		return nil, s.notWriter()
	}
	return reply, nil
}
