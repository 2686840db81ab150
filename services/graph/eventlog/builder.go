package eventlog

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/nodecodec"
	"github.com/coppice-gc/coppice/internal/wire"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Field numbers of coppice.v1.Commit and of the messages in it.
const (
	commitRealmID       = 1
	commitID            = 2
	commitPrevious      = 3
	commitEpoch         = 4
	commitTime          = 5
	commitFirstRevision = 6
	commitCommands      = 7
	commitEvents        = 8
	commitResources     = 9
	commitNamespaces    = 10

	commandID    = 1
	commandActor = 2
	commandVerb  = 3
	commandReply = 4
	commandNote  = 5

	eventCommand          = 1
	eventReason           = 2
	eventCause            = 3
	eventCreated          = 4
	eventUpdated          = 5
	eventMarked           = 6
	eventOwnersRemoved    = 7
	eventFinalizerRemoved = 8
	eventDeleted          = 9
	eventSession          = 10

	objectNode = 1
	objectBody = 2

	markObject     = 1
	markTime       = 2
	markGrace      = 3
	markGeneration = 4
	markFinalizers = 5
	markAwaited    = 6

	columnObjects = 1 // in OwnerReferencesRemoved, FinalizerRemoved, ObjectsDeleted
	columnShared  = 2 // references, finalizer, finalizers
	idUIDs        = 1
	idResources   = 2
	idNamespaces  = 3
	idNames       = 4
	idCauses      = 5
	sessionID     = 1
	sessionClosed = 2
)

// Header is what a commit says beside commands and events.
type Header struct {
	RealmID  [16]byte
	ID       [16]byte
	Previous uint64 // checksum of the message before
	Epoch    uint64
	Time     lifecycle.Time
	// FirstRevision is that of the first event that is added.
	FirstRevision uint64
}

// Command is who asked for what.
type Command struct {
	Actor string
	Verb  string
	Note  string
}

// Builder encodes a commit. Events of the same sort that follow one another
// within a command are written in columns. It is not safe for concurrent use.
type Builder struct {
	b        []byte
	revision uint64 // of the next event
	commands [][]byte
	ids      [][16]byte

	resources, namespaces table
	apart                 int // size of what is not yet in b: commands and tables

	group   group
	scratch []byte
}

// table numbers the strings that columns point to.
type table struct {
	list  []string
	index map[string]uint32
	size  int
}

func (t *table) number(s string) uint32 {
	if n := len(t.list); n > 0 && t.list[n-1] == s {
		return uint32(n - 1)
	}
	if n, ok := t.index[s]; ok {
		return n
	}
	if t.index == nil {
		t.index = map[string]uint32{}
	}
	n := uint32(len(t.list))
	t.list, t.index[s] = append(t.list, s), n
	t.size += len(s) + overhead
	return n
}

func (t *table) truncate(n int) {
	for _, s := range t.list[n:] {
		delete(t.index, s)
		t.size -= len(s) + overhead
	}
	t.list = t.list[:n]
}

// group is a run of events that share everything but the object and the cause.
type group struct {
	n          int
	typ        lifecycle.EventType
	command    int
	reason     coppicev1.Reason
	shared     []byte // encoding of what they share
	uids       []byte
	resources  column
	namespaces column
	names      []byte
	causes     column
	first      uint64 // cause of the first
	last       uint64
}

// column is a packed repeated field, which is written as one entry while all
// are the same.
type column struct {
	b      []byte
	first  uint64
	same   bool
	length int
}

func (c *column) add(v uint64) {
	if c.length == 0 {
		c.first, c.same = v, true
	}
	c.same = c.same && v == c.first
	c.b = protowire.AppendVarint(c.b, v)
	c.length++
}

func (c *column) reset() { c.b, c.length = c.b[:0], 0 }

// builders are those that were freed: a commit has up to megabytes, and another
// follows at once.
var builders = sync.Pool{New: func() any { return &Builder{} }}

// retained is up to which size the memory of a commit is used again, in bytes.
const retained = 8 << 20

