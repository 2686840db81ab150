package oracle_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// coppice evaluates requests by the rules of internal/lifecycle, with a realm in memory. It
// implements oracle.Settler: it does the work of processors and finalizers in a drawn order.
type coppice struct {
	realm *lifecycletest.Realm
	order lifecycletest.Order
}

// newCoppice returns a realm in which the kinds are registered.
func newCoppice(t *testing.T, order lifecycletest.Order) *coppice {
	t.Helper()
	s := &coppice{realm: lifecycletest.New(), order: order}
	for _, kind := range oracle.Kinds() {
		spec := lifecycle.KindSpec{
			Group: oracle.Group, Kind: kind.Kind, Plural: kind.Plural, Scope: lifecycle.ScopeCluster,
			Versions: []lifecycle.KindVersion{{Name: oracle.Version}},
		}
		if kind.Namespaced {
			spec.Scope = lifecycle.ScopeNamespaced
		}
		at := lifecycle.Key{Kind: s.realm.Kinds().Of(lifecycle.Group, "Kind")}
		out, err := lifecycle.Create(s.realm.Context(), at, lifecycletest.Registration(spec))
		must.Succeed(t, err)
		s.realm.Apply(out.Events)
	}
	return s
}

// Do implements oracle.Server.
func (s *coppice) Do(_ context.Context, q oracle.Request) (*oracle.Reply, error) {
	at := lifecycle.Key{Kind: s.realm.Kinds().Of(oracle.Group, q.Kind.Kind), Namespace: q.Namespace, Name: q.Name}
	if q.Verb == oracle.Get {
		n, refused := lifecycle.Find(s.realm, at)
		if refused != nil {
			return refusal(refused), nil
		}
		return accepted(200, lifecycle.Object{Node: n, Body: s.realm.Body(n)})
	}
	ctx := s.realm.Context()
	ctx.MaxObject = 1 << 20
	out, dryRun, refused, err := decide(ctx, at, q)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return refusal(refused), nil
	}
	was := s.realm
	if dryRun {
		s.realm = was.Clone()
	}
	s.realm.Apply(out.Events)
	reply, err := accepted(out.Code, s.left(q.Verb, out))
	s.realm = was
	if err == nil {
		// Kubernetes warns of no owners that do not exist.
		reply.Warned = slices.ContainsFunc(out.Warnings, func(w string) bool { return !lifecycle.OwnersWarned(w) })
	}
	return reply, err
}

// Settle implements oracle.Settler.
func (s *coppice) Settle(context.Context) error {
	s.realm.Settle(s.order)
	return nil
}

// decide calls the function of the rules for a request.
func decide(ctx *lifecycle.Context, at lifecycle.Key, q oracle.Request) (out *lifecycle.Outcome, dryRun bool, refused *lifecycle.Error, err error) {
	switch q.Verb {
	case oracle.Create, oracle.Update, oracle.UpdateStatus:
		rule := map[oracle.Verb]func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error){
			oracle.Create: lifecycle.Create, oracle.Update: lifecycle.Update, oracle.UpdateStatus: lifecycle.UpdateStatus,
		}[q.Verb]
		o, err := manifest.FromJSON(q.Body)
		if err != nil {
			return nil, false, nil, err
		}
		at.Name = "" // a create request has no name of its own: the object has it
		out, refused = rule(ctx, at, o)
		return out, q.DryRun, refused, nil
	case oracle.Patch:
		name := at.Name
		at.Name = ""
		out, refused = lifecycle.Patch(ctx, at, &coppicev1.Patch{Name: name, Patch: q.Body})
		return out, q.DryRun, refused, nil
	case oracle.Delete:
		var o *coppicev1.DeleteOptions
		if q.Body != nil {
			o = &coppicev1.DeleteOptions{}
			if err := manifest.UnmarshalMessage(q.Body, o); err != nil {
				return nil, false, nil, err
			}
		}
		out, refused = lifecycle.Delete(ctx, at, oracle.Version, o)
		return out, slices.Contains(o.GetDryRun(), "All"), refused, nil
	}
	return nil, false, nil, fmt.Errorf("there is no verb %q", q.Verb)
}

// left returns the object of the reply, as the service completes it. For a DELETE that
// removes the object, Coppice replies with the object as it was (A4.10), and Kubernetes
// with a Status. Scripts print neither.
func (s *coppice) left(verb oracle.Verb, out *lifecycle.Outcome) lifecycle.Object {
	o := out.Object
	for i := range out.Events {
		if n := s.realm.Node(out.Events[i].UID); n != nil {
			o.Node = n
		} else if verb == oracle.Delete {
			return lifecycle.Object{}
		}
	}
	return o
}

func accepted(code uint32, o lifecycle.Object) (*oracle.Reply, error) {
	reply := &oracle.Reply{Code: int(code)}
	if o.Node == nil {
		return reply, nil
	}
	raw, err := manifest.ToJSON(o.API())
	if err != nil {
		return nil, err
	}
	reply.Object, err = oracle.ReadObject(raw)
	return reply, err
}

func refusal(e *lifecycle.Error) *oracle.Reply {
	reply := &oracle.Reply{Code: int(e.Reason.Code()), Reason: string(e.Reason), Message: e.Message}
	for _, c := range e.Causes {
		reply.Causes = append(reply.Causes, oracle.Cause{Reason: c.Reason, Field: c.Field})
	}
	return reply
}
