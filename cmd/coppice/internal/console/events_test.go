package console

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// damagedLog has commits at the positions 100 to 140, and 151 to 200, where 160 is no commit, and 170 records that a loss
// was accepted. Position 200 removes an object because of revision 1, which was lost.
type damagedLog struct{ client.LogClient }

func (damagedLog) Last(context.Context, ...client.CommitOption) (uint64, error) { return 200, nil }

func (damagedLog) Read(_ context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	var of client.LogOptions
	for _, o := range opts {
		o.ApplyToLog(&of)
	}
	return func(yield func(client.LogCommit, error) bool) {
		n := 0
		for at := max(of.FromSequence, of.FromRevision); at <= 200 && (of.ToSequence == 0 || at <= of.ToSequence); at++ {
			next := uint64(0)
			switch {
			case at < 100:
				next = 100
			case at > 140 && at < 151:
				next = 151
			}
			if next > 0 {
				yield(client.LogCommit{}, &client.Error{
					Reason: client.ErrExpired, Message: fmt.Sprintf("commits up to revision %d were pruned", next-1),
					Causes: []client.Cause{{Reason: client.CauseLogContinues, Message: strconv.FormatUint(next, 10)}},
				})
				return
			}
			if at == 160 {
				if of.Skipped && !yield(client.LogCommit{Sequence: at, Skipped: "it has no key of the realm"}, nil) {
					return
				}
				continue
			}
			c := &client.Commit{FirstRevision: at, Time: int64(at) * 1e6, Commands: []*coppicev1.Command{{Actor: "ana", Verb: "create"}}}
			node := &coppicev1.Node{Kind: "Pod", Name: fmt.Sprint("p", at), Uid: make([]byte, 16)}
			e := &coppicev1.Event{Reason: coppicev1.Reason_REASON_REQUESTED, Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Node: node}}}
			if at == 200 {
				e.Reason, e.Cause = coppicev1.Reason_REASON_OWNER_ABSENT, 1
			}
			if at == 170 {
				c.Commands[0] = &coppicev1.Command{Actor: "graph", Verb: bus.VerbAcceptLoss, Note: "commits 141 to 150"}
			}
			c.Events = []*coppicev1.Event{e}
			if n++; !yield(client.LogCommit{Sequence: at, Commit: c}, nil) || n == of.Limit {
				return
			}
		}
	}
}

// Messages that are no commits, commits that are lost, and events about the realm are rows of their own; a row whose command
// is lost says so.
func TestMarkedRows(t *testing.T) {
	t.Parallel()
	since := time.Unix(150, 0).UTC()
	for _, c := range []struct {
		name     string
		filter   view.EventFilter
		commands int
		marks    []string
	}{
		{"all", view.EventFilter{}, 41 + 49, []string{"Realm 170-170", "Skipped 160-160", "Lost 141-150", "Lost 1-99"}},
		{"an object", view.EventFilter{Name: "p120"}, 1, nil},
		{"a uid", view.EventFilter{UID: "none"}, 0, nil},
		{"a namespace", view.EventFilter{Namespace: "none"}, 0, nil},
		{"a cause", view.EventFilter{Cause: 155}, 1, nil},
		{"an actor", view.EventFilter{Actor: "graph"}, 1, []string{"Realm 170-170"}},
		{"an actor without commands", view.EventFilter{Actor: "no-one"}, 0, nil},
		{"a time", view.EventFilter{Since: &since}, 49, []string{"Realm 170-170", "Skipped 160-160", "Lost 141-150"}},
	} {
		h, err := history.Open(t.Context(), damagedLog{}, func(_, kind string) string { return strings.ToLower(kind) + "s" })
		must.Succeed(t, err)
		r := &realm{name: "default"}
		low, high, err := r.bounds(t.Context(), h, &c.filter)
		must.Succeed(t, err)
		s := r.search(h, c.filter)
		b := h.Back(selecting(&c.filter), low, high)
		must.Succeed(t, s.back(t.Context(), b, 10_000, searchedPositions))
		commands := 0
		var marks []string
		var spans [][2]uint64
		for _, row := range s.page.Rows {
			switch last := len(spans) - 1; {
			case row.Mark == "":
				commands++
			case last >= 0 && row.Mark == markLost && strings.HasPrefix(marks[last], markLost) && row.Last+1 == spans[last][0]: // another part of it
				spans[last][0] = row.First
				marks[last] = fmt.Sprintf("%s %d-%d", row.Mark, spans[last][0], spans[last][1])
				continue
			}
			if row.Mark != "" {
				spans = append(spans, [2]uint64{row.First, row.Last})
				marks = append(marks, fmt.Sprintf("%s %d-%d", row.Mark, row.First, row.Last))
				if row.Says == "" || !strings.HasSuffix(row.Says, ".") {
					t.Errorf("%s: %s says %q", c.name, row.Mark, row.Says)
				}
			}
			if row.Last == 200 && (row.Root != 1 || !strings.Contains(row.Says, "revision 1, which cannot be read")) {
				t.Errorf("%s: the row whose command is lost is %+v", c.name, row)
			}
		}
		if commands != c.commands || !slices.Equal(marks, c.marks) {
			t.Errorf("%s: %d commands, want %d; marks %q, want %q", c.name, commands, c.commands, marks, c.marks)
		}
		for _, row := range s.page.Rows {
			at := row.Time.Unix()
			if row.Mark == markSkipped && (at < 150 || at > 161) || row.Mark == markLost && at != int64(row.Last)+1 && at != 151 && at != 100 || row.Time.After(row.Latest) {
				t.Errorf("%s: %s %d-%d has the time %d", c.name, row.Mark, row.First, row.Last, at)
			}
		}
		if s.page.Rows == nil {
			t.Errorf("%s: rows are null", c.name)
		}
		if left := c.filter.Actor != ""; left != (len(s.page.Missing) > 0) {
			t.Errorf("%s: missing is %v", c.name, s.page.Missing)
		}
		if s.page.Before != 0 {
			t.Errorf("%s: before is %d", c.name, s.page.Before)
		}
	}
}

// A cascade with a filter by actor goes on in the next request while the command is too far back, and says if the command
// cannot be read.
func TestCascadeActor(t *testing.T) {
	t.Parallel()
	h, err := history.Open(t.Context(), damagedLog{}, func(_, kind string) string { return kind })
	must.Succeed(t, err)
	roots := history.NewRoots(0)
	for _, c := range []struct {
		root           uint64
		requests, more int
		known, byActor bool
		missing        int
	}{
		{120, 0, 7, false, false, 0},
		{120, 1, 0, true, true, 0},
		{200, 2, 0, true, false, 1},
	} {
		is := cascade{h: h, root: c.root, requests: c.requests, skip: 3, filter: view.EventFilter{Actor: "ana"}, page: &view.Cascade{}}
		known, err := is.findActor(t.Context(), roots, 7)
		if err != nil || known != c.known || is.byActor != c.byActor || len(is.page.Missing) != c.missing || is.page.From != uint64(c.more) {
			t.Errorf("root %d: known %t, %v; by the actor %t; %+v", c.root, known, err, is.byActor, is.page)
		}
	}
}
