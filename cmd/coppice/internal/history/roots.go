package history

import (
	"context"
	"errors"
	"sync"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// maxRoots is how many events Roots remembers, twice; maxRootCommands is the same for commands.
const (
	maxRoots        = 100_000
	maxRootCommands = 10_000
)

// Command is what Roots knows of a command: its first event, and the number of events that it names itself.
type Command struct {
	First  client.LogEvent
	Events int
	// Unreadable: First has only its revision, because the event cannot be read.
	Unreadable bool
}

// Roots finds the commands that caused events. Each event belongs to the command whose event is at the end of its chain
// of causes. A command is named by its root, the revision of its first event. Roots learns from commits in any order. It
// is safe for concurrent use, and bounded: what it forgets is read from the log again.
type Roots struct {
	stop uint64

	mu sync.Mutex
	// causes have, by the revision of an event, the root of its command, or the furthest cause that was known.
	causes generations[uint64]
	// commands are by their roots.
	commands generations[*Command]
}

// NewRoots returns a Roots. If stop is not 0, chains of causes end at the event with this revision, which is then the root
// of what followed from it.
func NewRoots(stop uint64) *Roots {
	return &Roots{stop: stop, causes: generations[uint64]{most: maxRoots}, commands: generations[*Command]{most: maxRootCommands}}
}

// commandKey tells the commands of a commit apart.
type commandKey struct{ id, actor, verb, note string }

// Learn adds all events of a commit, in order.
func (r *Roots) Learn(events []client.LogEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := map[commandKey]*Command{}
	for i := range events {
		e := &events[i]
		switch {
		case e.Revision == 0:
			continue
		case e.Revision == r.stop:
			r.commands.put(e.Revision, &Command{First: *e, Events: 1})
			r.causes.put(e.Revision, e.Revision)
			continue
		case caused(e):
			r.causes.put(e.Revision, r.furthest(e.Cause))
			continue
		}
		key := commandKey{e.Command, e.Actor, e.Verb, e.Note}
		c := own[key]
		if c == nil {
			c = &Command{First: *e}
			own[key] = c
		}
		c.Events++
		r.causes.put(e.Revision, c.First.Revision)
	}
	for _, c := range own {
		r.commands.put(c.First.Revision, c)
	}
}

// caused reports whether an event follows from another one, and was not requested itself.
func caused(e *client.LogEvent) bool {
	return e.Cause != 0 && e.Cause < e.Revision && !requested(e) && !byHand(e) && e.Reason != coppicev1.Reason_REASON_RESTORED
}

// byHand reports whether someone removed the last finalizer of an object in place of its program, with a reason: that is a
// command of its own, although it ends a deletion that another one began.
func byHand(e *client.LogEvent) bool {
	return e.Note != "" && (e.Verb == bus.VerbRemoveFinalizer || e.Verb == bus.VerbForceFinalizer)
}

// furthest follows the known causes of an event, and shortens the way for the next call. Each step
// leads to an earlier revision.
func (r *Roots) furthest(revision uint64) uint64 {
	at := revision
	for {
		next, known := r.causes.get(at)
		if !known || next == at {
			break
		}
		at = next
	}
	if at != revision {
		r.causes.put(revision, at)
	}
	return at
}

// Of returns the root of the command that an event belongs to, and the command. The command is nil if it is not known
// yet: the root is then the furthest cause that is known.
func (r *Roots) Of(revision uint64) (root uint64, c *Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	root = r.furthest(revision)
	c, _ = r.commands.get(root)
	return root, c
}

// Find is Of, but reads causes that are not known from the log. Each commit that it reads is a request, of which it makes
// at most *requests, and subtracts those that it has made.
func (r *Roots) Find(ctx context.Context, h *History, revision uint64, requests *int) (root uint64, c *Command, err error) {
	for {
		root, c = r.Of(revision)
		if c != nil || *requests <= 0 {
			return root, c, nil
		}
		*requests--
		p, err := h.pageOf(ctx, root)
		var missing *MissingError
		switch {
		case errors.As(err, &missing):
			r.mu.Lock()
			r.commands.put(root, &Command{First: client.LogEvent{Revision: root}, Unreadable: true})
			r.mu.Unlock()
		case err != nil:
			return root, nil, err
		default:
			r.Learn(p.Events)
		}
	}
}

// Forget forgets all, for another log.
func (r *Roots) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes.clear()
	r.commands.clear()
}

// generations is a map from revisions that is bounded: it forgets entries that were neither put nor read lately.
type generations[T any] struct {
	most          int
	recent, older map[uint64]T
}

func (g *generations[T]) put(revision uint64, v T) {
	if len(g.recent) >= g.most {
		g.older, g.recent = g.recent, nil
	}
	if g.recent == nil {
		g.recent = map[uint64]T{}
	}
	g.recent[revision] = v
}

func (g *generations[T]) clear() { g.recent, g.older = nil, nil }

func (g *generations[T]) get(revision uint64) (v T, ok bool) {
	if v, ok = g.recent[revision]; ok {
		return v, true
	}
	if v, ok = g.older[revision]; ok {
		g.put(revision, v)
	}
	return v, ok
}
