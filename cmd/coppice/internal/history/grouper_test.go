package history

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// chainLog is a log that has an event in each commit, with the revision and the position 1, 2, and so on. Each is caused by
// the one before, the first by a client.
type chainLog struct {
	client.LogClient
	last  uint64
	reads int
}

func (l *chainLog) Last(context.Context, ...client.CommitOption) (uint64, error) { return l.last, nil }

func (l *chainLog) Read(_ context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	var of client.LogOptions
	for _, o := range opts {
		o.ApplyToLog(&of)
	}
	l.reads++
	return func(yield func(client.LogCommit, error) bool) {
		to := l.last
		if of.ToSequence > 0 {
			to = min(to, of.ToSequence)
		}
		for n, at := 0, max(of.FromSequence, of.FromRevision); at <= to; at++ {
			e := &coppicev1.Event{Reason: reasonWaiting, Cause: at - 1, Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Node: &coppicev1.Node{Kind: "Pod", Name: fmt.Sprint("p", at), Uid: make([]byte, 16)}}}}
			if at == 1 {
				e.Reason = reasonRequested
			}
			c := &client.Commit{FirstRevision: at, Time: int64(at) * 1e6, Commands: []*coppicev1.Command{{Actor: "ana", Verb: "delete"}}, Events: []*coppicev1.Event{e}}
			if n++; !yield(client.LogCommit{Sequence: at, Commit: c}, nil) || n == of.Limit {
				return
			}
		}
	}
}

func lowerKind(_, kind string) string { return strings.ToLower(kind) }

// rowsText spells rows: "10 ana pods/a begins DeletionMarked=2 ObjectDeleted=3, ...".
func rowsText(rows []Row) string {
	var said []string
	for _, r := range rows {
		s := fmt.Sprint(r.Root)
		switch {
		case r.Command == nil:
			s += " unknown"
		case r.Command.Unreadable:
			s += " unreadable"
		default:
			s += fmt.Sprintf(" %s %s*%d", r.Command.First.Actor, r.Command.First.Name, r.Command.Events)
		}
		if r.Begins {
			s += " begins"
		}
		for _, typ := range r.Types() {
			s += fmt.Sprintf(" %s=%d", typ, r.Counts[typ])
		}
		said = append(said, s)
	}
	return strings.Join(said, ", ")
}

