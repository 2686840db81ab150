package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// removed explains from the log why an object does not exist: the one with a uid, or else the last one with the name. If
// the log does not mention it, removed returns missing.
func (e *explainer) removed(ctx context.Context, uid string, missing error) error {
	h, err := e.History(ctx)
	if err != nil {
		return fmt.Errorf("%w; cannot read from the log whether it existed: %w", missing, err)
	}
	defer e.skippedIn(h)
	found, _, err := h.Tail(ctx, 1, history.AllCommits, client.LogOptions{Name: e.Name, Namespace: e.Namespace}, func(ev *client.LogEvent) bool {
		return ev.Type == "ObjectDeleted" && ev.Name == e.Name && ev.Resource == e.Resource && ev.Namespace == e.Namespace && (uid == "" || ev.UID == uid)
	})
	if err != nil {
		return err
	}
	if len(found) == 0 && h.Pruned != nil {
		return fmt.Errorf("%w, and what can be read of the log does not say that it was removed: %v", missing, h.Pruned) //nolint:errorlint // the object is missing, and not only a part of the log
	}
	if len(found) == 0 {
		return fmt.Errorf("%w, and the log does not say that it was removed", missing)
	}
	last := found[0]
	e.UID, e.State, e.Since = last.UID, Removed, &last.Time
	if err := e.causes(ctx, h, last); err != nil {
		return err
	}
	e.Summary = fmt.Sprintf("%s was removed at %s%s", last.Key(), terminal.Clock(last.Time, e.Now()), e.becauseSaid())
	return nil
}

// fromLog reads events that are optional for an explanation.
func (e *explainer) fromLog(ctx context.Context, read func(context.Context, *history.History) error) (ok bool) {
	ok, err := e.Optional(ctx, lookup.AboutEvents, func(ctx context.Context) error {
		h, err := e.History(ctx)
		if err != nil {
			return err
		}
		defer e.skippedIn(h)
		return read(ctx, h)
	})
	if err != nil && ctx.Err() == nil {
		e.Missing(lookup.AboutEvents, err)
	}
	return ok
}

// skippedIn adds the skipped messages that were found while the log was read.
func (e *explainer) skippedIn(h *history.History) {
	e.Skipped = append(e.Skipped, h.Skipped...)
	slices.Sort(e.Skipped)
	e.Skipped = slices.Compact(e.Skipped)
	e.Skipped = e.Skipped[:min(len(e.Skipped), history.MaxSkipped)]
}

// marked finds out since when the object is being deleted, and why. Both are optional.
func (e *explainer) marked(ctx context.Context, m *coppicev1.ObjectMeta) {
	e.fromLog(ctx, func(ctx context.Context, h *history.History) error {
		first, err := h.Marked(ctx, m)
		if err != nil || first == nil {
			return err
		}
		e.Since, e.mark = &first.Time, first.Revision
		return e.causes(ctx, h, *first) // causes that were found before an error are kept
	})
}

// maxLate is how many late dependents are counted.
const maxLate = 1000

// late finds out which actors created existing dependents after the object was marked.
// It does nothing if the log cannot be read.
func (e *explainer) late(ctx context.Context) {
	if e.mark == 0 {
		return
	}
	var found []client.LogEvent
	if !e.fromLog(ctx, func(ctx context.Context, h *history.History) (err error) {
		found, _, err = h.Tail(ctx, maxLate, history.RecentCommits, client.LogOptions{}, func(ev *client.LogEvent) bool {
			return ev.Type == "ObjectCreated" && ev.Revision > e.mark && e.dependents[ev.UID]
		})
		return err
	}) {
		return
	}
	by := map[string]*LateDependents{}
	for _, ev := range found {
		l := by[ev.Actor]
		if l == nil {
			l = &LateDependents{Actor: ev.Actor}
			by[ev.Actor] = l
		}
		l.Count++
		l.Last, l.Time = ev.Key(), ev.Time
	}
	for _, actor := range slices.Sorted(maps.Keys(by)) {
		e.Dependents.Late = append(e.Dependents.Late, *by[actor])
	}
}

// absent replaces the last reason, if it is that no object matched the owner references of an object, by what the log
// knows about these owners.
func (e *explainer) absent(ctx context.Context, h *history.History, first client.LogEvent) error {
	said, err := h.Absent(ctx, first, e.Now())
	if said != "" && len(e.Because) > 0 {
		e.Because[len(e.Because)-1] = said
	}
	return err
}

// causes follows an event back to the command of a client.
func (e *explainer) causes(ctx context.Context, h *history.History, last client.LogEvent) (err error) {
	e.Because, err = history.Because(ctx, last, h.Find)
	for ev := &last; ev != nil && err == nil && len(e.Causes) < history.MaxCauses; {
		e.Causes = append(e.Causes, Cause{
			Revision: ev.Revision, Time: ev.Time, Type: ev.Type, Resource: ev.Resource, Namespace: ev.Namespace, Name: ev.Name,
			Actor: ev.Actor, Verb: ev.Verb, Reason: history.ReasonName(ev.Reason),
		})
		cause := ev.Cause
		if cause == 0 || cause >= ev.Revision {
			return e.absent(ctx, h, *ev)
		}
		ev, err = h.Find(ctx, cause)
	}
	if errors.As(err, new(*history.MissingError)) { // the last reason says so
		return nil
	}
	return err
}
