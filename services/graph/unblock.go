package graph

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// unblock has the writer break a circle of objects that wait for each other.
func unblock(ctx context.Context, w *writer.Writer, circle []uid.UID) (bool, error) {
	type outcome struct {
		reply proto.Message
		err   *lifecycle.Error
	}
	decided := make(chan outcome, 1)
	w.Submit(&writer.Request{
		Actor: bus.RoleGraph, Verb: verbUnblock, Work: &command.Unblock{Circle: circle},
		Done: func(reply proto.Message, err *lifecycle.Error) { decided <- outcome{reply, err} },
	})
	select {
	case o := <-decided:
		if o.err != nil {
			return false, o.err
		}
		return o.reply.(*coppicev1.UnblockReply).GetUnblocked() > 0, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// verbUnblock is what the log calls the propagator's proposals.
const verbUnblock = "unblock"