// Events are grouped by the commands at the ends of their chains of causes, in whatever parts the log is read.
func TestGrouper(t *testing.T) {
	t.Parallel()
	ana, eve := []string{"ana", "delete"}, []string{"eve", "update", "a note"}
	commits := [][]client.LogEvent{
		{logEvent(10, "DeletionMarked", "a", reasonRequested, 0, ana...), logEvent(11, "DeletionMarked", "b", reasonRequested, 0, ana...), logEvent(12, "ObjectUpdated", "x", reasonRequested, 0, eve...)},
		{logEvent(13, "DeletionMarked", "c", reasonWaiting, 11), logEvent(14, "DeletionMarked", "d", reasonWaiting, 13)},
		{logEvent(15, "ObjectUpdated", "y", reasonRequested, 0, eve...)},
		{logEvent(16, "FinalizerRemoved", "d", reasonRequested, 0, eve...), logEvent(17, "ObjectDeleted", "d", reasonFinalized, 14, eve...)},
		{logEvent(18, "ObjectDeleted", "c", reasonFinalized, 13), logEvent(19, "ObjectDeleted", "z", reasonAbsent, 0), logEvent(20, "ObjectDeleted", "z2", reasonAbsent, 19)},
	}
	const (
		all = "19 processor z*1 begins ObjectDeleted=2, 10 ana a*2 begins DeletionMarked=4 ObjectDeleted=2, 16 eve d*1 begins FinalizerRemoved=1, 15 eve y*1 begins ObjectUpdated=1, 12 eve x*1 begins ObjectUpdated=1"
		ofD = "16 eve d*1 begins FinalizerRemoved=1, 10 ana a*2 begins DeletionMarked=1 ObjectDeleted=1"
	)
	named := func(name string) func(*client.LogEvent) bool {
		return func(e *client.LogEvent) bool { return e.Name == name }
	}
	for _, c := range []struct {
		name  string
		g     Grouper
		stop  uint64
		parts [][]int // commits, in the order in which they are added
		want  string
	}{
		{"forward", Grouper{}, 0, [][]int{{0, 1, 2, 3, 4}}, all},
		{"backward", Grouper{}, 0, [][]int{{4}, {3}, {2}, {1}, {0}}, all},
		{"in parts", Grouper{}, 0, [][]int{{3, 4}, {1, 2}, {0}}, all},
		{"the end alone", Grouper{}, 0, [][]int{{4}}, "19 processor z*1 begins ObjectDeleted=2, 13 unknown ObjectDeleted=1"},
		{"an object", Grouper{Match: named("d")}, 0, [][]int{{3, 4}, {0, 1, 2}}, ofD},
		{"an actor of commands", Grouper{Actor: "ana"}, 0, [][]int{{4}, {3}, {2}, {1}, {0}}, "10 ana a*2 begins DeletionMarked=4 ObjectDeleted=2"},
		{"an actor of events", Grouper{Actor: "eve"}, 0, [][]int{{3, 4}, {1, 2}, {0}}, "16 eve d*1 begins FinalizerRemoved=1, 10 ana a*2 begins ObjectDeleted=1, 15 eve y*1 begins ObjectUpdated=1, 12 eve x*1 begins ObjectUpdated=1"},
		{"a cause", Grouper{Only: 13}, 13, [][]int{{4}, {3}, {2}, {1}}, "13 processor c*1 begins DeletionMarked=2 ObjectDeleted=2"},
		{"a cause among others of its command", Grouper{Only: 11}, 11, [][]int{{2, 3, 4}, {0, 1}}, "11 ana b*1 begins DeletionMarked=3 ObjectDeleted=2"},
	} {
		for _, between := range []bool{false, true} {
			g := c.g
			g.Roots = NewRoots(c.stop)
			for _, part := range c.parts {
				for _, i := range part {
					g.Add(uint64(i), commits[i])
				}
				if between {
					g.Rows()
				}
			}
			if got := rowsText(g.Rows()); got != c.want {
				t.Errorf("%s, rows between parts %v:\n have %s\n want %s", c.name, between, got, c.want)
			}
		}
	}
}

// The removal of the last finalizer by its program belongs to the deletion; one by hand is a command of its own.
func TestGrouperOfRemovalByHand(t *testing.T) {
	t.Parallel()
	g := Grouper{Roots: NewRoots(0)}
	g.Add(1, []client.LogEvent{logEvent(10, "DeletionMarked", "a", reasonRequested, 0, "ana", "delete"), logEvent(11, "DeletionMarked", "b", reasonRequested, 0, "ana", "delete")})
	g.Add(2, []client.LogEvent{logEvent(12, "ObjectDeleted", "a", reasonFinalized, 10, "program", "removefinalizer")})
	g.Add(3, []client.LogEvent{logEvent(13, "ObjectDeleted", "b", coppicev1.Reason_REASON_FORCED, 11, "zoe", "forcefinalizer", "the program is gone")})
	if got, want := rowsText(g.Rows()), "13 zoe b*1 begins ObjectDeleted=1, 10 ana a*2 begins DeletionMarked=2 ObjectDeleted=1"; got != want {
		t.Errorf("have %s, want %s", got, want)
	}
}

// A chain of causes of any length takes neither recursion nor a request for each of its events.
func TestGrouperOfLongChain(t *testing.T) {
	t.Parallel()
	const length = 100_000
	log := &chainLog{last: length}
	h, err := Open(t.Context(), log, lowerKind)
	must.Succeed(t, err)
	g, requests := Grouper{Roots: NewRoots(0)}, 200
	read := func(positions uint64) {
		b := h.Back(client.LogOptions{}, 1, min(h.Last, length))
		for n := uint64(0); n < positions; {
			did, err := b.Next(t.Context(), positions-n, func(e Entry) { g.Add(e.Position, e.Page.Events) }, func(Gap) {})
			must.Succeed(t, err)
			n += did
		}
	}
	read(1_000)
	must.Succeed(t, g.Find(t.Context(), h, &requests))
	if got, want := rowsText(g.Rows()), fmt.Sprintf("%d unknown ObjectCreated=1000", length-1_000-200); got != want || requests != 0 {
		t.Errorf("after 1,000 commits and 200 requests: %s, want %s; %d requests remain", got, want, requests)
	}
	g = Grouper{Roots: NewRoots(0)}
	log.reads = 0
	read(length)
	if got, want := rowsText(g.Rows()), fmt.Sprintf("1 ana p1*1 begins ObjectCreated=%d", length); got != want {
		t.Errorf("after all commits: %s, want %s", got, want)
	}
	if log.reads > length/maxChunk+10 {
		t.Errorf("%d reads", log.reads)
	}
	if root, c := g.Roots.Of(length); root != 1 && c == nil {
		t.Errorf("the root of the last event is %d, and its command is not known", root)
	}
}

