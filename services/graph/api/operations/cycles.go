package operations

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Cycles searches for unreachable cycles, warns of them, and has them collected if
// the realm settings say so. The scanner asks for it. A search reads every object that has
// dependents; one runs at a time.
func (s *Writer) Cycles(q *serve.Request) *lifecycle.Error {
	if err := q.Read(&coppicev1.CyclesRequest{}); err != nil {
		return err
	}
	if !s.looking.TryLock() {
		return &lifecycle.Error{Reason: api.ErrTooManyRequests, Message: "a search for cycles is under way; try again later", RetryAfter: retrySearch}
	}
	if !s.Start(func() {
		defer s.looking.Unlock()
		q.Answer(s.collectCycles(s.Context))
	}) {
		s.looking.Unlock()
		return s.ErrStopping()
	}
	return nil
}

func (s *Writer) collectCycles(ctx context.Context) (proto.Message, *lifecycle.Error) {
	found, reply, err := s.findCycles(ctx)
	if err != nil {
		return nil, s.ErrUnreadable(err)
	}
	if s.State.Realm().Paused {
		return reply, nil // the cycles are counted, and none is collected
	}
	for _, members := range found {
		m, err := s.Commands.Do(ctx, &writer.Request{Actor: bus.RoleScanner, Verb: bus.OpCycles, Work: &command.CollectCycle{Members: members}})
		if err != nil && errors.Is(err, api.ErrRequestEntityTooLarge) {
			s.Log.Warn("an unreachable cycle is not collected", "realm", s.Realm, "member", members[0], "error", err)
			continue
		}
		if err != nil {
			return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, RetryAfter: retrySearch, Message: err.Error()}
		}
		reply.Collected += m.(*coppicev1.CyclesReply).GetCollected()
	}
	return reply, nil
}

// findCycles returns the cycles that are to be collected, and counts all.
func (s *Writer) findCycles(ctx context.Context) (collect [][]uid.UID, reply *coppicev1.CyclesReply, err error) {
	snap := s.State.Snapshot().Until(ctx)
	defer func() {
		if fail := snap.Err(); err == nil {
			err = fail
		}
		if fail := snap.Close(); err == nil {
			err = fail
		}
	}()
	reply = &coppicev1.CyclesReply{Revision: snap.Revision()}
	found, complete := cycles.Unreachable(snap, snap.Time())
	if !complete {
		s.Log.Warn("too many objects have owners and dependents to find all cycles among them", "realm", s.Realm)
	}
	for _, members := range found {
		reply.Cycles++
		reply.Objects += uint32(len(members))
		s.warnOfCycle(snap, members)
		if snap.Settings().UnreachableCycles == lifecycle.CollectCycles && len(members) <= cycles.MaxMembers {
			collect = append(collect, members)
		}
	}
	return collect, reply, nil
}

// retrySearch is the delay after which the caller should repeat the request.
const retrySearch = time.Second

// warned is the largest number of warnings about one cycle.
const warned = 16

func (s *Writer) warnOfCycle(snap *state.Snapshot, members []uid.UID) {
	if s.c.WarnCycle == nil {
		return
	}
	for _, u := range members[:min(len(members), warned)] {
		if n := snap.Node(u); n != nil {
			s.c.WarnCycle(snap, n, len(members))
		}
	}
}
