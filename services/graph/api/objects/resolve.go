package objects

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// maxTotal is where a resolve stops counting its total.
const maxTotal = 1000000

// Resolve handles the verb resolve.
func (s *Replica) Resolve(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ResolveObjectsRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	uids, err := uidsOf(&r)
	if err != nil {
		return err
	}
	places := s.Pages
	if r.GetCountTotal() {
		places = s.Plans // it takes as long, and as much memory, as a large plan
	}
	s.AtLeast(places, q, r.GetMinRevision(), func(ctx context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply, err := resolved(ctx, s.Server, snap, q, at, &r, uids, s.Time(snap))
		if err == nil {
			s.conditions(ctx, reply)
		}
		return reply, err
	})
	return nil
}

// seesOf returns whether the reply to a request may have an object, nil for all.
func seesOf(q *serve.Request) func(*lifecycle.Kind, *lifecycle.Node) bool {
	if q.Rules == nil || q.Verb != bus.VerbReadPast && q.Rules.SeesAll() {
		return nil
	}
	return q.Sees
}

// uidsOf returns the uids of a resolve, which names at least one object.
func uidsOf(r *coppicev1.ResolveObjectsRequest) (uids []uid.UID, err *lifecycle.Error) {
	for i, text := range r.GetUids() {
		u, err := uid.Parse(text)
		if err != nil {
			return nil, lifecycle.ErrBadRequest("uids[%d]: %v", i, err)
		}
		uids = append(uids, u)
	}
	if err := checkCount(len(uids)+len(r.GetNames()), "names or uids"); err != nil || len(r.GetNames()) == 0 {
		return uids, err
	}
	return uids, checkNames("names", r.GetNames())
}

// resolved returns the reply to a resolve, evaluated at a time.
func resolved(
	ctx context.Context, s *serve.Server, snap *state.Snapshot, q *serve.Request, at bus.API, r *coppicev1.ResolveObjectsRequest, uids []uid.UID, now lifecycle.Time,
) (*coppicev1.ResolveObjectsReply, *lifecycle.Error) {
	kind := snap.Kinds().Resource(serve.Resource(at))
	if kind == nil {
		return nil, lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	for _, name := range r.GetNames() {
		n, err := lifecycle.Find(snap, lifecycle.Key{Kind: kind, Namespace: at.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		uids = append(uids, n.UID)
	}
	limit := int(r.GetLimit())
	if limit == 0 || limit > serve.MaxResolve {
		limit = serve.MaxResolve
	}
	reply := resolve.Graph(snap, uids, resolve.GraphOptions{
		Owners: r.GetOwners(), Dependents: r.GetDependents(), Namespace: at.Namespace, Limit: limit, MaxBytes: q.MaxPayload / 3, Now: now,
		Sees: seesOf(q),
	})
	if r.GetCountTotal() {
		total, ok := resolve.Total(ctx, snap, uids, at.Namespace, seesOf(q), maxTotal)
		if !ok {
			return nil, s.ErrOverloaded(ctx, nil)
		}
		reply.Total = uint64(total)
	}
	return reply, nil
}
