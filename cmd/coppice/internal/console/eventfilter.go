package console

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

// eventFilter returns the filter that the parameters of a request have.
func eventFilter(q *http.Request) (f view.EventFilter, err error) {
	f = view.EventFilter{
		Resource: q.FormValue("resource"), Namespace: q.FormValue("namespace"), Name: q.FormValue("name"), UID: q.FormValue("uid"), Actor: q.FormValue("actor"),
	}
	if f.Cause, err = position(q, "cause", "a revision"); err != nil {
		return f, err
	}
	if f.Since, err = timeOf(q, "since"); err != nil {
		return f, err
	}
	f.Until, err = timeOf(q, "until")
	return f, err
}

// position returns a parameter that is a number of the log; 0 without it.
func position(q *http.Request, name, what string) (uint64, error) {
	text := q.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, badRequest("%s=%s is not %s: give a whole number from 1 on", name, clip(text), what)
	}
	return n, nil
}

// atMost returns a parameter that lowers a limit.
func atMost(q *http.Request, name, what string, limit uint64) (uint64, error) {
	n, err := position(q, name, what)
	if n == 0 {
		n = limit
	}
	return min(n, limit), err
}

func timeOf(q *http.Request, name string) (*time.Time, error) {
	text := q.FormValue(name)
	if text == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, badRequest("%s=%s is not a time: give one in RFC 3339, such as 2026-11-23T10:00:00Z", name, clip(text))
	}
	return &t, nil
}

// matching returns whether an event is one that a filter selects, without its actor and its causes.
func matching(f *view.EventFilter) func(*client.LogEvent) bool {
	return func(e *client.LogEvent) bool {
		return (f.Resource == "" || e.Resource == f.Resource) && (f.Namespace == "" || e.Namespace == f.Namespace) && (f.Name == "" || e.Name == f.Name) &&
			(f.UID == "" || e.UID == f.UID) && within(f, e.Time)
	}
}

// within reports whether a time is one that a filter selects. One that is not known is.
func within(f *view.EventFilter, at time.Time) bool {
	return at.IsZero() || (f.Since == nil || !at.Before(*f.Since)) && (f.Until == nil || at.Before(*f.Until))
}

// selecting returns what the server selects of the log for a filter: all commits that have an event which matches.
func selecting(f *view.EventFilter) client.LogOptions {
	of := client.LogOptions{Name: f.Name, Namespace: f.Namespace}
	if f.UID != "" {
		of.UIDs = []string{f.UID}
	}
	return of
}

// marks reports whether rows about the realm itself are shown: not among the events of an object or of a cause.
func marks(f *view.EventFilter, e *client.LogEvent) bool {
	about := view.EventFilter{Actor: f.Actor, Since: f.Since, Until: f.Until}
	return about == *f && (f.Actor == "" || e.Actor == f.Actor) && matching(&about)(e)
}

// rowOf returns a row for the browser.
func rowOf(row history.Row) view.EventRow {
	v := view.EventRow{
		Root: row.Root, First: row.First, Last: row.Last, Begins: row.Begins, Time: row.Earliest, Latest: row.Latest, Counts: []view.EventCount{},
	}
	for _, typ := range row.Types() {
		v.Counts = append(v.Counts, view.EventCount{Type: typ, Count: row.Counts[typ], Own: row.Own[typ]})
	}
	switch c := row.Command; {
	case c == nil:
		v.Says = fmt.Sprintf("This followed from revision %d, whose own causes are too far back for one search.", row.Root)
	case c.Unreadable:
		v.Says = fmt.Sprintf("This followed from revision %d, which cannot be read: neither the log nor the archive has it, or your user may not read it.", row.Root)
	default:
		e := c.First
		v.Time, v.Actor, v.Verb, v.Note, v.Type, v.Objects = e.Time, e.Actor, e.Verb, e.Note, e.Type, c.Events
		v.Object = view.Ref{Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID}
	}
	return v
}

// The marks of rows that are no commands.
const (
	markSkipped = "Skipped"
	markLost    = "Lost"
	markRealm   = "Realm"
)

func skippedRow(e history.Entry) view.EventRow {
	return view.EventRow{
		Mark: markSkipped, First: e.Position, Last: e.Position, Time: e.Time, Latest: e.Time, Counts: []view.EventCount{},
		Says: fmt.Sprintf("The message at position %d of the log is no commit of the realm, and graph services skip it: %s.", e.Position, e.Skipped),
	}
}

// lostRow returns the row of commits that cannot be read, without a time.
func lostRow(g history.Gap) view.EventRow {
	return view.EventRow{
		Mark: markLost, First: g.From, Last: g.Next - 1, Counts: []view.EventCount{}, Says: "Commits cannot be read: " + g.Why.Error() + ".",
	}
}

func realmRow(position uint64, e client.LogEvent) view.EventRow {
	says := map[string]string{
		"LossAccepted":   "An operator accepted at the start of a graph service that the log has lost commits",
		"RealmContinued": "The realm begins with the state of another log",
		"RealmResumed":   "The realm was resumed: it deletes objects again",
		"KeyChanged":     "The key that authenticates commits was changed",
	}[e.Type]
	if e.Detail != "" {
		says += ": " + e.Detail
	}
	return view.EventRow{
		Mark: markRealm, First: position, Last: position, Time: e.Time, Latest: e.Time, Actor: e.Actor, Verb: e.Verb, Note: e.Note, Type: e.Type,
		Counts: []view.EventCount{}, Says: says + ".",
	}
}
