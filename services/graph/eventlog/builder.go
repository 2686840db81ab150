package eventlog

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Command has the actor, the verb and the note of a command.
type Command struct {
	Actor string
	Verb  string
	Note  string
}

// CommandRef identifies a command of a commit, and says where its other parts are.
type CommandRef struct {
	// ID is zero for a command without one.
	ID    [16]byte
	Actor string
	// PreviousPart is the sequence of the commit with the part of the command before
	// this one; zero in the first part.
	PreviousPart uint64
	// Unfinished: the rest of the command is in a later commit.
	Unfinished bool
}

// Builder encodes a commit. Consecutive removals of objects, references or finalizers that
// differ only in their objects and causes are written in columns, without controller and
// blockOwnerDeletion of removed references. A Builder is not safe for
// concurrent use.
type Builder struct {
	b        []byte
	revision uint64 // of the next event
	format   int    // where the version of the log format is in b
	commands [][]byte
	refs     []CommandRef

	resources, namespaces table
	pending               int // size of what is not yet in b: commands and tables

	group   group
	scratch []byte
}

// builders are the freed builders. A commit can have megabytes, and the next one follows
// at once.
var builders = sync.Pool{New: func() any { return &Builder{} }}

// retained is the maximum size in bytes of a buffer that is used again.
const retained = 16 << 20

// Free makes the memory of this builder available to another one. Neither the builder nor
// the result of Bytes may be used afterwards.
func (b *Builder) Free() {
	if cap(b.b) > retained {
		return
	}
	b.group.reset()
	b.resources.truncate(0)
	b.namespaces.truncate(0)
	clear(b.commands)
	clear(b.refs)
	*b = Builder{
		b: b.b[:0], scratch: b.scratch, group: b.group, resources: b.resources, namespaces: b.namespaces,
		commands: b.commands[:0], refs: b.refs[:0],
	}
	builders.Put(b)
}

// NewBuilder starts a commit.
func NewBuilder(h Header) *Builder {
	b := builders.Get().(*Builder)
	b.revision = h.FirstRevision
	b.b = wire.AppendBytes(b.b, commitRealmID, h.RealmID[:])
	b.b = wire.AppendBytes(b.b, commitID, h.ID[:])
	b.b = wire.AppendFixed64(b.b, commitPrevious, h.Previous)
	b.b = wire.AppendVarint(b.b, commitEpoch, h.Epoch)
	b.b = wire.AppendVarint(b.b, commitTime, uint64(h.Time))
	b.b = wire.AppendVarint(b.b, commitSequence, h.Sequence)
	b.b = wire.AppendVarint(b.b, commitKey, uint64(h.Key))
	b.b = wire.AppendVarint(b.b, commitFormat, commitcodec.BaseFormat)
	b.format = len(b.b) - 1
	b.b = wire.AppendVarint(b.b, commitFirstRevision, h.FirstRevision)
	return b
}

// NewKey records that another key authenticates the following commits. It must be called
// before the first command.
func (b *Builder) NewKey(k KeyID) {
	var at int
	b.b, at = wire.Open(b.b, commitNewKey)
	b.b = wire.AppendVarint(b.b, newKeyNumber, uint64(k.Number))
	b.b = wire.AppendBytes(b.b, newKeyFingerprint, k.Fingerprint[:])
	b.b = wire.Close(b.b, at)
}

// Begin starts a command. The following events belong to it.
func (b *Builder) Begin(c Command) {
	b.flush()
	enc := wire.AppendBytes(nil, commandActor, c.Actor)
	enc = wire.AppendBytes(enc, commandVerb, c.Verb)
	enc = wire.AppendBytes(enc, commandNote, c.Note)
	b.commands = append(b.commands, enc)
	b.refs = append(b.refs, CommandRef{Actor: c.Actor})
	b.pending += len(enc) + overhead
}

