package writer

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// OpenCommit is a commit that is being decided: the state with the commit's changes so far,
// and the commit's encoding. It is not safe for concurrent use.
type OpenCommit struct {
	Ctx *lifecycle.Context
	Tx  *state.Tx // the state with the changes of the commit

	id    [16]byte          // identifies the commit in the log
	b     *eventlog.Builder // encodes the commit for the log
	limit int               // maximum size of the commit, in bytes
	above bool              // a commit before this one was not applied when this one began
	fatal error             // an internal error: see fail

	// The current command.
	command      eventlog.Command
	commandAdded bool // the commit has the command: see addCommand
	reserved     int  // bytes for the stored reply: see Reserve

	// For Applied.
	watched       func(resource string) bool // reports whether to keep the changes of a resource; nil for none
	changes       []state.Change             // the changes of watched resources
	tripped       []Tripped
	brakeReleased bool // a brake was released, perhaps not completely
	sessionClosed bool

	traced traced // see trace.go

	// What recordBrakes and recordNotices record.
	tailBound int            // upper bound of its size, in bytes
	braked    map[string]int // the brakes that have changed, by resource: the index of the command that did so first, or tripped or released it last
	released  []released     // see LetThrough
	noticed   []noticed      // see Notice

	// Numbers that are bounded for a commit.
	examined   int // dependents: see Examine
	references int // references and finalizers of wide objects: see Crowded

	encoded []encodedEvent // scratch of Add
	saved   savepoint
}

// savepoint has what Rollback resets.
type savepoint struct {
	mark         eventlog.Mark
	changes      int // length
	reserved     int
	commandAdded bool
	references   int
}

// startCommand starts a command. The commit has it from its first event on.
func (d *OpenCommit) startCommand(c eventlog.Command) {
	d.command, d.commandAdded, d.reserved = c, false, 0
}

// addCommand adds the current command to the commit, unless the commit has it.
func (d *OpenCommit) addCommand() {
	if !d.commandAdded {
		d.b.Begin(d.command)
		d.traced.added()
		d.commandAdded = true
	}
}

// commandIndex is the index that the current command has in the commit, or will have.
func (d *OpenCommit) commandIndex() int {
	n := len(d.b.Commands())
	if d.commandAdded {
		n--
	}
	return n
}

// Empty reports whether the commit has no events yet.
func (d *OpenCommit) Empty() bool { return len(d.b.Commands()) == 0 }

// Alone reports whether the commit is empty and all earlier commits are in the state.
func (d *OpenCommit) Alone() bool { return d.Empty() && !d.above }

// Limit returns the maximum size of a commit, in bytes.
func (d *OpenCommit) Limit() int { return d.limit }

// Reserve reserves bytes for a reply that is stored with the command. It returns false, and
// does nothing, if they do not fit into the commit.
func (d *OpenCommit) Reserve(replySize int) bool {
	if d.size()+replySize > d.limit {
		return false
	}
	d.reserved += replySize
	return true
}

// size returns an upper bound of the commit's size in bytes, including the current command.
func (d *OpenCommit) size() int {
	return d.b.Size() + d.reserved + d.tailBound + len(d.command.Actor) + len(d.command.Verb) + len(d.command.Note) + perCommand
}

// Add adds events to the commit, and returns the change of the last one. It reports false,
// and does nothing, if the events and a stored reply of replySize bytes do not fit into the commit.
// Events that do not fit into an empty commit never fit.
func (d *OpenCommit) Add(events []lifecycle.Event, replySize int) (last state.Change, ok bool) {
	size := d.size() + replySize
	d.encoded = d.encoded[:0]
	for i := range events {
		p, err := d.encode(&events[i])
		if err != nil {
			d.fail(err)
			return last, true
		}
		d.encoded = append(d.encoded, p)
		size += eventlog.Bound(p.e, p.n, p.resource, p.body)
	}
	if size > d.limit {
		return last, false
	}
	d.reserved += replySize
	for _, p := range d.encoded {
		if w := lifecycle.Width(p.n); w > lifecycle.Wide {
			d.references += w
		}
		d.addCommand()
		revision := d.b.Add(p.e, p.n, p.resource, p.body)
		watched := d.watched != nil && d.watched(p.resource)
		var before *coppicev1.Body
		if watched && p.e.Type != lifecycle.ObjectCreated {
			before = d.Tx.ReadableBody(p.n)
		}
		d.countDeletion(p)
		var err error
		if last, err = d.Tx.Add(p.e, revision, p.body); err != nil {
			d.fail(err)
			return last, true
		}
		d.traced.changed(p.e.UID, p.n)
		if watched {
			last.Record(p.resource, before)
			d.changes = append(d.changes, last)
		}
	}
	return last, true
}

// maxReferences is the number of references and finalizers of wide objects with which a commit is crowded. Each
// costs about as much as an object.
const maxReferences = 1000

// Crowded reports whether the commit has so many references of wide objects that what remains of a command
// is for the next one. A commit without events is not crowded.
func (d *OpenCommit) Crowded() bool { return d.references >= maxReferences }

// perCommand is an upper bound of the size of a command without its strings, in bytes.
const perCommand = 256

// encodedEvent is an event with the other data that the log stores with it.
type encodedEvent struct {
	e        *lifecycle.Event
	n        *lifecycle.Node
	resource string
	body     []byte
}

func (d *OpenCommit) encode(e *lifecycle.Event) (p encodedEvent, err error) {
	p = encodedEvent{e: e, n: e.Object.Node}
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

// fail records an internal error: the commit is not appended, and Run returns the error.
func (d *OpenCommit) fail(err error) {
	if d.fatal == nil {
		d.fatal = fmt.Errorf("writer: %w", err)
	}
}

// Session records that an import session has got a command, or was closed.
func (d *OpenCommit) Session(id string, closed bool) {
	d.addCommand()
	d.b.Session(id, closed)
	d.Tx.TouchSession(id, d.Ctx.Now, closed)
	d.sessionClosed = d.sessionClosed || closed
}

// ChangeRealm records that the realm itself was changed.
func (d *OpenCommit) ChangeRealm(event lifecycle.RealmChange) {
	d.addCommand()
	d.b.Realm(event)
	d.Tx.ChangeRealm(event, d.Ctx.Now)
}

// Examine takes a number of dependents from the lifecycle.MaxExamined that a commit may
// examine to complete deletions in the foreground. It returns false, and does nothing, if
// too few are left.
func (d *OpenCommit) Examine(dependents int) bool {
	if d.examined+dependents > lifecycle.MaxExamined {
		return false
	}
	d.examined += dependents
	return true
}

// Savepoint begins to record changes, so that Rollback can undo them.
func (d *OpenCommit) Savepoint() {
	d.saved = savepoint{d.b.Mark(), len(d.changes), d.reserved, d.commandAdded, d.references}
	d.Tx.Savepoint()
}

// Rollback undoes what was added since the Savepoint.
func (d *OpenCommit) Rollback() {
	d.Tx.Rollback()
	d.b.Reset(d.saved.mark)
	d.changes, d.reserved, d.commandAdded = d.changes[:d.saved.changes], d.saved.reserved, d.saved.commandAdded
	d.references = d.saved.references
}

// Release keeps what was added since the Savepoint.
func (d *OpenCommit) Release() { d.Tx.Release() }

// Revision returns the revision of the last event that was added.
func (d *OpenCommit) Revision() uint64 { return d.b.Revision() - 1 }