// A cause that cannot be read ends a chain, and is asked for once.
func TestUnreadableRoot(t *testing.T) {
	t.Parallel()
	h, err := Open(t.Context(), &madeLog{last: 10}, lowerKind)
	must.Succeed(t, err)
	g, requests := Grouper{Roots: NewRoots(0)}, 5
	g.Add(9, []client.LogEvent{logEvent(90, "ObjectDeleted", "a", reasonWaiting, 7)})
	for range 2 {
		must.Succeed(t, g.Find(t.Context(), h, &requests))
	}
	if got := rowsText(g.Rows()); got != "7 unreadable ObjectDeleted=1" || requests != 4 {
		t.Errorf("%s, %d requests remain", got, requests)
	}
}

// Back reads each position once, the newest part first, and reports what cannot be read.
func TestBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		missing [][2]uint64
		skipped []uint64
		low     uint64
		gaps    string
	}{
		{nil, nil, 1, ""},
		{nil, []uint64{990, 20}, 1, ""},
		{[][2]uint64{{400, 900}}, nil, 1, "400-900"},
		{[][2]uint64{{1, 700}}, nil, 1, "1-700"},
		{[][2]uint64{{1, 700}, {702, 900}}, nil, 1, "1-700 702-900"},
		{[][2]uint64{{1, 1000}}, nil, 1, "1-1000"},
		{[][2]uint64{{300, 700}}, nil, 600, "600-700"},
	} {
		h, err := Open(t.Context(), &madeLog{last: 1000, missing: c.missing, skipped: c.skipped}, lowerKind)
		must.Succeed(t, err)
		b := h.Back(client.LogOptions{}, c.low, h.Last)
		have := map[uint64]int{}
		var gaps [][2]uint64
		for parts := 0; b.Before() > 0; parts++ {
			before, last := b.Before(), uint64(0)
			_, err := b.Next(t.Context(), math.MaxUint64, func(e Entry) {
				if e.Position <= last || e.Position >= before {
					t.Errorf("%v: position %d after %d, before %d", c, e.Position, last, before)
				}
				last = e.Position
				have[e.Position]++
			}, func(g Gap) { gaps = append(gaps, [2]uint64{g.From, g.Next - 1}) })
			must.Succeed(t, err)
			if parts > 20 {
				t.Fatalf("%v: no end", c)
			}
		}
		slices.SortFunc(gaps, func(a, b [2]uint64) int { return int(a[0]) - int(b[0]) })
		var said []string // parts of one gap joined
		for i := 0; i < len(gaps); {
			from, to := gaps[i][0], gaps[i][1]
			for i++; i < len(gaps) && gaps[i][0] == to+1; i++ {
				to = gaps[i][1]
			}
			said = append(said, fmt.Sprintf("%d-%d", from, to))
		}
		if got := strings.Join(said, " "); got != c.gaps {
			t.Errorf("%v: the gaps are %s", c, got)
		}
		for at := c.low; at <= h.Last; at++ {
			want := 1
			if slices.Contains(c.skipped, at) || slices.ContainsFunc(c.missing, func(m [2]uint64) bool { return m[0] <= at && at <= m[1] }) {
				want = 0
			}
			if have[at] != want {
				t.Errorf("%v: position %d was read %d times", c, at, have[at])
			}
		}
		if have[c.low-1] > 0 {
			t.Errorf("%v: position %d was read", c, c.low-1)
		}
	}
}
