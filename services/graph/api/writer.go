package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// writerServer serves commands and linearizable reads.
type writerServer struct {
	*server
	w       Writer
	looking sync.Mutex // for cycles

	finalizers  unanswered
	evaluations evaluations
}

// ServeWriter serves commands and linearizable reads until it is stopped.
func ServeWriter(c Config, w Writer) (Stopper, error) {
	s, err := newServer(c, c.Process.ofWriters(), "coppice-writer", "Coppice's object API: commands and reads", "")
	if err != nil {
		return nil, err
	}
	if w.Now == nil {
		w.Now = time.Now
	}
	ws := &writerServer{server: s, w: w, finalizers: unanswered{now: w.Now}, evaluations: evaluations{since: w.Now(), of: map[uid.UID]*evaluation{}}}
	if err := ws.endpoints(); err != nil {
		_ = s.Stop()
		return nil, err
	}
	s.subscribed()
	return s, nil
}

func (s *writerServer) endpoints() error {
	for _, e := range []struct {
		verb   string
		handle func(*request, bus.API) *lifecycle.Error
	}{
		{bus.VerbCreate, s.writeObjects(decidesCreations)},
		{bus.VerbUpdate, s.writeObjects(decidesBy(lifecycle.Update))},
		{bus.VerbUpdateStatus, s.writeObjects(decidesBy(lifecycle.UpdateStatus))},
		{bus.VerbApply, s.writeObjects(decidesApplies(false))},
		{bus.VerbApplyAcross, s.writeObjects(decidesApplies(true))},
		{bus.VerbPatch, s.patch},
		{bus.VerbImport, s.importObjects},
		{bus.VerbRestore, s.restore},
		{bus.VerbDelete, s.delete},
		{bus.VerbDeleteCollection, s.deleteCollection},
		{bus.VerbRemoveFinalizer, s.removeFinalizer},
		{bus.VerbForceFinalizer, s.forceFinalizer},
		{bus.VerbProtect, s.protect},
		{bus.VerbUnprotect, s.protect},
		{bus.VerbDeleteUnreadable, s.deleteUnreadable},
		{bus.VerbVeto, s.veto},
		{bus.VerbGet, s.get},
		{bus.VerbList, s.list},
		{bus.VerbStatus, s.status},
		{bus.VerbResume, s.resume},
		{bus.VerbReadPast, s.readPast},
		{bus.VerbBrakes, s.brakes},
		{bus.VerbReleaseBrake, s.releaseBrake},
	} {
		if err := s.add(s.verb(e.verb), s.targeted(e.handle)); err != nil {
			return err
		}
	}
	for _, e := range []struct {
		op    string
		actor string
		work  func(*request) (writer.Work, *lifecycle.Error)
	}{
		{bus.OpPropose, bus.RoleProcessor, proposeWork},
		{bus.OpOrphan, bus.RoleFinalizers, orphanWork},
		{bus.OpFinish, bus.RoleFinalizers, s.finishWork},
		{bus.OpDrain, bus.RoleFinalizers, drainWork},
	} {
		err := s.add(s.operation(e.op, e.actor), func(q *request) {
			work, err := e.work(q)
			if err != nil {
				q.answer(nil, err)
				return
			}
			to := q.replier
			s.w.Submit(&writer.Request{
				Actor: e.actor, Verb: e.op, Size: len(q.Data()) + 256, Expires: q.expires, Work: work,
				Done: func(m proto.Message, err *lifecycle.Error) {
					if err == nil {
						s.w.Answered(m)
					}
					to.answer(m, err)
				},
			})
		})
		if err != nil {
			return err
		}
	}
	if err := s.add(s.operation(bus.OpCycles, bus.RoleScanner), s.unreachable); err != nil {
		return err
	}
	if err := s.add(s.operation(bus.OpExpire, bus.RoleScanner), s.expire); err != nil {
		return err
	}
	if err := s.add(s.operation(bus.OpExamine, bus.RoleScanner), s.examinePolicy); err != nil {
		return err
	}
	return s.add(s.operation(bus.OpRepublish, bus.RoleScanner), s.republish)
}

