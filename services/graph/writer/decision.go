package writer

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Decision is a commit that is being decided: the state with what the commit
// has changed so far, and the commit's encoding.
type Decision struct {
	Ctx *lifecycle.Context
	Tx  *state.Tx

	id       [16]byte
	b        *eventlog.Builder
	limit    int  // of the commit, in bytes
	above    bool // it stands on a commit that is not in the state yet
	reserved int  // for the reply that is kept of the command that is being decided
	command  eventlog.Command
	begun    bool
	fatal    error

	parts   []part // scratch
	changes []state.Change
	watched func(resource string) bool // whose changes are wanted; nil for none

	sessionClosed bool
	examined      int // dependents: see Examine

	saved savepoint
}

type savepoint struct {
	mark     eventlog.Mark
	changes  int
	reserved int
	begun    bool
}

// begin begins a command. It is written with its first event.
func (d *Decision) begin(c eventlog.Command) { d.command, d.begun, d.reserved = c, false, 0 }

func (d *Decision) beginCommand() {
	if !d.begun {
		d.b.Begin(d.command)
		d.begun = true
	}
}

// Empty reports whether the commit has no events yet.
func (d *Decision) Empty() bool { return len(d.b.Commands()) == 0 }

// First reports whether nothing was decided yet that the state does not have.
func (d *Decision) First() bool { return d.Empty() && !d.above }

// Limit is how large a commit can become, in bytes.
func (d *Decision) Limit() int { return d.limit }

// Reserve reserves so many bytes for a reply that is kept with the command. It
// reports false, and has done nothing, if they do not fit into the commit.
func (d *Decision) Reserve(kept int) bool {
	if d.size()+kept > d.limit {
		return false
	}
	d.reserved += kept
	return true
}

// size is what the commit has come to, if the command that is being decided is
// written.
func (d *Decision) size() int {
	return d.b.Size() + d.reserved + len(d.command.Actor) + len(d.command.Verb) + len(d.command.Note) + perCommand
}

// Apply applies events, and returns the change of the last one. It reports false, and does
// nothing, if the events and a stored reply of kept bytes do not fit into the commit.
// Events that do not fit into an empty commit never fit.
func (d *Decision) Apply(events []lifecycle.Event, kept int) (last state.Change, ok bool) {
	size := d.size() + kept
	d.parts = d.parts[:0]
	for i := range events {
		p, err := d.part(&events[i])
		if err != nil {
			d.fail(err)
			return last, true
		}
		d.parts = append(d.parts, p)
		size += eventlog.Bound(p.e, p.n, p.resource, p.body)
	}
	if size > d.limit {
		return last, false
	}
	d.reserved += kept
	for _, p := range d.parts {
		d.beginCommand()
		revision := d.b.Add(p.e, p.n, p.resource, p.body)
		watched := d.watched != nil && d.watched(p.resource)
		var before *coppicev1.Body
		if watched && p.e.Type != lifecycle.ObjectCreated {
			before = d.Tx.Body(p.n)
		}
		var err error
		if last, err = d.Tx.Apply(p.e, revision, p.body); err != nil {
			d.fail(err)
			return last, true
		}
		if watched {
			last.Record(p.resource, before)
			d.changes = append(d.changes, last)
		}
	}
	return last, true
}

// perCommand is an upper bound of the size of a command without its strings, in bytes.
const perCommand = 256

// part is an event with the other data that the log has of it.
type part struct {
	e        *lifecycle.Event
	n        *lifecycle.Node
	resource string
	body     []byte
}

func (d *Decision) part(e *lifecycle.Event) (p part, err error) {
	p = part{e: e, n: e.Object.Node}
	if p.n == nil {
		if p.n = d.Tx.Node(e.UID); p.n == nil {
			return p, fmt.Errorf("an event of %s, which is not there", e.UID)
		}
	}
	k := d.Ctx.Kinds().OfNode(p.n)
	if k == nil {
		return p, fmt.Errorf("%s has kind %s %s, which is not registered", e.UID, p.n.APIVersion, p.n.Kind)
	}
	p.resource = k.Resource()
	p.body, err = state.Encode(e.Object.Body)
	return p, err
}

// fail remembers what must not happen: the commit is not written, and the
// writer ends.
func (d *Decision) fail(err error) {
	if d.fatal == nil {
		d.fatal = fmt.Errorf("writer: %w", err)
	}
}

// Session says that an import session brought something, or was closed.
func (d *Decision) Session(id string, closed bool) {
	d.beginCommand()
	d.b.Session(id, closed)
	d.Tx.TouchSession(id, d.Ctx.Now, closed)
	d.sessionClosed = d.sessionClosed || closed
}

// Examine takes so many dependents from those that a commit may examine to
// complete deletions in the foreground, lifecycle.MaxExamined in all. It reports
// false, and has done nothing, if they are too many.
func (d *Decision) Examine(dependents int) bool {
	if d.examined+dependents > lifecycle.MaxExamined {
		return false
	}
	d.examined += dependents
	return true
}

// Savepoint sets the place to which Rollback goes back.
func (d *Decision) Savepoint() {
	d.saved = savepoint{d.b.Mark(), len(d.changes), d.reserved, d.begun}
	d.Tx.Savepoint()
}

// Rollback undoes what was applied since the Savepoint.
func (d *Decision) Rollback() {
	d.Tx.Rollback()
	d.b.Reset(d.saved.mark)
	d.changes, d.reserved, d.begun = d.changes[:d.saved.changes], d.saved.reserved, d.saved.begun
}

// Release keeps what was applied since the Savepoint.
func (d *Decision) Release() { d.Tx.Release() }

// Revision is that of the last event that was applied.
func (d *Decision) Revision() uint64 { return d.b.Revision() - 1 }
