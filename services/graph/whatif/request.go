package whatif

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// decide decides a request in the other realm.
type decide func() ([]lifecycle.Event, error)

// request returns the request of a user that explains an event of the log, nil for an event of
// the collector, of a built-in finalizer or of the search for cycles.
func (r *replay) request(e *lifecycle.Event, before lifecycle.Object) decide {
	switch {
	case e.Reason == coppicev1.Reason_REASON_REQUESTED:
	case e.Reason == coppicev1.Reason_REASON_FINALIZED && !slices.ContainsFunc(e.Finalizers, lifecycle.IsBuiltinFinalizer):
	default:
		return nil
	}
	switch e.Type {
	case lifecycle.ObjectCreated:
		return r.appear(lifecycle.Object{Node: e.Object.Node, Body: e.Object.Body})
	case lifecycle.ObjectUpdated:
		after := lifecycle.Object{Node: e.Object.Node, Body: before.Body}
		if e.Object.Body != nil {
			after.Body = e.Object.Body
		}
		if n := after.Node; n.ImportTime == r.log.realm.Clock && n.ImportTime != 0 {
			return r.appear(after)
		}
		return func() ([]lifecycle.Event, error) { return r.update(before, after) }
	case lifecycle.DeletionMarked:
		options := r.options(e, before.Node)
		return func() ([]lifecycle.Event, error) { return r.delete(before.Node, options) }
	case lifecycle.FinalizerRemoved:
		return func() ([]lifecycle.Event, error) { return r.finalize(before.Node, e.Finalizers[0]) }
	case lifecycle.ObjectDeleted:
		if e.Reason == coppicev1.Reason_REASON_FINALIZED && len(e.Finalizers) > 0 {
			return func() ([]lifecycle.Event, error) { return r.finalize(before.Node, e.Finalizers[0]) }
		}
		options := r.options(e, before.Node)
		return func() ([]lifecycle.Event, error) { return r.delete(before.Node, options) }
	}
	return nil
}

// refusal makes an error of what the rules return.
func refusal(out *lifecycle.Outcome, err *lifecycle.Error) ([]lifecycle.Event, error) {
	if err != nil {
		return nil, err
	}
	return out.Events, nil
}

// appear creates or imports an object.
func (r *replay) appear(o lifecycle.Object) decide {
	return func() ([]lifecycle.Event, error) {
		view, n := r.other.realm, o.Node
		kind := view.Kinds().Of(n.Group(), n.Kind)
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(n.Kind)
		}
		at := lifecycle.Key{Kind: kind, Namespace: n.Namespace}
		if lifecycle.IsSettings(n) && r.settings.realm != nil {
			return nil, nil // they are replaced
		}
		object := clone(o.API())
		if spec := r.settings.spec(r, n); spec != nil {
			object.Spec = spec
		}
		ctx := view.Context()
		ctx.MaxObject = 0
		ctx.NewUID = func() uid.UID { return n.UID }
		if n.ImportTime != 0 {
			return refusal(lifecycle.Import(ctx, at, n.ImportSession, object))
		}
		object.Status = nil
		return refusal(lifecycle.Create(ctx, at, object))
	}
}

// find returns an object of the log in the other realm.
func (r *replay) find(n *lifecycle.Node) (*lifecycle.Node, lifecycle.Key, error) {
	view := r.other.realm
	if kind := r.log.realm.Kinds().OfNode(n); view.Node(n.UID) == nil && kind != nil {
		_, err := lifecycle.Find(view, lifecycle.Key{Kind: kind, Namespace: n.Namespace, Name: n.Name})
		if err == nil {
			err = lifecycle.ErrBadRequest("the object of this name is another one")
		}
		return nil, lifecycle.Key{}, err
	}
	is := view.Node(n.UID)
	if is == nil {
		return nil, lifecycle.Key{}, lifecycle.ErrUnknownKind(n.Kind)
	}
	return is, lifecycle.KeyOf(view, is), nil
}

// delete decides a DELETE.
func (r *replay) delete(n *lifecycle.Node, o *coppicev1.DeleteOptions) ([]lifecycle.Event, error) {
	if lifecycle.IsSettings(n) && r.settings.realm != nil {
		return nil, nil
	}
	_, at, err := r.find(n)
	if err != nil {
		return nil, err
	}
	return refusal(lifecycle.Delete(r.other.realm.Context(), at, "", o))
}

// finalize decides the removal of a finalizer.
func (r *replay) finalize(n *lifecycle.Node, finalizer string) ([]lifecycle.Event, error) {
	_, at, err := r.find(n)
	if err != nil {
		return nil, err
	}
	return refusal(lifecycle.RemoveFinalizer(r.other.realm.Context(), at, finalizer, nil))
}

