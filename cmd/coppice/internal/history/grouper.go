package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// Row is a command with events that belong to it, of a part of the log.
type Row struct {
	// Root names the command; it is the furthest cause that is known if Command is nil.
	Root    uint64
	Command *Command
	// Begins: the events of the command itself are among those that were added, whether they match or not.
	Begins bool
	Tally
}

// Tally counts events.
type Tally struct {
	// First and Last are positions in the log, Earliest and Latest are times.
	First, Last      uint64
	Earliest, Latest time.Time
	// Counts are the numbers of events by their types.
	Counts map[string]int
	// Own are those of Counts that commands name themselves: the others followed from them.
	Own map[string]int
}

func (t *Tally) add(position uint64, e *client.LogEvent) {
	one := Tally{First: position, Last: position, Earliest: e.Time, Latest: e.Time, Counts: map[string]int{e.Type: 1}}
	if !caused(e) {
		one.Own = one.Counts
	}
	t.merge(&one)
}

func (t *Tally) merge(o *Tally) {
	if len(o.Counts) == 0 {
		return
	}
	if t.Counts == nil {
		*t = Tally{First: o.First, Last: o.Last, Earliest: o.Earliest, Latest: o.Latest, Counts: map[string]int{}, Own: map[string]int{}}
	}
	t.First, t.Last = min(t.First, o.First), max(t.Last, o.Last)
	if o.Earliest.Before(t.Earliest) {
		t.Earliest = o.Earliest
	}
	if o.Latest.After(t.Latest) {
		t.Latest = o.Latest
	}
	for typ, n := range o.Counts {
		t.Counts[typ] += n
	}
	for typ, n := range o.Own {
		t.Own[typ] += n
	}
}

// Grouper groups events by the commands that they belong to.
type Grouper struct {
	Roots *Roots
	// Match selects events; nil selects all.
	Match func(*client.LogEvent) bool
	// Actor, if it is not empty, selects the events of commands of this actor, and what followed from them.
	Actor string
	// Only, if it is not 0, is the root of the only command.
	Only uint64

	// Unsure: events whose command cannot be read were left out, because it is not known whether the command is of Actor.
	Unsure bool

	groups map[uint64]*group // by the furthest causes that were known when they were added
}

// group has what was counted of a command before it was known whether its actor matches.
type group struct {
	all, own Tally // own: of events whose own actor matches
	begins   bool
}

// Add adds the events of a commit, which has a position in the log. Until Find or Rows is called, commits are added in the
// order of the log; what is added after that is older, or newer.
func (g *Grouper) Add(position uint64, events []client.LogEvent) {
	g.Roots.Learn(events)
	if g.groups == nil {
		g.groups = map[uint64]*group{}
	}
	for i := range events {
		e := &events[i]
		matches := g.Match == nil || g.Match(e)
		if e.Revision == 0 || !matches && caused(e) {
			continue
		}
		root, _ := g.Roots.Of(e.Revision)
		if root < g.Only { // it cannot follow from a later one
			continue
		}
		is := g.groups[root]
		if is == nil {
			is = &group{}
			g.groups[root] = is
		}
		is.begins = is.begins || root == e.Revision
		if matches {
			is.all.add(position, e)
			if e.Actor == g.Actor {
				is.own.add(position, e)
			}
		}
	}
}

// settle merges groups of which it became known that they belong to the same command, and removes those that are no rows.
func (g *Grouper) settle() {
	for key, is := range g.groups {
		root, _ := g.Roots.Of(key)
		if root == key {
			continue
		}
		delete(g.groups, key)
		if into := g.groups[root]; into != nil {
			into.all.merge(&is.all)
			into.own.merge(&is.own)
			into.begins = into.begins || is.begins
		} else {
			g.groups[root] = is
		}
	}
	for key, is := range g.groups {
		_, c := g.Roots.Of(key)
		if len(is.all.Counts) == 0 || g.Actor != "" && c != nil && c.First.Actor != g.Actor && len(is.own.Counts) == 0 {
			g.Unsure = g.Unsure || c != nil && c.Unreadable && len(is.all.Counts) > 0 && (g.Only == 0 || key == g.Only)
			delete(g.groups, key)
		}
	}
}

// Find reads the causes that are not known yet from the log, with at most *requests requests, and subtracts those that it
// has made.
func (g *Grouper) Find(ctx context.Context, h *History, requests *int) error {
	g.settle()
	var keys []uint64
	for key := range g.groups {
		if key >= g.Only {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Backward(keys) { // the causes of the newest ones may be those of others
		if _, _, err := g.Roots.Find(ctx, h, key, requests); err != nil {
			return err
		}
	}
	return nil
}

// Rows returns the rows, those with the newest events first. Of commands that are not known those count whose own events
// match.
func (g *Grouper) Rows() []Row {
	g.settle()
	var rows []Row
	for key, is := range g.groups {
		_, c := g.Roots.Of(key)
		row := Row{Root: key, Command: c, Begins: is.begins, Tally: is.all}
		switch {
		case g.Only != 0 && key != g.Only:
			continue
		case g.Actor != "" && (c == nil || c.First.Actor != g.Actor):
			g.Unsure = g.Unsure || c != nil && c.Unreadable && countOf(&is.all) > countOf(&is.own)
			row.Tally = is.own
		}
		if len(row.Counts) > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if a.Last != b.Last {
			return cmp.Compare(b.Last, a.Last)
		}
		return cmp.Compare(b.Root, a.Root)
	})
	return rows
}

func countOf(t *Tally) (n int) {
	for _, of := range t.Counts {
		n += of
	}
	return n
}

// Groups is the number of rows that there may be at most.
func (g *Grouper) Groups() int { return len(g.groups) }

// Types returns the types that were counted, in the order of their names.
func (t *Tally) Types() []string { return slices.Sorted(maps.Keys(t.Counts)) }