// Free lets another builder have the memory of this one, and of what Bytes has
// returned: neither may be used any more.
func (b *Builder) Free() {
	if cap(b.b) > retained {
		return
	}
	b.group.reset()
	b.resources.truncate(0)
	b.namespaces.truncate(0)
	clear(b.commands)
	*b = Builder{
		b: b.b[:0], scratch: b.scratch, group: b.group, resources: b.resources, namespaces: b.namespaces,
		commands: b.commands[:0], ids: b.ids[:0],
	}
	builders.Put(b)
}

// NewBuilder begins a commit.
func NewBuilder(h Header) *Builder {
	b := builders.Get().(*Builder)
	b.revision = h.FirstRevision
	b.b = wire.AppendBytes(b.b, commitRealmID, h.RealmID[:])
	b.b = wire.AppendBytes(b.b, commitID, h.ID[:])
	b.b = wire.AppendFixed64(b.b, commitPrevious, h.Previous)
	b.b = wire.AppendVarint(b.b, commitEpoch, h.Epoch)
	b.b = wire.AppendVarint(b.b, commitTime, uint64(h.Time))
	b.b = wire.AppendVarint(b.b, commitFirstRevision, h.FirstRevision)
	return b
}

// Begin begins a command; the events that follow are its.
func (b *Builder) Begin(c Command) {
	b.flush()
	enc := wire.AppendBytes(nil, commandActor, c.Actor)
	enc = wire.AppendBytes(enc, commandVerb, c.Verb)
	enc = wire.AppendBytes(enc, commandNote, c.Note)
	b.commands = append(b.commands, enc)
	b.ids = append(b.ids, [16]byte{})
	b.apart += len(enc) + overhead
}

// End ends the command that was begun last. A repetition of it is recognised
// by the id, unless it is zero, and gets the reply that is kept here, or else
// the one that the command's events tell.
func (b *Builder) End(id [16]byte, reply []byte) {
	last := len(b.commands) - 1
	enc := b.commands[last]
	if id != ([16]byte{}) {
		enc = wire.AppendBytes(enc, commandID, id[:])
	}
	enc = wire.AppendBytes(enc, commandReply, reply)
	b.apart += len(enc) - len(b.commands[last])
	b.commands[last], b.ids[last] = enc, id
}

// Add adds an event. n is the object, before its removal; resource is its
// resource; body is the encoding of the event's body, if it has one. It returns
// the event's revision.
func (b *Builder) Add(e *lifecycle.Event, n *lifecycle.Node, resource string, body []byte) (revision uint64) {
	revision = b.revision
	b.revision++
	switch e.Type {
	case lifecycle.ObjectCreated, lifecycle.ObjectUpdated:
		b.flush()
		field := protowire.Number(eventCreated)
		if e.Type == lifecycle.ObjectUpdated {
			field = eventUpdated
		}
		event, content := b.open(e.Reason, e.Cause, field)
		var node int
		b.b, node = wire.Open(b.b, objectNode)
		b.b = wire.Close(nodecodec.Append(b.b, e.Object.Node), node)
		if body != nil {
			b.b = protowire.AppendTag(b.b, objectBody, protowire.BytesType)
			b.b = protowire.AppendBytes(b.b, body)
		}
		b.close(event, content)
	default:
		b.column(e, n, resource)
		if e.Type == lifecycle.DeletionMarked {
			b.flush()
		}
	}
	return revision
}

// Session adds that an import session brought something, or was closed.
func (b *Builder) Session(id string, closed bool) {
	b.flush()
	event, content := b.open(coppicev1.Reason_REASON_REQUESTED, 0, eventSession)
	b.b = wire.AppendBytes(b.b, sessionID, id)
	b.b = wire.AppendVarint(b.b, sessionClosed, protowire.EncodeBool(closed))
	b.close(event, content)
}

