package operations

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Replica serves the operations that read a replica.
type Replica struct{ *serve.Replica }

// NewReplica returns the operations of a replica.
func NewReplica(s *serve.Replica) *Replica { return &Replica{s} }

// lagTime is how long a resolve for a processor waits for its revision. A chunk of dirty
// objects can name a revision that does not exist, and a processor's worker waits
// meanwhile.
const lagTime = 250 * time.Millisecond

// maxClosure is the maximum number of dependents that are resolved together with their owners.
const maxClosure = 10000

// Resolve handles the operation resolve.
func (s *Replica) Resolve(q *serve.Request) *lifecycle.Error {
	var r coppicev1.ResolveRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	uids, err := uid.Unpack(nil, r.GetUids())
	if err != nil || len(uids) > serve.MaxResolve {
		return lifecycle.ErrBadRequest("uids: %d of them, at most %d: %v", len(uids), serve.MaxResolve, err)
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		lag, cancel := context.WithTimeout(ctx, lagTime)
		defer cancel()
		if least := r.GetMinRevision(); s.Reached(lag, least) != nil {
			return &coppicev1.ResolveReply{Revision: min(s.State.Checkpoint().GetRevision(), least-1)}, nil
		}
		return s.Snapshot(ctx, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
			closure := min(int(r.GetClosure()), maxClosure)
			if !r.GetPartial() {
				return resolve.Resolve(snap, uids, closure, s.Time(snap), s.Warn), nil
			}
			reply, left := resolve.Part(snap, uids, closure, s.Time(snap), s.Warn)
			for _, u := range uids[len(uids)-left:] {
				reply.Left = append(reply.Left, u...)
			}
			return reply, nil
		})
	})
	return nil
}

// Walk handles the operation walk.
func (s *Replica) Walk(q *serve.Request) *lifecycle.Error {
	var r coppicev1.WalkRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	after, fail := serve.DecodeToken(string(r.GetCursor()))
	if fail != nil {
		return fail
	}
	s.AtLeast(nil, q, 0, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		kind := snap.Kinds().Resource(r.GetResource())
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(r.GetResource())
		}
		if snap.Realm().Paused { // the scanner would enqueue work that cannot be done now
			return &coppicev1.WalkReply{}, nil
		}
		limit := min(max(int(r.GetLimit()), 1), serve.MaxResolve)
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
		objects, left := resolve.Part(snap, uids, 0, s.Time(snap), s.Warn)
		reply := &coppicev1.WalkReply{Objects: objects}
		if more || left > 0 {
			reply.Cursor = []byte(serve.EncodeToken(names[len(names)-left-1]))
		}
		return reply, nil
	})
	return nil
}