// targeted returns the handler of a verb that replies with the error which handle returns.
func (s *writerServer) targeted(handle func(*request, bus.API) *lifecycle.Error) func(*request) {
	return func(q *request) {
		at, err := s.target(q)
		if err == nil {
			err = handle(q, at)
		}
		if err != nil {
			q.answer(nil, err)
		}
	}
}

// submit queues a command for the writer.
func (s *writerServer) submit(q *request, at bus.API, work writer.Work, note string) *lifecycle.Error {
	id, err := q.commandID(s.w.Now())
	if err != nil {
		return err
	}
	callers := 1
	if o, ok := work.(*command.Objects); ok && o.ReturnObjects { // of many callers, one object each
		callers = o.Count
	}
	s.w.Submit(&writer.Request{
		ID: id, Actor: at.Actor, Verb: at.Verb, Note: note, Size: len(q.Data()) + 256, Callers: callers, Expires: q.expires, Work: work, Done: s.answer(q.replier),
	})
	return nil
}

// answer returns the function that sends the reply to a command. It encodes a long reply in
// another goroutine, so that the writer does not wait for it.
func (s *writerServer) answer(q replier) func(proto.Message, *lifecycle.Error) {
	const long = 16 // results
	return func(m proto.Message, err *lifecycle.Error) {
		r, ok := m.(*coppicev1.ObjectsReply)
		if ok && err == nil && addsFinalizers(q.verb) && s.warnUnanswered(r, func(r *coppicev1.ObjectsReply) { q.answer(r, nil) }) {
			return
		}
		if ok && len(r.GetResults()) > long && s.start(func() { q.answer(m, err) }) {
			return
		}
		q.answer(m, err)
	}
}

func resource(at bus.API) string { return lifecycle.ResourceName(at.Group, at.Plural) }

// writeObjects handles the verbs whose request is an ObjectsRequest.
func (s *writerServer) writeObjects(decides newDecider) func(*request, bus.API) *lifecycle.Error {
	return func(q *request, at bus.API) *lifecycle.Error {
		var r coppicev1.ObjectsRequest
		if err := q.read(&r); err != nil {
			return err
		}
		if err := checkCount(len(r.GetObjects()), "objects"); err != nil {
			return err
		}
		return s.submit(q, at, &command.Objects{
			Resource: resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), Atomic: r.GetAtomic(), DryRun: r.GetDryRun(), ReturnObjects: r.GetReturnObjects(),
			Decide: checkPolicy(at, withStrictOwners(r.GetStrictOwners(), decides(at.Namespace, r.GetObjects()))),
			Name:   func(i int) string { return r.GetObjects()[i].GetMetadata().GetName() },
		}, "")
	}
}

func (s *writerServer) patch(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.PatchRequest
	if err := q.read(&r); err != nil {
		return err
	}
	if err := checkCount(len(r.GetPatches()), "patches"); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: resource(at), Namespace: at.Namespace, Count: len(r.GetPatches()), Atomic: r.GetAtomic(), DryRun: r.GetDryRun(),
		Decide: checkPolicy(at, withStrictOwners(r.GetStrictOwners(), func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Patch(ctx, at, r.GetPatches()[i])
		})),
		Name: func(i int) string { return r.GetPatches()[i].GetName() },
	}, "")
}

// restore handles the verb restore.
func (s *writerServer) restore(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.RestoreRequest
	if err := q.read(&r); err != nil {
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
		Resource: resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Session: r.GetSession(), Close: r.GetClose(),
		Decide: checkPolicy(at, func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			o := r.GetObjects()[i]
			return lifecycle.Restore(ctx, at, r.GetSession(), o.GetObject(), o.GetDeletion())
		}),
		Name: func(i int) string { return r.GetObjects()[i].GetObject().GetMetadata().GetName() },
	}, r.GetNote())
}

