package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// operationsReplica serves the operations that read a replica.
type operationsReplica struct{ *servedReplica }

// newOperationsReplica returns the operations of a replica.
func newOperationsReplica(s *servedReplica) *operationsReplica { return &operationsReplica{s} }

// lagTime is how long a resolve for a processor waits for its revision. A chunk of dirty
// objects can name a revision that does not exist, and a processor's worker waits
// meanwhile.
const lagTime = 250 * time.Millisecond

// Limits of what is resolved at once.
const (
	maxResolve = 10000
	// maxTotal is where a resolve stops counting its total.
	maxTotal   = 1000000
	maxClosure = 10000
)

// resolve handles the operation resolve.
func (s *operationsReplica) resolve(q *request) *lifecycle.Error {
	var r coppicev1.ResolveRequest
	if err := q.read(&r); err != nil {
		return err
	}
	uids, err := uid.Unpack(nil, r.GetUids())
	if err != nil || len(uids) > maxResolve {
		return lifecycle.ErrBadRequest("uids: %d of them, at most %d: %v", len(uids), maxResolve, err)
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		lag, cancel := context.WithTimeout(ctx, lagTime)
		defer cancel()
		if least := r.GetMinRevision(); s.reached(lag, least) != nil {
			return &coppicev1.ResolveReply{Revision: min(s.State.Checkpoint().GetRevision(), least-1)}, nil
		}
		return s.snapshot(ctx, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
			closure := min(int(r.GetClosure()), maxClosure)
			if !r.GetPartial() {
				return resolve.Resolve(snap, uids, closure, s.timeOf(snap), s.Warn), nil
			}
			reply, left := resolve.Part(snap, uids, closure, s.timeOf(snap), s.Warn)
			for _, u := range uids[len(uids)-left:] {
				reply.Left = append(reply.Left, u...)
			}
			return reply, nil
		})
	})
	return nil
}

// walk handles the operation walk.
func (s *operationsReplica) walk(q *request) *lifecycle.Error {
	var r coppicev1.WalkRequest
	if err := q.read(&r); err != nil {
		return err
	}
	after, fail := decodeToken(string(r.GetCursor()))
	if fail != nil {
		return fail
	}
	s.readAtLeast(nil, q, 0, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		kind := snap.Kinds().Resource(r.GetResource())
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(r.GetResource())
		}
		if snap.Realm().Paused { // the scanner would enqueue work that cannot be done now
			return &coppicev1.WalkReply{}, nil
		}
		limit := min(max(int(r.GetLimit()), 1), maxResolve)
		var uids []uid.UID
		var names []state.NameCursor
		more := false
		snap.Names(kind, "", after, func(ns, name string, u uid.UID) bool {
			if more = len(uids) == limit; more {
				return false
			}
			uids, names = append(uids, u), append(names, state.NameCursor{Namespace: ns, Name: name})
			return true
		})
		objects, left := resolve.Part(snap, uids, 0, s.timeOf(snap), s.Warn)
		reply := &coppicev1.WalkReply{Objects: objects}
		if more || left > 0 {
			reply.Cursor = []byte(encodeToken(names[len(names)-left-1]))
		}
		return reply, nil
	})
	return nil
}
