package objects

import (
	"context"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// DeleteUnreadable removes an object whose body can be decoded neither in the state nor in the log
// (B8.2). It reads the log first, because the log is the truth: if the body can be decoded there, the
// state differs from the log and must be rebuilt.
func (s *Writer) DeleteUnreadable(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.DeleteUnreadableRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if r.GetName() == "" {
		return errNoName("name")
	}
	if err := lifecycle.CheckReason(r.GetReason()); err != nil {
		return err
	}
	s.Occupying(nil, q, func(ctx context.Context) {
		revision, err := s.unreadableInLog(ctx, at, r.GetName())
		work := unreadableWork(at, &r, revision)
		if err != nil {
			work = refusedCommand(at, err)
		}
		if err := s.submit(q, at, work, r.GetReason()); err != nil {
			q.Answer(nil, err)
		}
	})
	return nil
}

// unreadableInLog returns the revision of an object that is unreadable in the state and in the log,
// or the refusal to delete it.
func (s *Writer) unreadableInLog(ctx context.Context, at bus.API, name string) (revision uint64, err *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	key, n, err := unreadable(snap, at, name)
	if fail := snap.Err(); fail != nil {
		err = s.ErrUnreadable(fail)
	}
	_ = snap.Close()
	if err != nil {
		return 0, err
	}
	commit, fail := s.c.Past.Find(ctx, past.Point{Revision: n.Revision})
	if fail != nil {
		return 0, s.noPast(fail)
	}
	waiting, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	past, fail := s.c.Past.Rebuilt(waiting, at.Actor, commit)
	if fail != nil {
		return 0, s.noPast(fail)
	}
	defer func() { _ = past.Release() }()
	_, logged, err := unreadable(past.Snapshot, at, name)
	if fail := past.Snapshot.Err(); fail != nil {
		return 0, s.ErrUnreadable(fail)
	}
	if err != nil || logged.UID != n.UID {
		return 0, &lifecycle.Error{
			Reason: api.ErrConflict, Resource: key.Kind.Resource(), Namespace: at.Namespace, Name: name, UID: n.UID.String(),
			Message: key.String() + " is unreadable in the state of this graph service only: the log has it; run 'coppice rebuild', which repairs the state",
		}
	}
	return n.Revision, nil
}

// unreadable finds an object whose body cannot be decoded.
func unreadable(v interface {
	lifecycle.View
	TakeUnreadable() *state.UnreadableError
}, at bus.API, name string) (key lifecycle.Key, n *lifecycle.Node, err *lifecycle.Error) {
	kind := v.Kinds().Resource(serve.Resource(at))
	if kind == nil {
		return key, nil, lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	key = lifecycle.Key{Kind: kind, Namespace: at.Namespace, Name: name}
	if n, err = lifecycle.Find(v, key); err != nil {
		return key, nil, err
	}
	v.Body(n)
	if v.TakeUnreadable() == nil {
		return key, nil, lifecycle.ErrReadable(key, n)
	}
	return key, n, nil
}

// unreadableWork removes an object that was found unreadable at a revision.
func unreadableWork(at bus.API, r *coppicev1.DeleteUnreadableRequest, revision uint64) *command.Objects {
	return &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: 1, DryRun: r.GetDryRun(),
		Decide: func(ctx *lifecycle.Context, key lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			key.Name = r.GetName()
			n, err := lifecycle.Find(ctx.View, key)
			if err != nil {
				return nil, err
			}
			if n.Revision != revision {
				return nil, &lifecycle.Error{
					Reason: api.ErrConflict, Resource: key.Kind.Resource(), Namespace: key.Namespace, Name: key.Name, UID: n.UID.String(),
					Message: key.String() + " was changed meanwhile; try again",
				}
			}
			return lifecycle.DeleteUnreadable(ctx, key, r.GetReason(), r.GetPreconditions())
		},
	}
}
