package objects

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// CallState is the state of the call of an external finalizer for one object.
type CallState struct {
	// Live: a program receives the calls of the finalizer.
	Live bool
	// Working is the id of the call, if it was delivered and is not acknowledged: a program
	// works on it, or waits until it tries again. Zero if there is no such call.
	Working uint64
}

// RemoveFinalizer removes a finalizer for the program of this finalizer.
func (s *Writer) RemoveFinalizer(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.RemoveFinalizerRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkNamed(r.GetObjects()); err != nil {
		return err
	}
	return s.submit(q, at, &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: len(r.GetObjects()), DryRun: r.GetDryRun(),
		Decide: func(ctx *lifecycle.Context, key lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			key.Name = r.GetObjects()[i].GetName()
			return lifecycle.RemoveFinalizer(ctx, key, at.Finalizer, r.GetObjects()[i].GetPreconditions())
		},
	}, r.GetReason())
}

// ForceFinalizer removes an external finalizer of an object in place of its controller. It refuses
// to do so while a program works on the call for this object, unless the request names the call.
func (s *Writer) ForceFinalizer(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ForceFinalizerRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if r.GetName() == "" {
		return errNoName("name")
	}
	key, n, err := s.forced(at, &r)
	if err != nil {
		return s.submit(q, at, refusedCommand(at, err), r.GetReason())
	}
	call := bus.Finalize{Realm: s.Realm, Group: at.Group, Plural: at.Plural, UID: n.UID.String(), Finalizer: at.Finalizer}
	if !s.Start(func() {
		ctx, cancel := context.WithTimeout(s.Context, callTime)
		defer cancel()
		is, err := s.callState(ctx, call, &r)
		work := forceWork(at, key, n, &r, is)
		if err != nil {
			work = refusedCommand(at, err)
		}
		if err := s.submit(q, at, work, r.GetReason()); err != nil {
			q.Answer(nil, err)
		}
	}) {
		return s.ErrStopping()
	}
	return nil
}

// callTime is the maximum time in which NATS says whether a call is in progress.
const callTime = 5 * time.Second

// forced finds the object of a request, so that its call can be looked up by uid.
func (s *Writer) forced(at bus.API, r *coppicev1.ForceFinalizerRequest) (key lifecycle.Key, n *lifecycle.Node, err *lifecycle.Error) {
	snap := s.State.Snapshot()
	defer snap.Close()
	kind := snap.Kinds().Resource(serve.Resource(at))
	if kind == nil {
		return key, nil, lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	key = lifecycle.Key{Kind: kind, Namespace: at.Namespace, Name: r.GetName()}
	n, err = lifecycle.Find(snap, key)
	if fail := snap.Err(); fail != nil {
		return key, nil, s.ErrUnreadable(fail)
	}
	return key, n, err
}

// callState returns the state of a call, or the refusal to remove its finalizer.
func (s *Writer) callState(ctx context.Context, call bus.Finalize, r *coppicev1.ForceFinalizerRequest) (CallState, *lifecycle.Error) {
	is, fail := s.c.Call(ctx, call)
	if fail != nil {
		return is, s.ErrJetStream("call of finalizer "+call.Finalizer, fail)
	}
	if is.Working != 0 && is.Working != r.GetCall() {
		return is, &lifecycle.Error{
			Reason: api.ErrConflict, Resource: lifecycle.ResourceName(call.Group, call.Plural), Name: r.GetName(), UID: call.UID,
			Message: fmt.Sprintf("the controller of finalizer %s works on its call for %s, or waits until it tries again: what it cleans up may be left half done; "+
				"to remove the finalizer nevertheless, name call %d", call.Finalizer, r.GetName(), is.Working),
		}
	}
	return is, nil
}

func forceWork(at bus.API, key lifecycle.Key, n *lifecycle.Node, r *coppicev1.ForceFinalizerRequest, is CallState) *command.Objects {
	return &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: 1,
		Decide: func(ctx *lifecycle.Context, key2 lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			key2.Name = key.Name
			want := &coppicev1.Preconditions{Uid: n.UID.String(), ResourceVersion: r.GetPreconditions().GetResourceVersion()}
			if u := r.GetPreconditions().GetUid(); u != "" {
				want.Uid = u
			}
			out, err := lifecycle.ForceFinalizer(ctx, key2, at.Finalizer, r.GetReason(), want)
			if err == nil && is.Live {
				out.Warnings = append(out.Warnings, fmt.Sprintf("a program receives the calls of finalizer %s, and could have removed it", at.Finalizer))
			}
			return out, err
		},
	}
}

// refusedCommand is a command that is refused, unless it is the repetition of one that was
// carried out: the writer then sends the reply of that one.
func refusedCommand(at bus.API, err *lifecycle.Error) *command.Objects {
	return &command.Objects{
		Resource: serve.Resource(at), Namespace: at.Namespace, Count: 1,
		Decide: func(*lifecycle.Context, lifecycle.Key, int) (*lifecycle.Outcome, *lifecycle.Error) { return nil, err },
	}
}
