package objects

import (
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// Create handles the verb create.
func (s *Writer) Create(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.writeObjects(q, at, decidesCreations)
}

// Update handles the verb update.
func (s *Writer) Update(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.writeObjects(q, at, decidesBy(lifecycle.Update))
}

// UpdateStatus handles the verb updatestatus.
func (s *Writer) UpdateStatus(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.writeObjects(q, at, decidesBy(lifecycle.UpdateStatus))
}

// Apply handles the verb apply.
func (s *Writer) Apply(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.writeObjects(q, at, decidesApplies(false))
}

// ApplyAcross handles the verb applyacross.
func (s *Writer) ApplyAcross(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.writeObjects(q, at, decidesApplies(true))
}

// writeObjects handles a verb whose request is an ObjectsRequest.
func (s *Writer) writeObjects(q *serve.Request, at bus.API, decides newDecider) *lifecycle.Error {
	var r coppicev1.ObjectsRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkCount(len(r.GetObjects()), "objects"); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), Atomic: r.GetAtomic(), DryRun: r.GetDryRun(), ReturnObjects: r.GetReturnObjects(),
		Decide: checkPolicy(at, withStrictOwners(r.GetStrictOwners(), decides(at.Namespace, r.GetObjects()))),
		Name:   func(i int) string { return r.GetObjects()[i].GetMetadata().GetName() },
	}, "")
}

// Patch handles the verb patch.
func (s *Writer) Patch(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.PatchRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkCount(len(r.GetPatches()), "patches"); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetPatches()), Atomic: r.GetAtomic(), DryRun: r.GetDryRun(),
		Decide: checkPolicy(at, withStrictOwners(r.GetStrictOwners(), func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Patch(ctx, at, r.GetPatches()[i])
		})),
		Name: func(i int) string { return r.GetPatches()[i].GetName() },
	}, "")
}

// Restore handles the verb restore.
func (s *Writer) Restore(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.RestoreRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkSession(r.GetSession(), len(r.GetObjects()), r.GetClose()); err != nil {
		return err
	}
	if r.GetNote() != "" {
		if err := lifecycle.CheckReason(r.GetNote()); err != nil {
			return err
		}
	}
	return s.submit(q, at, &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Session: r.GetSession(), Close: r.GetClose(),
		Decide: checkPolicy(at, func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			o := r.GetObjects()[i]
			return lifecycle.Restore(ctx, at, r.GetSession(), o.GetObject(), o.GetDeletion())
		}),
		Name: func(i int) string { return r.GetObjects()[i].GetObject().GetMetadata().GetName() },
	}, r.GetNote())
}

// Import handles the verb import.
func (s *Writer) Import(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ImportRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkSession(r.GetSession(), len(r.GetObjects()), r.GetClose()); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Session: r.GetSession(), Close: r.GetClose(),
		Decide: checkPolicy(at, func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Import(ctx, at, r.GetSession(), r.GetObjects()[i])
		}),
		Name: func(i int) string { return r.GetObjects()[i].GetMetadata().GetName() },
	}, "")
}
