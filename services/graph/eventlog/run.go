package eventlog

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

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
