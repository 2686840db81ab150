package api

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// resolve handles the verb resolve.
func (s *objectsReplica) resolve(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.ResolveObjectsRequest
	if err := q.read(&r); err != nil {
		return err
	}
	uids, err := uidsOf(&r)
	if err != nil {
		return err
	}
	places := s.pages
	if r.GetCountTotal() {
		places = s.plans // it takes as long, and as much memory, as a large plan
	}
	s.readAtLeast(places, q, r.GetMinRevision(), func(ctx context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply, err := resolved(ctx, s.server, snap, q, at, &r, uids, s.timeOf(snap))
		if err == nil {
			s.conditions(ctx, reply)
		}
		return reply, err
	})
	return nil
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
	ctx context.Context, s *server, snap *state.Snapshot, q *request, at bus.API, r *coppicev1.ResolveObjectsRequest, uids []uid.UID, now lifecycle.Time,
) (*coppicev1.ResolveObjectsReply, *lifecycle.Error) {
	kind := snap.Kinds().Resource(resource(at))
	if kind == nil {
		return nil, lifecycle.ErrUnknownKind(resource(at))
	}
	for _, name := range r.GetNames() {
		n, err := lifecycle.Find(snap, lifecycle.Key{Kind: kind, Namespace: at.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		uids = append(uids, n.UID)
	}
	limit := int(r.GetLimit())
	if limit == 0 || limit > maxResolve {
		limit = maxResolve
	}
	reply := resolve.Graph(snap, uids, resolve.GraphOptions{
		Owners: r.GetOwners(), Dependents: r.GetDependents(), Namespace: at.Namespace, Limit: limit, MaxBytes: q.maxPayload / 3, Now: now,
	})
	if r.GetCountTotal() {
		total, ok := resolve.Total(ctx, snap, uids, at.Namespace, maxTotal)
		if !ok {
			return nil, s.overloaded(ctx, nil)
		}
		reply.Total = uint64(total)
	}
	return reply, nil
}
