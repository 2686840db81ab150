package eventlog

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/nodecodec"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/wire"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ErrMalformed is returned for a message that is not a commit.
var ErrMalformed = errors.New("malformed commit")

// Decoded is a commit that was read from the log.
type Decoded struct {
	Header
	Commands [][16]byte // their ids
	Sessions []Session
	commands [][]byte
	events   [][]byte
}

// Entry is an object event of a commit, with what stands beside it. It is
// valid during the call that it is passed to.
type Entry struct {
	*lifecycle.Event
	Revision uint64
	// Command is the position of the command in the commit.
	Command int
	// Body is the encoding of the event's body, nil if it has none. It shares
	// the message's memory. Event.Object.Body is set for what governs the realm only.
	Body []byte
}

// Session says that an import session brought something, or was closed.
type Session struct {
	ID     string
	Closed bool
}

// Decode reads a commit, except for its object events. It keeps b.
func Decode(b []byte) (*Decoded, error) {
	c := &Decoded{}
	err := wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case commitRealmID:
			return copyID(&c.RealmID, f.Bytes(b))
		case commitID:
			return copyID(&c.ID, f.Bytes(b))
		case commitPrevious:
			c.Previous = f.Value
		case commitEpoch:
			c.Epoch = f.Value
		case commitTime:
			c.Time = lifecycle.Time(f.Value)
		case commitFirstRevision:
			c.FirstRevision = f.Value
		case commitCommands:
			id, err := decodeCommandID(f.Bytes(b))
			c.Commands = append(c.Commands, id)
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

func copyID(dst *[16]byte, b []byte) error {
	if len(b) != len(dst) {
		return errors.New("an id has 16 bytes")
	}
	copy(dst[:], b)
	return nil
}

func decodeCommandID(b []byte) (id [16]byte, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		if f.Number == commandID {
			return copyID(&id, f.Bytes(b))
		}
		return nil
	})
	return id, err
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

// Reply is the reply that was kept with the i-th command, nil if none was:
// then the command's events tell it.
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

// Each calls visit for the object events, in order.
func (c *Decoded) Each(visit func(*Entry) error) error {
	d := decoder{entry: Entry{Revision: c.FirstRevision}, visit: visit}
	for _, b := range c.events {
		if err := d.event(b); err != nil {
			return err
		}
	}
	return nil
}

// decoder has memory that events share.
type decoder struct {
	entry  Entry
	visit  func(*Entry) error
	uids   []uid.UID
	causes []uint64
}

func (d *decoder) tell(e *lifecycle.Event, body []byte) error {
	d.entry.Event, d.entry.Body = e, body
	err := d.visit(&d.entry)
	d.entry.Revision++
	return err
}

func (d *decoder) event(b []byte) error {
	var e lifecycle.Event
	var content wire.Field
	d.entry.Command = 0
	err := wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case eventCommand:
			d.entry.Command = int(f.Value)
		case eventReason:
			e.Reason = coppicev1.Reason(f.Value)
		case eventCause:
			e.Cause = f.Value
		case eventCreated, eventUpdated, eventMarked, eventOwnersRemoved, eventFinalizerRemoved, eventDeleted:
			if f.Type != protowire.BytesType {
				return wire.ErrType
			}
			content = f
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: event: %w", ErrMalformed, err)
	}
	m := content.Bytes(b)
	switch content.Number {
	case eventCreated:
		e.Type = lifecycle.ObjectCreated
		return d.object(m, e)
	case eventUpdated:
		e.Type = lifecycle.ObjectUpdated
		return d.object(m, e)
	case eventMarked:
		e.Type = lifecycle.DeletionMarked
	case eventOwnersRemoved:
		e.Type = lifecycle.OwnerReferencesRemoved
	case eventFinalizerRemoved:
		e.Type = lifecycle.FinalizerRemoved
	case eventDeleted:
		e.Type = lifecycle.ObjectDeleted
	default:
		return fmt.Errorf("%w: an event of no known sort", ErrMalformed)
	}
	return d.columns(m, e)
}

func (d *decoder) object(m []byte, e lifecycle.Event) error {
	var body []byte
	err := wire.Fields(m, func(f wire.Field) (err error) {
		switch f.Number {
		case objectNode:
			e.Object.Node, err = nodecodec.Decode(f.Bytes(m))
		case objectBody:
			body = f.Bytes(m)
			if body == nil {
				body = []byte{}
			}
		}
		return err
	})
	if err == nil && e.Object.Node == nil {
		err = errors.New("no node")
	}
	if err == nil && body != nil && lifecycle.Governs(e.Object.Node) {
		e.Object.Body = &coppicev1.Body{}
		err = proto.Unmarshal(body, e.Object.Body)
	}
	if err != nil {
		return fmt.Errorf("%w: object: %w", ErrMalformed, err)
	}
	e.UID = e.Object.UID
	return d.tell(&e, body)
}

func (d *decoder) columns(m []byte, e lifecycle.Event) error {
	d.uids, d.causes = d.uids[:0], d.causes[:0]
	err := wire.Fields(m, func(f wire.Field) error {
		switch {
		case f.Number == columnObjects:
			return d.identities(f.Bytes(m))
		case e.Type == lifecycle.DeletionMarked:
			decodeMark(&e.Mark, f, m)
		case f.Number == columnShared && e.Type == lifecycle.OwnerReferencesRemoved:
			r, err := nodecodec.DecodeOwner(f.Bytes(m), string(f.Bytes(m)))
			e.References = append(e.References, r)
			return err
		case f.Number == columnShared:
			e.Finalizers = append(e.Finalizers, string(f.Bytes(m)))
		}
		return nil
	})
	switch {
	case err != nil:
	case len(d.causes) > 0 && len(d.causes) != len(d.uids):
		err = errors.New("columns of different length")
	case e.Type == lifecycle.FinalizerRemoved && len(e.Finalizers) != 1:
		err = errors.New("no finalizer")
	}
	if err != nil {
		return fmt.Errorf("%w: columns: %w", ErrMalformed, err)
	}
	for i, u := range d.uids {
		e.UID = u
		if len(d.causes) > 0 {
			// The first difference is to Event.cause itself.
			e.Cause += uint64(protowire.DecodeZigZag(d.causes[i]))
		}
		if err := d.tell(&e, nil); err != nil {
			return err
		}
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

func (d *decoder) identities(m []byte) error {
	return wire.Fields(m, func(f wire.Field) (err error) {
		switch f.Number {
		case idUIDs:
			d.uids, err = uid.Unpack(d.uids, f.Bytes(m))
		case idCauses:
			d.causes, err = wire.Varints(d.causes, f.Bytes(m))
		}
		return err
	})
}