// End ends the last command, or the part of it in this commit. A repetition of the command
// by the same actor is recognised by the ID of ref, unless that is zero. It gets the reply
// that is stored here or, if reply is nil, the one that follows from the command's events.
func (b *Builder) End(ref CommandRef, reply []byte) {
	last := len(b.commands) - 1
	enc := b.commands[last]
	if ref.ID != ([16]byte{}) {
		enc = wire.AppendBytes(enc, commandID, ref.ID[:])
	}
	enc = wire.AppendBytes(enc, commandReply, reply)
	enc = wire.AppendVarint(enc, commandPrevious, ref.PreviousPart)
	enc = wire.AppendVarint(enc, commandUnfinished, protowire.EncodeBool(ref.Unfinished))
	b.pending += len(enc) - len(b.commands[last])
	ref.Actor = b.refs[last].Actor
	b.commands[last], b.refs[last] = enc, ref
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
		if lifecycle.IsSettings(e.Object.Node) {
			b.needsSettings(e.Object.Body)
		}
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

// Session records that an import session has got a command, or was closed.
func (b *Builder) Session(id string, closed bool) {
	b.flush()
	event, content := b.open(coppicev1.Reason_REASON_REQUESTED, 0, eventSession)
	b.b = wire.AppendBytes(b.b, sessionID, id)
	b.b = wire.AppendVarint(b.b, sessionClosed, protowire.EncodeBool(closed))
	b.close(event, content)
}

// needsSettings raises the version of the log format to the first one that has the members of the realm settings.
func (b *Builder) needsSettings(body *coppicev1.Body) {
	if lifecycle.HasSetting(body, lifecycle.SettingSharedNamespaces) {
		b.needs(commitcodec.FormatNotice)
	}
	if lifecycle.HasSetting(body, lifecycle.SettingBlockOwnerDeletion) {
		b.needs(commitcodec.FormatBlockOwnerDeletion)
	}
}

// needs raises the version of the log format to the first one that has what is added.
func (b *Builder) needs(format byte) { b.b[b.format] = max(b.b[b.format], format) }

// Realm records that the realm itself was changed.
func (b *Builder) Realm(r lifecycle.RealmChange) {
	b.flush()
	event, content := b.open(coppicev1.Reason_REASON_REQUESTED, 0, eventRealm)
	if r.Origin != (lifecycle.Origin{}) {
		var origin int
		b.b, origin = wire.Open(b.b, realmOrigin)
		b.b = wire.AppendBytes(b.b, originRealmID, r.Origin.RealmID[:])
		b.b = wire.AppendVarint(b.b, originSequence, r.Origin.Sequence)
		b.b = wire.Close(b.b, origin)
	}
	b.b = wire.AppendVarint(b.b, realmPaused, protowire.EncodeBool(r.Paused))
	if r.Since != 0 {
		b.needs(commitcodec.FormatSince)
		b.b = wire.AppendVarint(b.b, realmSince, uint64(r.Since))
	}
	b.close(event, content)
}

// Brake records the brake of a kind, which the command with an index has changed. It must be called after the last event
// of the commit.
func (b *Builder) Brake(command int, resource string, k lifecycle.Brake) {
	b.flush()
	event, content := b.openBy(command, coppicev1.Reason_REASON_REQUESTED, 0, eventBrake)
	b.b = wire.AppendBytes(b.b, brakeResource, resource)
	b.b = wire.AppendVarint(b.b, brakeSince, uint64(k.Since))
	b.b = wire.AppendVarint(b.b, brakeBase, k.Base)
	b.b = wire.AppendVarint(b.b, brakeCounted, k.Counted)
	b.b = wire.AppendVarint(b.b, brakeTripped, uint64(k.Tripped))
	b.close(event, content)
}

// Released records that the release of a brake, by the command with an index, lets the deletion of objects through.
func (b *Builder) Released(command int, objects []uid.UID) {
	b.flush()
	event, content := b.openBy(command, coppicev1.Reason_REASON_REQUESTED, 0, eventReleased)
	var packed []byte
	for _, u := range objects {
		packed = append(packed, u...)
	}
	b.b = wire.AppendBytes(b.b, releasedUIDs, packed)
	b.close(event, content)
}

// Notice records the notice that a policy has given for objects, or withdraws it if it has no
// generation. command is the index of the command that did so. It must be called after the last event of the commit.
func (b *Builder) Notice(command int, objects []uid.UID, n lifecycle.Notice) {
	b.flush()
	b.needs(commitcodec.FormatNotice)
	event, content := b.openBy(command, coppicev1.Reason_REASON_REQUESTED, 0, eventNotice)
	var packed []byte
	for _, u := range objects {
		packed = append(packed, u...)
	}
	b.b = wire.AppendBytes(b.b, noticeUIDs, packed)
	b.b = wire.AppendBytes(b.b, noticePolicy, string(n.Policy))
	b.b = wire.AppendVarint(b.b, noticeGeneration, uint64(n.Generation))
	b.b = wire.AppendVarint(b.b, noticeGiven, uint64(n.Given))
	b.b = wire.AppendVarint(b.b, noticeEnds, uint64(n.Ends))
	if n.Answer != (lifecycle.NoticeAnswer{}) {
		var at int
		b.b, at = wire.Open(b.b, noticeAnswer)
		b.b = wire.AppendBytes(b.b, answerActor, n.Answer.Actor)
		b.b = wire.AppendBytes(b.b, answerReason, n.Answer.Reason)
		b.b = wire.AppendVarint(b.b, answerUntil, uint64(n.Answer.Until))
		b.b = wire.Close(b.b, at)
	}
	b.close(event, content)
}

// BoundNotice returns an upper bound of the bytes that the notice of one object adds to the commit.
func BoundNotice(u uid.UID, n lifecycle.Notice) int {
	return 13*overhead + len(u) + len(n.Policy) + len(n.Answer.Actor) + len(n.Answer.Reason)
}

// BoundBrake returns an upper bound of the bytes that the brake of a resource adds to the commit.
func BoundBrake(resource string) int { return 10*overhead + len(resource) }

// BoundReleased returns an upper bound of the bytes that released objects add to the commit.
func BoundReleased(objects []uid.UID) int {
	size := 6 * overhead
	for _, u := range objects {
		size += len(u)
	}
	return size
}

// open starts an event. The bytes that are appended until close are its content.
func (b *Builder) open(reason coppicev1.Reason, cause uint64, field protowire.Number) (event, content int) {
	return b.openBy(len(b.commands)-1, reason, cause, field)
}

// openBy is open for an event of an earlier command.
func (b *Builder) openBy(command int, reason coppicev1.Reason, cause uint64, field protowire.Number) (event, content int) {
	if size := len(b.b); size > cap(b.b)-cap(b.b)/8 {
		b.b = slices.Grow(b.b, size) // append alone would grow a large commit by quarters
	}
	b.b, event = wire.Open(b.b, commitEvents)
	b.b = wire.AppendVarint(b.b, eventCommand, uint64(min(command, len(b.commands)-1)))
	b.b = wire.AppendVarint(b.b, eventReason, uint64(reason))
	b.b = wire.AppendVarint(b.b, eventCause, cause)
	b.b, content = wire.Open(b.b, field)
	return event, content
}

func (b *Builder) close(event, content int) {
	b.b = wire.Close(wire.Close(b.b, content), event)
}

// Revision returns the revision of the next event to be added.
func (b *Builder) Revision() uint64 { return b.revision }

// Commands returns the commands that were started.
func (b *Builder) Commands() []CommandRef { return b.refs }

// overhead is an upper bound of the size of a field's tag and length, in bytes.
const overhead = 16

// Size returns an upper bound of the current size of the commit, in bytes.
func (b *Builder) Size() int {
	g := &b.group
	size := len(b.b) + b.pending + b.resources.size + b.namespaces.size + overhead
	if g.n > 0 {
		size += len(g.uids) + len(g.names) + len(g.shared) + len(g.resources.b) + len(g.namespaces.b) + len(g.causes.b) + 8*overhead
	}
	return size
}

// Bound returns an upper bound of the bytes that the event adds to the commit.
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
		for i := range o.Uses {
			u := &o.Uses[i]
			size += 6*overhead + len(u.Group) + len(u.Kind) + len(u.Name) + len(u.Namespace) + len(u.UID)
		}
		if p := o.Protection; p != nil {
			size += 4*overhead + len(p.Reason) + len(p.Actor)
			for _, name := range p.Policies {
				size += overhead + len(name)
			}
		}
	}
	return size
}

// Mark is a position to which Reset can return.
type Mark struct {
	b, commands, resources, namespaces, pending int
	revision                                    uint64
	format                                      byte
}

// Mark returns the current position of the builder.
func (b *Builder) Mark() Mark {
	b.flush()
	return Mark{len(b.b), len(b.commands), len(b.resources.list), len(b.namespaces.list), b.pending, b.revision, b.b[b.format]}
}

// Reset removes everything that was added since the mark was set.
func (b *Builder) Reset(m Mark) {
	b.flush()
	b.b, b.revision, b.pending = b.b[:m.b], m.revision, m.pending
	b.b[b.format] = m.format
	b.commands, b.refs = b.commands[:m.commands], b.refs[:m.commands]
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
