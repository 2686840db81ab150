package console

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

// eventsOfPage is the number of events in a reply.
const eventsOfPage = 50

// historyPage replies with the last events of an object, the newest first, each with its causes.
func (r *realm) historyPage(ctx context.Context, q *http.Request) (any, error) {
	uid := q.FormValue("uid")
	if uid == "" {
		return nil, badRequest("history is that of the object with a uid: name it with uid=")
	}
	before := uint64(math.MaxUint64)
	if text := q.FormValue("before"); text != "" {
		var err error
		if before, err = strconv.ParseUint(text, 10, 64); err != nil || before == 0 {
			return nil, badRequest("before=%s is not a revision", clip(text))
		}
	}
	page := view.History{Events: []view.LogEvent{}}
	reader := r.reader(&page.Missing)
	kinds, err := r.readKinds(ctx)
	if err != nil {
		return nil, err
	}
	reader.Kinds = kinds
	_, err = reader.Optional(ctx, lookup.AboutEvents, func(ctx context.Context) error {
		h, err := reader.History(ctx)
		if err != nil {
			return err
		}
		h.MaxKept, h.OnRealm = maxSearchKept, r.isOf
		found, complete, err := h.Tail(ctx, eventsOfPage, history.AllCommits, client.LogOptions{UIDs: []string{uid}}, func(e *client.LogEvent) bool {
			return e.UID == uid && e.Revision < before
		})
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(found) {
			is, err := eventOf(ctx, h.Find, e)
			if err != nil {
				return err
			}
			page.Events = append(page.Events, is)
		}
		page.Complete, page.Skipped = complete, h.Skipped
		if h.Pruned != nil {
			page.Missing = append(page.Missing, view.Missing{Part: "older events", Why: h.Pruned.Error()})
		}
		if len(found) > 0 && !complete {
			page.Before = found[0].Revision
		}
		return nil
	})
	return page, err
}

// eventOf returns an event with its causes.
func eventOf(ctx context.Context, find history.Finder, e client.LogEvent) (view.LogEvent, error) {
	because, err := history.Because(ctx, e, find)
	return view.LogEvent{
		Ref:      view.Ref{Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID},
		Revision: e.Revision, Time: e.Time, Type: e.Type, Actor: e.Actor, Verb: e.Verb, Reason: history.ReasonName(e.Reason),
		Note: e.Note, Detail: e.Detail, Cause: e.Cause, Because: because,
	}, err
}
