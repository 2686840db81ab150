package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/kept"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// removeKept removes the external finalizers that the objects of a write have kept although the
// write has left them out: only the verb removefinalizer removes them. Each finalizer takes one
// request. One that the actor may not remove stays, and so does its warning. A finalizer that is
// removed is not in the reply. If a request fails for another reason, removeKept returns its error,
// or, for a reply with several results, sets that of the object.
//
// versioned reports whether the write of an object named its resourceVersion. Then the finalizer is removed only if
// nothing has changed the object since: another actor may rely on it. The request fails with ErrConflict otherwise.
func (r *resourceClient) removeKept(ctx context.Context, reply *coppicev1.ObjectsReply, dryRun bool, versioned func(i int) bool) error {
	of := map[string][]int{} // the results, by finalizer
	var order []string
	last := map[string]int{} // by uid: a batch may write an object several times
	for i, result := range reply.GetResults() {
		if result.GetError() == nil {
			last[result.GetObject().GetMetadata().GetUid()] = i
		}
	}
	for i, result := range reply.GetResults() {
		if uid := result.GetObject().GetMetadata().GetUid(); last[uid] > i { // the last write decides
			_, result.Warnings = kept.Finalizers(result.GetWarnings())
			continue
		}
		if slices.Contains(result.GetWarnings(), kept.Unnamed) {
			setError(result, errUnnamed)
		}
		names, _ := kept.Finalizers(result.GetWarnings())
		for _, f := range names {
			if of[f] == nil {
				order = append(order, f)
			}
			of[f] = append(of[f], i)
		}
	}
	for _, f := range order {
		err := r.removeFrom(ctx, reply, f, of[f], dryRun, versioned)
		switch {
		case err == nil || errors.Is(err, ErrForbidden):
		case len(reply.GetResults()) == 1:
			return err
		default:
			for _, i := range of[f] {
				setError(reply.Results[i], err)
			}
		}
	}
	return nil
}

// removeFrom removes a finalizer from the objects with these indexes in the reply.
func (r *resourceClient) removeFrom(ctx context.Context, reply *coppicev1.ObjectsReply, finalizer string, of []int, dryRun bool, versioned func(i int) bool) error {
	at := r.api(bus.VerbRemoveFinalizer)
	at.Finalizer = finalizer
	q := &coppicev1.RemoveFinalizerRequest{DryRun: dryRun}
	for _, i := range of {
		m := reply.Results[i].GetObject().GetMetadata()
		var revision uint64
		if !dryRun && versioned(i) {
			revision = m.GetResourceVersion()
		}
		q.Objects = append(q.Objects, &coppicev1.FinalizerTarget{Name: m.GetName(), Preconditions: preconditions(m.GetUid(), revision)})
	}
	// gone reports whether an object was removed after it was written, and its name perhaps taken.
	gone := func(err error, k int) bool {
		return errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) && q.Objects[k].GetPreconditions().GetResourceVersion() == 0
	}
	var removed coppicev1.ObjectsReply
	err := r.c.command(ctx, at, q, &removed)
	if len(of) == 1 && gone(err, 0) {
		removed.Results, err = []*coppicev1.Result{{}}, nil
	}
	if err == nil && len(removed.GetResults()) != len(of) {
		err = errResults(len(removed.GetResults()), len(of))
	}
	if err != nil {
		return keptError(finalizer, err)
	}
	reply.Revision = max(reply.GetRevision(), removed.GetRevision())
	for k, i := range of {
		was, result := removed.Results[k], reply.Results[i]
		if was.GetError() != nil {
			if err := error(api.ErrorOf(was.GetError())); !gone(err, k) {
				setError(result, keptError(finalizer, err))
				continue
			}
		}
		m := result.GetObject().GetMetadata()
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return f == finalizer })
		if revision := was.GetObject().GetMetadata().GetResourceVersion(); revision != 0 && !dryRun {
			m.ResourceVersion = revision
		}
		names, others := kept.Finalizers(result.GetWarnings())
		if names = slices.DeleteFunc(names, func(f string) bool { return f == finalizer }); len(names) > 0 {
			others = slices.Concat([]string{kept.Warning(names)}, others)
		}
		result.Warnings = others
	}
	return nil
}

// errUnnamed is the error of an object of a batch whose reply had no room for the finalizers that it keeps.
var errUnnamed = &Error{
	Reason:  ErrRequestEntityTooLarge,
	Message: "the object was written, but keeps external finalizers that it has left out: the reply to the batch has no room for their names; write it again with fewer objects in a request",
}

func keptError(finalizer string, err error) error {
	return fmt.Errorf("the object was written, but keeps the finalizer %s: %w", finalizer, err)
}

func setError(r *coppicev1.Result, err error) {
	var is *Error
	if !errors.As(err, &is) {
		is = &Error{Reason: ErrOutcomeUnknown}
	}
	r.Error = &coppicev1.Status{Code: is.Reason.Code(), Reason: string(is.Reason), Message: err.Error()}
}