// options returns the options of a DELETE that results in an event of the log; nil if a DELETE
// without options does.
func (r *replay) options(e *lifecycle.Event, n *lifecycle.Node) *coppicev1.DeleteOptions {
	var grace *int64
	if e.Type == lifecycle.DeletionMarked {
		grace = e.Mark.GracePeriod
	} else if n.Ending() || n.Grace != nil {
		grace = new(int64)
	}
	policy := lifecycle.Background
	switch list := e.Mark.Finalizers; {
	case slices.Contains(list, lifecycle.FinalizerOrphan):
		policy = lifecycle.Orphan
	case slices.Contains(list, lifecycle.FinalizerForeground):
		policy = lifecycle.Foreground
	}
	at := lifecycle.KeyOf(r.log.realm, n)
	for _, o := range []*coppicev1.DeleteOptions{
		nil, {PropagationPolicy: policy}, {GracePeriodSeconds: grace}, {PropagationPolicy: policy, GracePeriodSeconds: grace},
	} {
		if at.Kind == nil {
			continue
		}
		out, err := lifecycle.Delete(r.log.realm.Context(), at, "", o)
		if err == nil && len(out.Events) == 1 && sameDeletion(&out.Events[0], e) {
			return o
		}
	}
	return &coppicev1.DeleteOptions{PropagationPolicy: policy}
}

func sameDeletion(a, b *lifecycle.Event) bool {
	if a.Type != b.Type || a.Reason != b.Reason {
		return false
	}
	m, n := a.Mark, b.Mark
	same := m.GracePeriod == nil && n.GracePeriod == nil || m.GracePeriod != nil && n.GracePeriod != nil && *m.GracePeriod == *n.GracePeriod
	return same && m.Time == n.Time && slices.Equal(m.Finalizers, n.Finalizers)
}

// update changes in the other realm what an update has changed in the log.
func (r *replay) update(before, after lifecycle.Object) ([]lifecycle.Event, error) {
	if lifecycle.IsSettings(before.Node) && r.settings.realm != nil {
		return nil, nil
	}
	n, at, err := r.find(before.Node)
	if err != nil {
		return nil, err
	}
	view := r.other.realm
	is, was, now := clone(lifecycle.Object{Node: n, Body: view.Body(n)}.API()), before.API(), after.API()
	is.Metadata.ResourceVersion = 0
	statusChanged := string(was.GetStatus()) != string(now.GetStatus())
	changed := merge(is, was, now)
	if spec := r.settings.spec(r, n); spec != nil {
		is.Spec = spec
	}
	ctx := view.Context()
	ctx.MaxObject = 0
	if !changed {
		if !statusChanged {
			return nil, nil
		}
		is.Status = now.GetStatus()
		return refusal(lifecycle.UpdateStatus(ctx, at, is))
	}
	return refusal(lifecycle.Update(ctx, at, is))
}

// merge makes the changes from was to now in is, except for the status, and reports whether there
// are any.
func merge(is, was, now *coppicev1.Object) (changed bool) {
	take := func(differs bool, set func()) {
		if differs {
			changed = true
			set()
		}
	}
	a, b, m := was.GetMetadata(), now.GetMetadata(), is.GetMetadata()
	take(was.GetApiVersion() != now.GetApiVersion(), func() { is.ApiVersion = now.GetApiVersion() })
	take(string(was.GetSpec()) != string(now.GetSpec()), func() { is.Spec = now.GetSpec() })
	take(string(was.GetExtra()) != string(now.GetExtra()), func() { is.Extra = now.GetExtra() })
	take(!maps.Equal(a.GetLabels(), b.GetLabels()), func() { m.Labels = b.GetLabels() })
	take(!maps.Equal(a.GetAnnotations(), b.GetAnnotations()), func() { m.Annotations = b.GetAnnotations() })
	take(!proto.Equal(a.GetInitializers(), b.GetInitializers()), func() { m.Initializers = b.GetInitializers() })
	equal := func(x, y string) bool { return x == y }
	take(!slices.Equal(a.GetFinalizers(), b.GetFinalizers()), func() { m.Finalizers = change(m.GetFinalizers(), a.GetFinalizers(), b.GetFinalizers(), equal) })
	owner := func(x, y *coppicev1.OwnerReference) bool { return proto.Equal(x, y) }
	take(!slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), owner), func() {
		m.OwnerReferences = change(m.GetOwnerReferences(), a.GetOwnerReferences(), b.GetOwnerReferences(), owner)
	})
	use := func(x, y *coppicev1.Use) bool { return proto.Equal(x, y) }
	take(!slices.EqualFunc(a.GetUses(), b.GetUses(), use), func() { m.Uses = change(m.GetUses(), a.GetUses(), b.GetUses(), use) })
	return changed
}

// change removes from a list what is in was and not in now, and appends what is in now and not in
// was.
func change[T any](list, was, now []T, equal func(T, T) bool) (changed []T) {
	in := func(list []T, v T) bool { return slices.ContainsFunc(list, func(w T) bool { return equal(v, w) }) }
	for _, v := range list {
		if !in(was, v) || in(now, v) {
			changed = append(changed, v)
		}
	}
	for _, v := range now {
		if !in(was, v) && !in(changed, v) {
			changed = append(changed, v)
		}
	}
	return changed
}