// column adds an event to the group of its like.
func (b *Builder) column(e *lifecycle.Event, n *lifecycle.Node, resource string) {
	b.scratch = appendShared(b.scratch[:0], e)
	g := &b.group
	if g.n > 0 && (g.typ != e.Type || g.command != len(b.commands)-1 || g.reason != e.Reason || string(g.shared) != string(b.scratch)) {
		b.flush()
	}
	if g.n == 0 {
		g.typ, g.command, g.reason = e.Type, len(b.commands)-1, e.Reason
		g.shared = append(g.shared[:0], b.scratch...)
		g.first, g.last = e.Cause, e.Cause
	}
	g.n++
	g.uids = append(g.uids, n.UID...)
	g.resources.add(uint64(b.resources.number(resource)))
	g.namespaces.add(uint64(b.namespaces.number(n.Namespace)))
	g.names = protowire.AppendTag(g.names, idNames, protowire.BytesType)
	g.names = protowire.AppendString(g.names, n.Name)
	g.causes.add(protowire.EncodeZigZag(int64(e.Cause - g.last)))
	g.last = e.Cause
}

// appendShared encodes what events of a group share, beside type and reason.
func appendShared(b []byte, e *lifecycle.Event) []byte {
	switch e.Type {
	case lifecycle.OwnerReferencesRemoved:
		var room [256]byte
		for i := range e.References {
			r := e.References[i]
			r.Controller, r.Blocking = lifecycle.Unsaid, lifecycle.Unsaid
			b = wire.AppendBytes(b, columnShared, nodecodec.AppendOwner(room[:0], &r))
		}
	case lifecycle.FinalizerRemoved, lifecycle.ObjectDeleted:
		for _, f := range e.Finalizers {
			b = wire.AppendBytes(b, columnShared, f)
		}
	case lifecycle.DeletionMarked:
		b = wire.AppendVarint(b, markTime, uint64(e.Mark.Time))
		if e.Mark.GracePeriod != nil {
			b = protowire.AppendTag(b, markGrace, protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(*e.Mark.GracePeriod))
		}
		b = wire.AppendVarint(b, markGeneration, uint64(e.Mark.Generation))
		for _, f := range e.Mark.Finalizers {
			b = wire.AppendBytes(b, markFinalizers, f)
		}
		b = wire.AppendVarint(b, markAwaited, uint64(e.Mark.AwaitedGeneration))
	}
	return b
}

// flush writes the group.
func (b *Builder) flush() {
	g := &b.group
	if g.n == 0 {
		return
	}
	event, content := b.open(g.reason, g.first, groupFields[g.typ])
	var objects int
	b.b, objects = wire.Open(b.b, columnObjects)
	b.b = wire.AppendBytes(b.b, idUIDs, g.uids)
	b.b = appendColumn(b.b, idResources, &g.resources)
	b.b = appendColumn(b.b, idNamespaces, &g.namespaces)
	b.b = append(b.b, g.names...)
	if !g.causes.same {
		b.b = wire.AppendBytes(b.b, idCauses, g.causes.b)
	}
	b.b = append(wire.Close(b.b, objects), g.shared...)
	b.close(event, content)
	g.reset()
}

func (g *group) reset() {
	g.n = 0
	g.uids, g.names = g.uids[:0], g.names[:0]
	g.resources.reset()
	g.namespaces.reset()
	g.causes.reset()
}

var groupFields = map[lifecycle.EventType]protowire.Number{
	lifecycle.DeletionMarked:         eventMarked,
	lifecycle.OwnerReferencesRemoved: eventOwnersRemoved,
	lifecycle.FinalizerRemoved:       eventFinalizerRemoved,
	lifecycle.ObjectDeleted:          eventDeleted,
}

func appendColumn(b []byte, field protowire.Number, c *column) []byte {
	if !c.same {
		return wire.AppendBytes(b, field, c.b)
	}
	return wire.AppendBytes(b, field, protowire.AppendVarint(nil, c.first))
}

