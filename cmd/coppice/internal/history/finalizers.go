package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Limits of what is read to find out how long finalizers took.
const (
	maxFinalizerEvents   = 20_000 // marks and removals
	maxFinalizerRemovals = 100    // of one finalizer
)

// FinalizerTime says how long the last removals of an external finalizer took, from the mark of the
// object on.
type FinalizerTime struct {
	Name            string
	Removals        int
	Median, Longest time.Duration
}

// FinalizerTimes returns how long finalizers took lately, in the order of the names, without those
// of which no removal was found. It reads the last RecentCommits commits. Removals by force, and
// those of an object whose mark is older, do not count.
func (h *History) FinalizerTimes(ctx context.Context, names []string) ([]FinalizerTime, error) {
	if len(names) == 0 {
		return nil, nil
	}
	events, _, err := h.Tail(ctx, maxFinalizerEvents, RecentCommits, client.LogOptions{}, func(e *client.LogEvent) bool {
		return slices.ContainsFunc(names, func(name string) bool { return mentions(e, name) })
	})
	if err != nil {
		return nil, err
	}
	return finalizerTimes(events, names), nil
}

// finalizerTimes evaluates events, oldest first.
func finalizerTimes(events []client.LogEvent, names []string) (list []FinalizerTime) {
	for _, name := range names {
		marked := map[string]time.Time{} // by uid
		var took []time.Duration
		for i := range events {
			e := &events[i]
			if !mentions(e, name) {
				continue
			}
			if e.Type == "DeletionMarked" {
				if _, again := marked[e.UID]; !again {
					marked[e.UID] = e.Time
				}
				continue
			}
			since, ok := marked[e.UID]
			delete(marked, e.UID)
			if ok && e.Reason != coppicev1.Reason_REASON_FORCED && e.Verb != bus.VerbDeleteUnreadable {
				took = append(took, e.Time.Sub(since))
			}
		}
		took = took[max(0, len(took)-maxFinalizerRemovals):]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		list = append(list, FinalizerTime{Name: name, Removals: len(took), Median: took[len(took)/2], Longest: took[len(took)-1]})
	}
	return list
}

// mentions reports whether an event marks an object that has a finalizer, or removes the finalizer.
func mentions(e *client.LogEvent, finalizer string) bool {
	switch e.Type {
	case "FinalizerRemoved":
		return e.Detail == finalizer
	case "DeletionMarked", "ObjectDeleted":
		_, list, _ := strings.Cut(e.Detail, "finalizers ")
		return slices.Contains(strings.Split(list, ", "), finalizer)
	}
	return false
}
