package operations

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Writer serves the operations by which the other services have the writer act.
type Writer struct {
	*serve.Writer
	c       Config
	looking sync.Mutex // for cycles
}

// Config is what a Writer needs in addition to a serve.Writer.
type Config struct {
	// Republish publishes pending work again.
	Republish func(context.Context, *coppicev1.RepublishRequest) (*coppicev1.RepublishReply, error)
	// Answered is called with the replies to proposals and to built-in finalizers, for metrics.
	Answered func(proto.Message)
	// WarnCycle is called with an object of an unreachable cycle and the number of the
	// cycle's members. It may be nil.
	WarnCycle func(v lifecycle.View, n *lifecycle.Node, members int)
}

// NewWriter returns the operations of a writer.
func NewWriter(s *serve.Writer, c Config) *Writer {
	return &Writer{Writer: s, c: c}
}

// submit queues the command of an operation for the writer.
func (s *Writer) submit(q *serve.Request, actor string, work writer.Work) {
	to := q.Replier
	s.Commands.Submit(&writer.Request{
		Actor: actor, Verb: to.Verb, Size: len(q.Data()) + 256, Expires: q.Expires, Work: work, Span: q.Span,
		Done: func(m proto.Message, err *lifecycle.Error) {
			if err == nil {
				s.c.Answered(m)
			}
			to.Answer(m, err)
		},
	})
}

// Propose has the writer collect and strip what a processor has found.
func (s *Writer) Propose(q *serve.Request) *lifecycle.Error {
	var r coppicev1.ProposeRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	work, err := command.NewPropose(&r)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleProcessor, work)
	return nil
}

// Orphan has the writer remove the references to owners whose deletion orphans their dependents.
func (s *Writer) Orphan(q *serve.Request) *lifecycle.Error {
	var r coppicev1.OrphanRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	work, err := command.NewOrphan(&r)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleFinalizers, work)
	return nil
}

// Drain has the writer delete the contents of a namespace or kind that is being deleted.
func (s *Writer) Drain(q *serve.Request) *lifecycle.Error {
	var r coppicev1.DrainRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	work, err := command.NewDrain(&r)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleFinalizers, work)
	return nil
}

// Republish publishes pending work again.
func (s *Writer) Republish(q *serve.Request) *lifecycle.Error {
	var r coppicev1.RepublishRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply, err := s.c.Republish(ctx, &r)
		if err != nil {
			return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "republish: " + err.Error()}
		}
		return reply, nil
	})
	return nil
}
