package eventlog

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Decoded is a commit that was read from the log.
type Decoded struct {
	Header
	Commands []CommandRef
	// NewKey is the key of the following commits if this one changes it; otherwise zero.
	NewKey   KeyID
	Sessions []Session
	// Realm has the changes of the realm itself.
	Realm []lifecycle.RealmChange
	// Brakes has the brakes of kinds, by resource, and Released the objects whose deletion
	// was let through. Both are applied after the events of the commit.
	Brakes   map[string]lifecycle.Brake
	Released []uid.UID
	// Notices are the notices of expiry policies, in their order. They are applied after the
	// events, too.
	Notices  []Noticed
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

// Noticed are objects and the notice that an expiry policy has given for them; without a
// generation it is withdrawn.
type Noticed struct {
	Objects []uid.UID
	lifecycle.Notice
}

// Decode decodes a commit, except for its object events. The result refers to b. The error
// is a NewerError for a commit of a newer format.
func Decode(b []byte) (*Decoded, error) {
	c := &Decoded{}
	if h, err := commitcodec.ReadHeader(b); err != nil {
		return nil, err
	} else if err := h.Readable(); err != nil {
		return nil, err
	}
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
			if other, err := c.decodeOther(e); err != nil || other {
				return err
			}
			c.events = append(c.events, e)
		default:
			return c.Set(f, b)
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

// decodeCommand decodes a command, except for its verb, note and reply. actor is the actor of
// the command before it: if both are the same, they share the string.
func decodeCommand(b []byte, actor string) (r CommandRef, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case commandID:
			return commitcodec.CopyID(&r.ID, f.Bytes(b))
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

// decodeOther decodes an event that is about no object, and reports whether it is one.
func (c *Decoded) decodeOther(e []byte) (other bool, err error) {
	err = wire.Fields(e, func(f wire.Field) error {
		switch f.Number {
		case eventSession:
			other = true
			s, err := decodeSession(f.Bytes(e))
			c.Sessions = append(c.Sessions, s)
			return err
		case eventRealm:
			other = true
			r, err := commitcodec.ReadRealm(f.Bytes(e))
			c.Realm = append(c.Realm, r)
			return err
		case eventBrake:
			other = true
			return c.decodeBrake(f.Bytes(e))
		case eventReleased:
			other = true
			return c.decodeReleased(f.Bytes(e))
		case eventNotice:
			other = true
			return c.decodeNotice(f.Bytes(e))
		}
		return nil
	})
	return other, err
}

func (c *Decoded) decodeBrake(b []byte) error {
	resource, k := "", lifecycle.Brake{}
	err := wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case brakeResource:
			resource = string(f.Bytes(b))
		case brakeSince:
			k.Since = lifecycle.Time(f.Value)
		case brakeBase:
			k.Base = f.Value
		case brakeCounted:
			k.Counted = f.Value
		case brakeTripped:
			k.Tripped = lifecycle.Time(f.Value)
		}
		return nil
	})
	if c.Brakes == nil {
		c.Brakes = map[string]lifecycle.Brake{}
	}
	c.Brakes[resource] = k
	return err
}

func (c *Decoded) decodeReleased(b []byte) error {
	return wire.Fields(b, func(f wire.Field) (err error) {
		if f.Number == releasedUIDs {
			c.Released, err = uid.Unpack(c.Released, f.Bytes(b))
		}
		return err
	})
}

func (c *Decoded) decodeNotice(b []byte) error {
	var n Noticed
	err := wire.Fields(b, func(f wire.Field) (err error) {
		switch f.Number {
		case noticeUIDs:
			n.Objects, err = uid.Unpack(nil, f.Bytes(b))
		case noticePolicy:
			var rest []byte
			if n.Policy, rest, err = uid.CutBytes(f.Bytes(b)); len(rest) > 0 {
				err = uid.ErrMalformed
			}
		case noticeGeneration:
			n.Generation = int64(f.Value)
		case noticeGiven:
			n.Given = lifecycle.Time(f.Value)
		case noticeEnds:
			n.Ends = lifecycle.Time(f.Value)
		case noticeAnswer:
			n.Answer, err = decodeAnswer(f.Bytes(b))
		}
		return err
	})
	c.Notices = append(c.Notices, n)
	return err
}

func decodeAnswer(b []byte) (a lifecycle.NoticeAnswer, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case answerActor:
			a.Actor = string(f.Bytes(b))
		case answerReason:
			a.Reason = string(f.Bytes(b))
		case answerUntil:
			a.Until = lifecycle.Time(f.Value)
		}
		return nil
	})
	return a, err
}

func decodeSession(b []byte) (s Session, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case sessionID:
			s.ID = string(f.Bytes(b))
		case sessionClosed:
			s.Closed = f.Value != 0
		}
		return nil
	})
	return s, err
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

// Verb returns the verb of the i-th command.
func (c *Decoded) Verb(i int) (verb string, err error) {
	b := c.commands[i]
	err = wire.Fields(b, func(f wire.Field) error {
		if f.Number == commandVerb {
			verb = string(f.Bytes(b))
		}
		return nil
	})
	return verb, err
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
