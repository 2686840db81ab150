package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/past"
)

// PastReader reads the past: a past.Reader.
type PastReader interface {
	Find(ctx context.Context, p past.Point) (past.Commit, error)
	At(ctx context.Context, actor string, c past.Commit) (*past.State, error)
	Rebuilt(ctx context.Context, actor string, c past.Commit) (*past.State, error)
}

// buildTime is how long a request waits for a state of the past that is being built, before
// the client is asked to send it again. It is shorter than the timeouts of clients.
const buildTime = time.Second

// pastRead is a read of the past.
type pastRead struct {
	point  past.Point
	places *admission.Limiter // nil to find the commit only
	answer func(ctx context.Context, p *past.State, reply *coppicev1.ReadPastReply) *lifecycle.Error
}

// ReadPast serves reads of an earlier revision. The writer serves them, and no other replica does,
// so that a client that sends a request again finds the state that was built for it.
func (s *Writer) ReadPast(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ReadPastRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	read, err := s.pastRead(q, at, &r)
	if err != nil {
		return err
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply := &coppicev1.ReadPastReply{}
		err := s.ofThePast(ctx, at.Actor, read, reply)
		if !s.c.Lease.Holds() { // revisions that this process has not seen may exist
			return nil, s.notWriter()
		}
		if err != nil {
			return nil, err
		}
		return reply, nil
	})
	return nil
}

// pastRead checks a request.
func (s *Writer) pastRead(q *serve.Request, at bus.API, r *coppicev1.ReadPastRequest) (read pastRead, err *lifecycle.Error) {
	switch {
	case r.GetRevision() > 0:
		read.point.Revision = r.GetRevision()
	case r.GetTime() != 0:
		read.point.Time = lifecycle.Time(r.GetTime())
	case r.GetAt() != nil:
		return read, lifecycle.ErrBadRequest("at: revisions begin with 1, and a time is not zero")
	}
	read.places = s.Pages
	if r.GetRead() != nil {
		if err := serve.NamesType(at); err != nil {
			return read, err
		}
	}
	switch of := r.GetRead().(type) {
	case nil:
		read.places = nil
		return read, serve.RealmWide(at)
	case *coppicev1.ReadPastRequest_Get:
		read.answer = func(_ context.Context, p *past.State, reply *coppicev1.ReadPastReply) *lifecycle.Error {
			m, err := objectsOf(p.Snapshot, q, at, of.Get)
			reply.Read = &coppicev1.ReadPastReply_Objects{Objects: m}
			return err
		}
		return read, checkNames("names", of.Get.GetNames())
	case *coppicev1.ReadPastRequest_List:
		page, err := pageOf(q, at, of.List)
		read.answer = func(_ context.Context, p *past.State, reply *coppicev1.ReadPastReply) *lifecycle.Error {
			m, err := listReply(q, &page, p.Snapshot, at, of.List.GetIncludeApplied())
			reply.Read = &coppicev1.ReadPastReply_List{List: m}
			return err
		}
		return read, err
	case *coppicev1.ReadPastRequest_Resolve:
		uids, err := uidsOf(of.Resolve)
		if of.Resolve.GetCountTotal() {
			read.places = s.Plans
		}
		read.answer = func(ctx context.Context, p *past.State, reply *coppicev1.ReadPastReply) *lifecycle.Error {
			m, err := resolved(ctx, s.Server, p.Snapshot, q, at, of.Resolve, uids, p.Snapshot.Time())
			reply.Read = &coppicev1.ReadPastReply_Resolved{Resolved: m}
			return err
		}
		return read, err
	case *coppicev1.ReadPastRequest_Plan:
		if len(of.Plan.GetDelete().GetAlso()) > 0 || of.Plan.GetAskGrant() {
			return read, lifecycle.ErrBadRequest("plan: a plan of the past is of objects of one resource in one namespace: leave out also and askGrant")
		}
		d, err := planDeletion(at, of.Plan)
		d.Sees = seesOf(q)
		read.places = s.Plans
		read.answer = func(ctx context.Context, p *past.State, reply *coppicev1.ReadPastReply) *lifecycle.Error {
			m, err := planOf(ctx, p.Snapshot, q, d, of.Plan, p.Snapshot.Time())
			reply.Read = &coppicev1.ReadPastReply_Plan{Plan: m}
			return err
		}
		return read, err
	}
	return read, lifecycle.ErrBadRequest("read: this graph service does not know this type of read; upgrade the graph service to the version of the client")
}

// ofThePast finds the commit, waits for its state, and reads it.
func (s *Writer) ofThePast(ctx context.Context, actor string, read pastRead, reply *coppicev1.ReadPastReply) *lifecycle.Error {
	c, err := s.c.Past.Find(ctx, read.point)
	if err != nil {
		return s.noPast(err)
	}
	setCommit := func(c past.Commit) {
		reply.Revision, reply.Sequence, reply.Position, reply.Time = c.Revision, c.Sequence, c.Position, int64(c.Time)
	}
	if setCommit(c); read.answer == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	then, err := s.c.Past.At(waiting, actor, c)
	if err != nil {
		return s.noPast(err)
	}
	defer func() { _ = then.Release() }()
	setCommit(then.Commit)
	placing, cancelPlacing := context.WithTimeout(ctx, serve.PlaceTime)
	defer cancelPlacing()
	if err := read.places.Acquire(placing, actor); err != nil {
		return s.ErrOverloaded(ctx, err)
	}
	defer read.places.Release(actor)
	then.Snapshot.Until(ctx)
	refused := read.answer(ctx, then, reply)
	if err := then.Snapshot.Err(); err != nil {
		return s.ErrUnreadable(err)
	}
	return refused
}

// noPast returns the error for a state that cannot be read, or not yet.
func (s *Writer) noPast(err error) *lifecycle.Error {
	var refused *lifecycle.Error
	var building *past.BuildingError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &building):
		return &lifecycle.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond, Message: err.Error(),
			Causes: []lifecycle.Cause{{Reason: api.CauseStateBeingBuilt, Field: "at", Message: fmt.Sprintf("%d%%", building.Percent)}},
		}
	}
	return s.ErrUnreadable(err)
}
