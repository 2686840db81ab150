package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ErrMalformed is returned for a message that is not a commit.
var ErrMalformed = errors.New("malformed commit")

// Decoded is a commit that was read from the log.
type Decoded struct {
	Header
	Commands []CommandRef
	// NewKey is the key of the following commits if this one changes it; otherwise zero.
	NewKey   KeyID
	Sessions []Session
	commands [][]byte
	events   [][]byte
	runs     []run // of events, set by Unpack
	count    int   // number of events in runs
}

// Entry is an object event of a commit, with its revision, command and body. It is valid
// during the call that it is passed to.
type Entry struct {
	*lifecycle.Event
	Revision uint64
	// Command is the position of the command in the commit.
	Command int
	// Body is the encoding of the event's body, nil if it has none. It shares the
	// message's memory. Event.Object.Body is set only for objects that configure the
	// realm.
	Body []byte
	// Passed: a Filter leaves out the object. Only Type and UID of the event are set,
	// and Identity is the one that the Filter has returned.
	Passed   bool
	Identity uint64
}

// Filter reports whether to leave out an object when a commit is unpacked (replay
// elision), and returns the identity that the record of its removal has.
type Filter func(uid.UID) (identity uint64, pass bool)

// Session records that an import session has got a command, or was closed.
type Session struct {
	ID     string
	Closed bool
}

// Decode decodes a commit, except for its object events. The result refers to b.
func Decode(b []byte) (*Decoded, error) {
	c := &Decoded{}
	err := wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case commitNewKey:
			return c.NewKey.decode(f.Bytes(b))
		case commitCommands:
			last := ""
			if n := len(c.Commands); n > 0 {
				last = c.Commands[n-1].Actor
			}
			ref, err := decodeCommand(f.Bytes(b), last)
			c.Commands = append(c.Commands, ref)
			c.commands = append(c.commands, f.Bytes(b))
			return err
		case commitEvents:
			e := f.Bytes(b)
			if session, ok, err := decodeSession(e); err != nil {
				return err
			} else if ok {
				c.Sessions = append(c.Sessions, session)
				return nil
			}
			c.events = append(c.events, e)
		default:
			return c.decode(f, b)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if c.ID == ([16]byte{}) || c.Epoch == 0 {
		return nil, fmt.Errorf("%w: no id or no epoch", ErrMalformed)
	}
	return c, nil
}

// decode sets the field f of the message b, if it belongs to the header.
func (h *Header) decode(f wire.Field, b []byte) error {
	switch f.Number {
	case commitRealmID:
		return copyID(&h.RealmID, f.Bytes(b))
	case commitID:
		return copyID(&h.ID, f.Bytes(b))
	case commitPrevious:
		h.Previous = f.Value
	case commitEpoch:
		h.Epoch = f.Value
	case commitTime:
		h.Time = lifecycle.Time(f.Value)
	case commitSequence:
		h.Sequence = f.Value
	case commitKey:
		h.Key = uint32(f.Value)
	case commitFirstRevision:
		h.FirstRevision = f.Value
	}
	return nil
}

// headerOf decodes only the header of a message or of a commit.
func headerOf(message []byte) (h Header, err error) {
	fields := wire.Read(message)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		if err := h.decode(f, message); err != nil {
			return h, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if f.Number == commitFirstRevision { // it is written last
			break
		}
	}
	if err := fields.Err(); err != nil {
		return h, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return h, nil
}

func copyID(dst *[16]byte, b []byte) error {
	if len(b) != len(dst) {
		return errors.New("an id has 16 bytes")
	}
	copy(dst[:], b)
	return nil
}

// decodeCommand decodes a command, except for its reply. actor is the actor of the command
// before it, whose string is used again if it is the same.
func decodeCommand(b []byte, actor string) (r CommandRef, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case commandID:
			return copyID(&r.ID, f.Bytes(b))
		case commandActor:
			if r.Actor = actor; string(f.Bytes(b)) != actor {
				r.Actor = string(f.Bytes(b))
			}
		case commandPrevious:
			r.PreviousPart = f.Value
		case commandUnfinished:
			r.Unfinished = f.Value != 0
		}
		return nil
	})
	return r, err
}

func decodeSession(e []byte) (s Session, ok bool, err error) {
	err = wire.Fields(e, func(f wire.Field) error {
		if f.Number != eventSession {
			return nil
		}
		ok = true
		b := f.Bytes(e)
		return wire.Fields(b, func(f wire.Field) error {
			switch f.Number {
			case sessionID:
				s.ID = string(f.Bytes(b))
			case sessionClosed:
				s.Closed = f.Value != 0
			}
			return nil
		})
	})
	return s, ok, err
}