func (s *writerServer) importObjects(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.ImportRequest
	if err := q.read(&r); err != nil {
		return err
	}
	if err := checkSession(r.GetSession(), len(r.GetObjects()), r.GetClose()); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Session: r.GetSession(), Close: r.GetClose(),
		Decide: checkPolicy(at, func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Import(ctx, at, r.GetSession(), r.GetObjects()[i])
		}),
		Name: func(i int) string { return r.GetObjects()[i].GetMetadata().GetName() },
	}, "")
}

func (s *writerServer) delete(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.DeleteRequest
	if err := q.read(&r); err != nil {
		return err
	}
	if r.GetAskGrant() {
		if err := checkAsk(&coppicev1.DeleteRequest{AskGrant: true, Plan: r.GetPlan(), Protocol: r.GetProtocol()}, &r); err != nil {
			return err
		}
		if _, err := planname.Parse(r.GetPlan()); err != nil {
			return err
		}
		q.answer(&coppicev1.ObjectsReply{Grant: s.Grants.give(at, r.GetPlan(), s.w.Now())}, nil)
		return nil
	}
	d, err := deletionOf(at, &r)
	if err != nil {
		return err
	}
	work := &command.Objects{
		Resource: resource(at), Namespace: at.Namespace, Count: len(r.GetNames()),
		DryRun: slices.Contains(r.GetOptions().GetDryRun(), "All"),
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = r.GetNames()[i]
			return lifecycle.Delete(ctx, at, r.GetVersion(), r.GetOptions())
		},
		Name: func(i int) string { return r.GetNames()[i] },
	}
	if len(d.Also) > 0 {
		if r.GetPlan() == "" {
			return lifecycle.ErrBadRequest("also: objects of several resources or namespaces are deleted by a plan: plan the deletion, and name the plan")
		}
		work.Count, work.Decide = decidesParts(d)
		work.Name = nil // the names are of several resources
	}
	if r.GetPlan() != "" {
		if work.Check, err = s.planned(at, &r, d); err != nil {
			return err
		}
		work.Atomic = true // a plan covers the whole request
	}
	return s.submit(q, at, work, "")
}

func (s *writerServer) removeFinalizer(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.RemoveFinalizerRequest
	if err := q.read(&r); err != nil {
		return err
	}
	if err := checkNamed(r.GetObjects()); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Decide: func(ctx *lifecycle.Context, key lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			key.Name = r.GetObjects()[i].GetName()
			return lifecycle.RemoveFinalizer(ctx, key, at.Finalizer, r.GetObjects()[i].GetPreconditions())
		},
	}, r.GetReason())
}

func proposeWork(q *request) (writer.Work, *lifecycle.Error) {
	var r coppicev1.ProposeRequest
	if err := q.read(&r); err != nil {
		return nil, err
	}
	return asWork(command.NewPropose(&r))
}

func orphanWork(q *request) (writer.Work, *lifecycle.Error) {
	var r coppicev1.OrphanRequest
	if err := q.read(&r); err != nil {
		return nil, err
	}
	return asWork(command.NewOrphan(&r))
}

func drainWork(q *request) (writer.Work, *lifecycle.Error) {
	var r coppicev1.DrainRequest
	if err := q.read(&r); err != nil {
		return nil, err
	}
	return asWork(command.NewDrain(&r))
}

// asWork returns the result of a command's constructor as work for the writer.
func asWork[W writer.Work](w W, err *lifecycle.Error) (writer.Work, *lifecycle.Error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (s *writerServer) republish(q *request) {
	var r coppicev1.RepublishRequest
	if err := q.read(&r); err != nil {
		q.answer(nil, err)
		return
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply, err := s.w.Republish(ctx, &r)
		if err != nil {
			return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "republish: " + err.Error()}
		}
		return reply, nil
	})
}
