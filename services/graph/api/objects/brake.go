package objects

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// maxRelease is the maximum number of objects that one release of a brake lets through.
const maxRelease = 500000

// pendingTime is the maximum time for which one release searches for paused deletions. Another
// release continues.
const pendingTime = serve.ReadTime / 2

// Brakes replies with the brakes of the realm.
func (s *Writer) Brakes(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	if err := q.Read(&coppicev1.BrakesRequest{}); err != nil {
		return err
	}
	s.read(q, func(snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply := &coppicev1.BrakesReply{Revision: snap.Revision()}
		for _, k := range snap.Kinds().All() {
			if lifecycle.BrakeOf(snap, k).On() && q.Rules.MaySomewhere(bus.VerbGet, k.Resource()) {
				reply.Brakes = append(reply.Brakes, lifecycle.BrakeStatus(snap, k, lifecycle.TimeOf(s.Now())))
			}
		}
		return reply, nil
	})
	return nil
}

// ReleaseBrake releases the brake of a kind.
func (s *Writer) ReleaseBrake(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ReleaseBrakeRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if at.Namespace != "" {
		return lifecycle.ErrBadRequest("%s is about a kind: its subject has _ for the namespace", at.Verb)
	}
	s.Occupying(s.Plans, q, func(ctx context.Context) {
		pending, err := s.pendingRelease(ctx, serve.Resource(at))
		switch {
		case err != nil:
			q.Answer(nil, err)
		case r.GetDryRun():
			q.Answer(&coppicev1.ReleaseBrakeReply{
				Revision: pending.Revision, PendingRevision: pending.Revision, Tripped: pending.tripped, Released: uint64(len(pending.UIDs)), More: pending.More,
			}, nil)
		default:
			err = s.submit(q, at, &command.ReleaseBrake{Resource: serve.Resource(at), UIDs: pending.UIDs, More: pending.More, Revision: pending.Revision}, "")
			if err != nil {
				q.Answer(nil, err)
			}
		}
	})
	return nil
}

type pendingRelease struct {
	*plan.Release
	tripped bool
}

// pendingRelease computes what a release lets through now.
func (s *Writer) pendingRelease(ctx context.Context, resource string) (p pendingRelease, err *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	kind := snap.Kinds().Resource(resource)
	if kind == nil {
		return p, lifecycle.ErrUnknownKind(resource)
	}
	b, _ := snap.Brake(kind)
	p = pendingRelease{&plan.Release{Revision: snap.Revision()}, b.Tripped != 0 && lifecycle.BrakeOf(snap, kind).On()}
	if p.tripped {
		until, cancel := context.WithTimeout(ctx, pendingTime)
		defer cancel()
		now := max(snap.Time(), lifecycle.TimeOf(s.Now()))
		p.Release, err = plan.Pending(until, snap, kind, now, s.policies.Matching(until, snap, kind, now), maxRelease)
	}
	if fail := snap.Err(); fail != nil {
		return p, s.ErrUnreadable(fail)
	}
	return p, err
}