// Reply returns the reply that is stored with the i-th command, or with this part of it.
// If it is nil the reply follows from the command's events.
func (c *Decoded) Reply(i int) (reply []byte, err error) {
	b := c.commands[i]
	err = wire.Fields(b, func(f wire.Field) error {
		if f.Number == commandReply {
			reply = f.Bytes(b)
		}
		return nil
	})
	return reply, err
}

// Unpack decodes the object events, so that Each need not. A filter that is not nil may
// leave out some.
func (c *Decoded) Unpack(filter Filter) error {
	if c.runs != nil {
		return nil
	}
	var runs []run
	if filter == nil {
		runs = make([]run, 0, len(c.events))
	}
	count := 0
	for _, b := range c.events {
		if filter != nil {
			if typ, u, identity, pass := passObject(filter, b); pass {
				if last := len(runs) - 1; last < 0 || !runs[last].objects || runs[last].event.Type != typ {
					runs = append(runs, run{objects: true, event: lifecycle.Event{Type: typ}})
				}
				runs[len(runs)-1].addPassed(u, identity)
				count++
				continue
			}
		}
		runs = append(runs, run{})
		r := &runs[len(runs)-1]
		if err := r.decode(b); err != nil {
			return err
		}
		if filter != nil {
			r.leaveOut(filter)
		}
		count += r.len()
	}
	c.runs, c.count = runs, count
	return nil
}

// Each calls visit for the object events, in order.
func (c *Decoded) Each(visit func(*Entry) error) error {
	if err := c.Unpack(nil); err != nil {
		return err
	}
	var event lifecycle.Event
	entry := Entry{Event: &event, Revision: c.FirstRevision}
	for i := range c.runs {
		r := &c.runs[i]
		event, entry.Command, entry.Body = r.event, r.command, r.body
		for at := range r.len() {
			if r.uids != nil {
				event.UID = r.uids[at]
			}
			entry.Passed = r.passed != nil && r.passed[at]
			if entry.Passed {
				entry.Identity = r.identities[at]
			}
			if len(r.causes) > 0 {
				// The first difference is to Event.cause itself.
				event.Cause += uint64(protowire.DecodeZigZag(r.causes[at]))
			}
			if err := visit(&entry); err != nil {
				return err
			}
			entry.Revision++
		}
	}
	return nil
}

// Existing returns the objects of all events except creations, without those that a filter
// leaves out. Unpack must have been called.
func (c *Decoded) Existing() []uid.UID {
	uids := make([]uid.UID, 0, c.count)
	for i := range c.runs {
		switch r := &c.runs[i]; {
		case r.passed != nil:
			for at, u := range r.uids {
				if !r.passed[at] {
					uids = append(uids, u)
				}
			}
		case r.uids != nil:
			uids = append(uids, r.uids...)
		case r.event.Type != lifecycle.ObjectCreated:
			uids = append(uids, r.event.UID)
		}
	}
	return uids
}

// run is one event, or several that differ only in their objects and causes.
type run struct {
	event   lifecycle.Event
	command int
	body    []byte
	uids    []uid.UID // nil for an event that has its object
	causes  []uint64  // as they are encoded; nil if they are the event's

	objects    bool     // the events create or update objects, all of which are left out
	passed     []bool   // which of uids are left out; nil if none is
	identities []uint64 // of the objects that are left out
}

func (r *run) len() int {
	if r.event.Object.Node != nil {
		return 1
	}
	return len(r.uids)
}

// addPassed adds an object that is left out to a run of such objects.
func (r *run) addPassed(u uid.UID, identity uint64) {
	r.uids, r.passed, r.identities = append(r.uids, u), append(r.passed, true), append(r.identities, identity)
}

// leaveOut records which of the uids a filter leaves out.
func (r *run) leaveOut(filter Filter) {
	for i, u := range r.uids {
		identity, pass := filter(u)
		if !pass {
			continue
		}
		if r.passed == nil {
			r.passed, r.identities = make([]bool, len(r.uids)), make([]uint64, len(r.uids))
		}
		r.passed[i], r.identities[i] = true, identity
	}
}

func (r *run) decode(b []byte) error {
	var content wire.Field
	fields := wire.Read(b)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		switch f.Number {
		case eventCommand:
			r.command = int(f.Value)
		case eventReason:
			r.event.Reason = coppicev1.Reason(f.Value)
		case eventCause:
			r.event.Cause = f.Value
		case eventCreated, eventUpdated, eventMarked, eventOwnersRemoved, eventFinalizerRemoved, eventDeleted:
			if f.Type != protowire.BytesType {
				return fmt.Errorf("%w: event: %w", ErrMalformed, wire.ErrType)
			}
			content = f
		}
	}
	if err := fields.Err(); err != nil {
		return fmt.Errorf("%w: event: %w", ErrMalformed, err)
	}
	m := content.Bytes(b)
	switch content.Number {
	case eventCreated:
		r.event.Type = lifecycle.ObjectCreated
		return r.decodeObject(m)
	case eventUpdated:
		r.event.Type = lifecycle.ObjectUpdated
		return r.decodeObject(m)
	case eventMarked:
		r.event.Type = lifecycle.DeletionMarked
	case eventOwnersRemoved:
		r.event.Type = lifecycle.OwnerReferencesRemoved
	case eventFinalizerRemoved:
		r.event.Type = lifecycle.FinalizerRemoved
	case eventDeleted:
		r.event.Type = lifecycle.ObjectDeleted
	default:
		return fmt.Errorf("%w: an event of no known sort", ErrMalformed)
	}
	if err := r.decodeColumns(m); err != nil {
		return fmt.Errorf("%w: columns: %w", ErrMalformed, err)
	}
	return nil
}

