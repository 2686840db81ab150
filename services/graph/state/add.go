package state

import (
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Change is an event and its effect, for watches and warnings.
type Change struct {
	Event    *lifecycle.Event
	Revision uint64
	// Before is nil for a creation, After for a removal.
	Before, After *lifecycle.Node
	// Resource, BeforeBody and AfterBody are set by Record only.
	Resource              string
	BeforeBody, AfterBody *coppicev1.Body
}

// Record adds to a change what watches need. before is the body of the
// object before the event.
func (c *Change) Record(resource string, before *coppicev1.Body) {
	c.Resource, c.BeforeBody = resource, before
	if c.AfterBody = c.Event.Object.Body; c.AfterBody == nil {
		c.AfterBody = before
	}
}

// Add adds one event, with its revision, to the open commit. body is the encoding of the
// event's body, if it has one. Add fails if the event does not fit the state, which then
// is not a fold of its log.
func (tx *Tx) Add(e *lifecycle.Event, revision uint64, body []byte) (Change, error) {
	o := tx.subject(e)
	before := o.now
	if (before == nil) != (e.Type == lifecycle.ObjectCreated) {
		return Change{}, fmt.Errorf("state: revision %d: event %d of %s does not fit: the object is there: %t", revision, e.Type, e.UID, before != nil)
	}
	after := e.After(before, revision)
	if tx.recording {
		was, at := *o, tx.checkpoint.Revision
		tx.onRollback(func() { *o, tx.checkpoint.Revision = was, at })
	}
	tx.checkpoint.Revision = revision
	o.now, o.dirty = after, true
	switch {
	case before == nil:
		tx.created(o, after)
	case after == nil:
		tx.deleted(o, before, revision)
	}
	if body != nil {
		o.body, o.bodyChanged = body, true
	}
	tx.recount(before, after)
	if after != nil && e.Object.Body != nil && lifecycle.Governs(after) {
		if err := tx.govern(after, e.Object.Body); err != nil {
			return Change{}, err
		}
	}
	// The pending work of an object depends on whether it exists, whether it is
	// terminating, and on its finalizers. An object without dependents that is not
	// terminating has no pending work.
	if o.nowKin.parent || before != nil && before.Terminating() || after != nil && after.Terminating() {
		tx.touch(e.UID)
		if before == nil || after == nil || !slices.Equal(before.Finalizers, after.Finalizers) {
			o.refinalized = true // undone with the rest of the entry
		}
	}
	if before != nil && before.Protected() && (after == nil || !after.Protected()) {
		tx.unprotected(before)
	}
	tx.endRelease(before, after)
	tx.endNotices(before, after)
	if o.nowKin.parent && stance(before) != stance(after) {
		w := tx.owner(e.UID)
		tx.grow(w)
		if after != nil && !after.Waiting() && !w.keeps && (before == nil || before.Waiting()) {
			tx.onRollback(func() { w.keeps = false })
			w.keeps = true
		}
	}
	return Change{Event: e, Revision: revision, Before: before, After: after}, nil
}

// unprotected has the namespace or the kind of an object drained again, if it is being deleted:
// until now the object stayed (B2.3).
func (tx *Tx) unprotected(n *lifecycle.Node) {
	for _, u := range lifecycle.Containers(tx, n) {
		if o := tx.object(u); o.now != nil && o.now.Draining() {
			tx.touch(u)
			tx.grow(tx.owner(u))
		}
	}
}

// Pass moves the Tx to a revision without adding events: the event of an object that replay
// elision leaves out, because nothing is left of the object at Commit.ElidedUntil, or events
// that the log has lost. It must not be called between Savepoint and Release.
func (tx *Tx) Pass(revision uint64) { tx.checkpoint.Revision = revision }

// PassRemoval is Pass for the removal of the object. The removal itself is recorded as any
// other. identity is its Identity.
func (tx *Tx) PassRemoval(u uid.UID, identity, revision uint64) {
	tx.Pass(revision)
	tx.removals = append(tx.removals, removal{uid: u, claim: identity, revision: revision})
}

// Identity is a hash of the coordinates of an object, which the record of its removal has.
func Identity(n *lifecycle.Node) uint64 { return claimHash(n.Coordinates()) }

// subject returns the entry of the object of an event. For a creation the state is not
// read unless the object is imported: other uids are new.
func (tx *Tx) subject(e *lifecycle.Event) *object {
	if e.Type != lifecycle.ObjectCreated || e.Object.ImportTime != 0 {
		return tx.object(e.UID)
	}
	o, ok := tx.objects[e.UID]
	if !ok {
		o = &object{}
		tx.objects[e.UID] = o
	}
	return o
}

func (tx *Tx) touch(u uid.UID) {
	if _, ok := tx.touched[u]; !ok {
		tx.touched[u] = struct{}{}
		tx.onRollback(func() { delete(tx.touched, u) })
	}
}

func (tx *Tx) created(o *object, n *lifecycle.Node) {
	ref := nameRef{tx.kinds.OfNode(n).Resource(), n.Namespace, n.Name}
	tx.countObjects(ref.resource, 1)
	if tx.recording {
		was, had := tx.names[ref]
		tx.onRollback(func() {
			if had {
				tx.names[ref] = was
			} else {
				delete(tx.names, ref)
			}
		})
	}
	tx.names[ref] = n.UID
	// Only an imported object can have dependents before it exists: other uids are
	// generated in the commit that creates the object.
	o.nowKin.parent = n.ImportTime != 0 && tx.owner(n.UID).all.All > 0
	tx.createdUsed(o, n)
	o.removal = removal{}
}

func (tx *Tx) deleted(o *object, n *lifecycle.Node, revision uint64) {
	if tx.recording {
		length, objects := len(tx.removals), len(tx.removing)
		tx.onRollback(func() { tx.removals, tx.removing = tx.removals[:length], tx.removing[:objects] })
	}
	o.removal = removal{uid: n.UID, claim: Identity(n), revision: revision}
	tx.removals = append(tx.removals, o.removal)
	tx.removing = append(tx.removing, o)
	o.body, o.bodyChanged = nil, false
	tx.countObjects(tx.kinds.OfNode(n).Resource(), -1)
	switch {
	case lifecycle.IsRegistration(n):
		if k := tx.kinds.RegisteredBy(n); k != nil && tx.brakeRow(k.Resource()).Brake != (lifecycle.Brake{}) {
			tx.SetBrake(k.Resource(), lifecycle.Brake{})
		}
		tx.rule(tx.kinds.Without(n.UID), tx.settings)
	case lifecycle.IsPolicy(n):
		tx.rule(tx.kinds.WithoutPolicy(n.UID), tx.settings)
	case lifecycle.IsSettings(n):
		tx.rule(tx.kinds, lifecycle.DefaultSettings())
	}
}

// govern sets the kinds or the settings from the new body of an object that configures the realm.
func (tx *Tx) govern(n *lifecycle.Node, body *coppicev1.Body) (err error) {
	kinds, settings := tx.kinds, tx.settings
	switch {
	case lifecycle.IsRegistration(n):
		kinds, err = kinds.With(n, body)
	case lifecycle.IsPolicy(n):
		kinds, err = kinds.WithPolicy(n, body)
	default:
		settings, err = lifecycle.SettingsOf(body)
	}
	if err != nil {
		return fmt.Errorf("state: %s: %w", n.Name, err)
	}
	tx.rule(kinds, settings)
	return nil
}

// rule sets the kinds or the settings of the realm.
func (tx *Tx) rule(kinds *lifecycle.Kinds, settings lifecycle.Settings) {
	wasKinds, wasSettings := tx.kinds, tx.settings
	tx.onRollback(func() { tx.kinds, tx.settings = wasKinds, wasSettings })
	tx.kinds, tx.settings = kinds, settings
}

// Encode returns the encoding of a body, as in events and in the state.
func Encode(b *coppicev1.Body) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	return objectcodec.MarshalBody(b)
}
