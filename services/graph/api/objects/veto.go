package objects

import (
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// Veto handles the verb veto: the answer to the notices of expiry policies.
func (s *Writer) Veto(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.VetoRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if r.GetName() == "" {
		return errNoName("name")
	}
	if err := lifecycle.CheckReason(r.GetReason()); err != nil {
		return err
	}
	answer := lifecycle.NoticeAnswer{Actor: at.Actor, Reason: r.GetReason(), Until: lifecycle.Time(r.GetUntil())}
	if r.GetAgree() == (r.GetUntil() != 0) {
		return lifecycle.ErrBadRequest("until: a veto has a time until which it postpones the deletion; to agree to the deletion, set agree and no time")
	}
	return s.submit(q, at, &command.Veto{
		Resource: serve.Resource(at), Namespace: at.Namespace, Name: r.GetName(), Preconditions: r.GetPreconditions(), Answer: answer,
	}, r.GetReason())
}
