package state

import (
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// UnreadableError is the error for a body that Pebble returns intact, by its checksums, and that
// cannot be decoded. Either the state differs from the log, or the log has this body. Damage that
// Pebble notices is ErrDamaged instead.
//
// A Tx or Snapshot whose Body meets one returns an empty body and has this error, unless the
// caller takes it: see TakeUnreadable.
type UnreadableError struct {
	Node *lifecycle.Node // of the object; nil if it has none
	Err  error
}

func (e *UnreadableError) Error() string {
	if e.Node == nil {
		return fmt.Sprintf("state: a body without an object cannot be decoded: %v", e.Err)
	}
	return fmt.Sprintf("state: the body of %s %s/%s with uid %s cannot be decoded: %v", e.Node.Kind, e.Node.Namespace, e.Node.Name, e.Node.UID, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Refusal returns the error for a request that needs the body.
func (e *UnreadableError) Refusal(kinds *lifecycle.Kinds) *lifecycle.Error {
	if e.Node != nil {
		if k := kinds.OfNode(e.Node); k != nil {
			return lifecycle.ErrUnreadable(lifecycle.Key{Kind: k, Namespace: e.Node.Namespace, Name: e.Node.Name}, e.Node, e.Err)
		}
	}
	return &lifecycle.Error{Reason: api.ErrInternalError, Message: e.Error()}
}