// open begins an event; what is appended until close is what it says.
func (b *Builder) open(reason coppicev1.Reason, cause uint64, field protowire.Number) (event, content int) {
	if size := len(b.b); size > cap(b.b)-cap(b.b)/8 {
		b.b = slices.Grow(b.b, size) // append alone would grow a large commit by quarters
	}
	b.b, event = wire.Open(b.b, commitEvents)
	b.b = wire.AppendVarint(b.b, eventCommand, uint64(len(b.commands)-1))
	b.b = wire.AppendVarint(b.b, eventReason, uint64(reason))
	b.b = wire.AppendVarint(b.b, eventCause, cause)
	b.b, content = wire.Open(b.b, field)
	return event, content
}

func (b *Builder) close(event, content int) {
	b.b = wire.Close(wire.Close(b.b, content), event)
}

// Revision is that of the next event to be added.
func (b *Builder) Revision() uint64 { return b.revision }

// Commands are the ids of the commands that were begun, zero for those without.
func (b *Builder) Commands() [][16]byte { return b.ids }

// overhead is more than the tag and the length of a field.
const overhead = 16

// Size is the size that the commit has so far, in bytes; Bytes does not return
// more.
func (b *Builder) Size() int {
	g := &b.group
	size := len(b.b) + b.apart + b.resources.size + b.namespaces.size + overhead
	if g.n > 0 {
		size += len(g.uids) + len(g.names) + len(g.shared) + len(g.resources.b) + len(g.namespaces.b) + len(g.causes.b) + 8*overhead
	}
	return size
}

// Bound is how much the event can add to the size of the commit, at the most.
func Bound(e *lifecycle.Event, n *lifecycle.Node, resource string, body []byte) int {
	size := 20*overhead + len(n.UID) + len(resource) + len(n.Name) + 2*len(n.Namespace) + len(body)
	for i := range e.References {
		r := &e.References[i]
		size += overhead + len(r.APIVersion) + len(r.Kind) + len(r.Name) + len(r.UID)
	}
	for _, list := range [][]string{e.Finalizers, e.Mark.Finalizers} {
		for _, f := range list {
			size += overhead + len(f)
		}
	}
	if o := e.Object.Node; o != nil {
		size += 8*overhead + len(o.APIVersion) + len(o.Kind) + len(o.ImportSession)
		for i := range o.Owners {
			r := &o.Owners[i]
			size += 2*overhead + len(r.APIVersion) + len(r.Kind) + len(r.Name) + len(r.UID)
		}
		for _, list := range [][]string{o.Finalizers, o.Initializers} {
			for _, s := range list {
				size += overhead + len(s)
			}
		}
	}
	return size
}

// Mark is a place to go back to.
type Mark struct {
	b, commands, resources, namespaces, apart int
	revision                                  uint64
}

// Mark returns the place where the builder is.
func (b *Builder) Mark() Mark {
	b.flush()
	return Mark{len(b.b), len(b.commands), len(b.resources.list), len(b.namespaces.list), b.apart, b.revision}
}

// Reset forgets what was added since the mark was set.
func (b *Builder) Reset(m Mark) {
	b.flush()
	b.b, b.revision, b.apart = b.b[:m.b], m.revision, m.apart
	b.commands, b.ids = b.commands[:m.commands], b.ids[:m.commands]
	b.resources.truncate(m.resources)
	b.namespaces.truncate(m.namespaces)
}

// Bytes returns the commit. The builder must not be used afterwards.
func (b *Builder) Bytes() []byte {
	b.flush()
	for _, c := range b.commands {
		b.b = protowire.AppendTag(b.b, commitCommands, protowire.BytesType)
		b.b = protowire.AppendBytes(b.b, c)
	}
	for _, s := range b.resources.list {
		b.b = protowire.AppendTag(b.b, commitResources, protowire.BytesType)
		b.b = protowire.AppendString(b.b, s)
	}
	for _, s := range b.namespaces.list {
		b.b = protowire.AppendTag(b.b, commitNamespaces, protowire.BytesType)
		b.b = protowire.AppendString(b.b, s)
	}
	return b.b
}

func (h Header) String() string {
	return fmt.Sprintf("commit %x of epoch %d", h.ID[:4], h.Epoch)
}