func (r *run) decodeObject(m []byte) (err error) {
	e := &r.event
	fields := wire.Read(m)
	for f, ok := fields.Next(); ok && err == nil; f, ok = fields.Next() {
		switch f.Number {
		case objectNode:
			e.Object.Node, err = nodecodec.Decode(f.Bytes(m))
		case objectBody:
			r.body = f.Bytes(m)
			if r.body == nil {
				r.body = []byte{}
			}
		}
	}
	err = cmp.Or(err, fields.Err())
	if err == nil && e.Object.Node == nil {
		err = errors.New("no node")
	}
	if err == nil && r.body != nil && lifecycle.Governs(e.Object.Node) {
		e.Object.Body = &coppicev1.Body{}
		err = proto.Unmarshal(r.body, e.Object.Body)
	}
	if err != nil {
		return fmt.Errorf("%w: object: %w", ErrMalformed, err)
	}
	e.UID = e.Object.UID
	return nil
}

// passObject reports whether an event creates or updates an object that the filter leaves
// out, and which.
func passObject(filter Filter, event []byte) (typ lifecycle.EventType, u uid.UID, identity uint64, pass bool) {
	var node []byte
	err := eachPart(event, func(f wire.Field) error {
		switch f.Number {
		case eventCreated:
			typ, node = lifecycle.ObjectCreated, firstNode(f.Bytes(event))
		case eventUpdated:
			typ, node = lifecycle.ObjectUpdated, firstNode(f.Bytes(event))
		}
		return nil
	})
	u = nodecodec.UID(node)
	if err != nil || u == "" {
		return typ, u, 0, false // another event, or malformed, as decode will say
	}
	identity, pass = filter(u)
	return typ, u, identity, pass
}

// firstNode returns the node at the beginning of an ObjectCreated or ObjectUpdated, nil if
// there is none.
func firstNode(object []byte) []byte {
	fields := wire.Read(object)
	if f, ok := fields.Next(); ok && f.Number == objectNode {
		return f.Bytes(object)
	}
	return nil
}

func (r *run) decodeColumns(m []byte) error {
	e := &r.event
	fields := wire.Read(m)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		switch {
		case f.Number == columnObjects:
			if err := r.decodeIdentities(f.Bytes(m)); err != nil {
				return err
			}
		case e.Type == lifecycle.DeletionMarked:
			decodeMark(&e.Mark, f, m)
		case f.Number == columnShared && e.Type == lifecycle.OwnerReferencesRemoved:
			o, err := nodecodec.DecodeOwner(f.Bytes(m), string(f.Bytes(m)))
			if err != nil {
				return err
			}
			e.References = append(e.References, o)
		case f.Number == columnShared:
			e.Finalizers = append(e.Finalizers, string(f.Bytes(m)))
		}
	}
	switch {
	case fields.Err() != nil:
		return fields.Err()
	case len(r.causes) > 0 && len(r.causes) != len(r.uids):
		return errors.New("columns of different length")
	case e.Type == lifecycle.FinalizerRemoved && len(e.Finalizers) != 1:
		return errors.New("no finalizer")
	}
	return nil
}

func decodeMark(m *lifecycle.Mark, f wire.Field, b []byte) {
	switch f.Number {
	case markTime:
		m.Time = lifecycle.Time(f.Value)
	case markGrace:
		grace := int64(f.Value)
		m.GracePeriod = &grace
	case markGeneration:
		m.Generation = int64(f.Value)
	case markFinalizers:
		m.Finalizers = append(m.Finalizers, string(f.Bytes(b)))
	case markAwaited:
		m.AwaitedGeneration = int64(f.Value)
	}
}

func (r *run) decodeIdentities(m []byte) (err error) {
	fields := wire.Read(m)
	for f, ok := fields.Next(); ok && err == nil; f, ok = fields.Next() {
		switch f.Number {
		case idUIDs:
			r.uids, err = uid.Unpack(slices.Grow(r.uids, (f.End-f.Start)/uid.PackedUUID), f.Bytes(m))
		case idCauses:
			r.causes, err = wire.Varints(slices.Grow(r.causes, f.End-f.Start), f.Bytes(m))
		}
	}
	return cmp.Or(err, fields.Err())
}
