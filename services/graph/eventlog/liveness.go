package eventlog

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Removals calls visit with the uids of the objects that a commit removes. It decodes
// nothing else.
func Removals(commit []byte, visit func(uid.UID)) error {
	return eachContent(commit, func(event []byte, content wire.Field) error {
		columns := content.Bytes(event)
		if content.Number != eventDeleted {
			return nil
		}
		return wire.Fields(columns, func(objects wire.Field) error {
			if objects.Number != columnObjects {
				return nil
			}
			identities := objects.Bytes(columns)
			return wire.Fields(identities, func(f wire.Field) error {
				if f.Number == idUIDs {
					for u := range uid.All(f.Bytes(identities)) {
						visit(u)
					}
				}
				return nil
			})
		})
	})
}

// NewKeyOf returns the key that a commit changes to, zero if it changes to none. The field
// precedes the commands and events.
func NewKeyOf(commit []byte) (k KeyID, err error) {
	fields := wire.Read(commit)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		switch f.Number {
		case commitNewKey:
			if err := k.decode(f.Bytes(commit)); err != nil {
				return k, fmt.Errorf("%w: key: %w", ErrMalformed, err)
			}
			return k, nil
		case commitCommands, commitEvents:
			return k, nil
		}
	}
	if err := fields.Err(); err != nil {
		return k, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return k, nil
}

// References calls visit for the events of a commit that change owner references:
// creations, updates, and removals of references. Only Type, UID, Object.Node and
// References of the event are set. The event is valid during the call; its strings and
// References stay valid.
func References(commit []byte, visit func(*lifecycle.Event)) error {
	var node lifecycle.Node
	return eachContent(commit, func(event []byte, content wire.Field) error {
		e := lifecycle.Event{}
		switch content.Number {
		case eventCreated:
			e.Type = lifecycle.ObjectCreated
		case eventUpdated:
			e.Type = lifecycle.ObjectUpdated
		case eventOwnersRemoved:
			var r run
			if err := r.decode(event); err != nil {
				return err
			}
			e.Type, e.References = lifecycle.OwnerReferencesRemoved, r.event.References
			for _, u := range r.uids {
				e.UID = u
				visit(&e)
			}
			return nil
		default:
			return nil
		}
		encoded := firstNode(content.Bytes(event))
		if err := nodecodec.DecodeInto(&node, encoded, string(encoded)); err != nil {
			return fmt.Errorf("%w: object: %w", ErrMalformed, err)
		}
		if nodecodec.UID(encoded) != node.UID {
			return fmt.Errorf("%w: object: its uid does not come first", ErrMalformed)
		}
		e.UID, e.Object.Node = node.UID, &node
		visit(&e)
		return nil
	})
}

// eachContent calls visit for the events of a commit, with the event and its content field.
func eachContent(commit []byte, visit func(event []byte, content wire.Field) error) error {
	fields := wire.Read(commit)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		if f.Number != commitEvents {
			continue
		}
		event := f.Bytes(commit)
		if err := eachPart(event, func(part wire.Field) error { return visit(event, part) }); err != nil {
			return err
		}
	}
	if err := fields.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// eachPart calls visit for the fields of an event that may be its content.
func eachPart(event []byte, visit func(wire.Field) error) error {
	parts := wire.Read(event)
	for p, ok := parts.Next(); ok; p, ok = parts.Next() {
		if p.Type != protowire.BytesType {
			continue
		}
		if err := visit(p); err != nil {
			return err
		}
	}
	if err := parts.Err(); err != nil {
		return fmt.Errorf("%w: event: %w", ErrMalformed, err)
	}
	return nil
}
