package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// status replies with counts of pending work. They include the work of every command that
// was acknowledged before the request.
func (s *writerServer) status(q *request, _ bus.API) *lifecycle.Error {
	if err := q.read(&coppicev1.StatusRequest{}); err != nil {
		return err
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply, err := s.w.Status(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, &lifecycle.Error{Reason: lifecycle.ReasonTimeout, Message: "status: there is more pending work than can be counted in time; try again later"}
		case err != nil:
			return nil, s.unreadable(err)
		case !s.w.Lease.Holds():
			return nil, s.notWriter()
		}
		reply.Paused = s.State.Realm().Paused
		return reply, nil
	})
	return nil
}
