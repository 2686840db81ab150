package objects

import (
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// Protect handles the verbs protect and unprotect.
func (s *Writer) Protect(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ProtectRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkNamed(r.GetObjects()); err != nil {
		return err
	}
	if err := lifecycle.CheckReason(r.GetReason()); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Decide: func(ctx *lifecycle.Context, key lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			o := r.GetObjects()[i]
			key.Name = o.GetName()
			if at.Verb == bus.VerbUnprotect {
				return lifecycle.Unprotect(ctx, key, o.GetPreconditions())
			}
			return lifecycle.Protect(ctx, key, at.Actor, r.GetReason(), o.GetPreconditions())
		},
		Name: func(i int) string { return r.GetObjects()[i].GetName() },
	}, r.GetReason())
}
