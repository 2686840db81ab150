package graph

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// unblock has the writer break a circle of objects that wait for each other.
func unblock(ctx context.Context, w *writer.Writer, circle []uid.UID) (bool, error) {
	reply, err := w.Do(ctx, &writer.Request{Actor: bus.RoleGraph, Verb: verbUnblock, Work: &command.Unblock{Circle: circle}})
	if err != nil {
		return false, err
	}
	return reply.(*coppicev1.UnblockReply).GetUnblocked() > 0, nil
}

// verbUnblock is what the log calls the propagator's proposals.
const verbUnblock = "unblock"
