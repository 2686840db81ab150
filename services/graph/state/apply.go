package state

import (
	"encoding/binary"
	"fmt"
	"maps"
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

// Record completes a change that was just applied, for watches. before is the body of the
// object before the event.
func (c *Change) Record(resource string, before *coppicev1.Body) {
	c.Resource, c.BeforeBody = resource, before
	if c.AfterBody = c.Event.Object.Body; c.AfterBody == nil {
		c.AfterBody = before
	}
}

// Apply applies one event, with its revision. body is the encoding of the
// event's body, if it has one. It fails if the event does not fit the state,
// which then is not a fold of its log.
func (tx *Tx) Apply(e *lifecycle.Event, revision uint64, body []byte) (Change, error) {
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
	if o.nowParent || before != nil && before.Terminating() || after != nil && after.Terminating() {
		tx.touch(e.UID)
		if before == nil || after == nil || !slices.Equal(before.Finalizers, after.Finalizers) {
			o.refinalized = true // undone with the rest of the entry
		}
	}
	if o.nowParent && stance(before) != stance(after) {
		w := tx.owner(e.UID)
		tx.grow(w)
		if after != nil && !after.Waiting() && !w.keeps && (before == nil || before.Waiting()) {
			tx.onRollback(func() { w.keeps = false })
			w.keeps = true
		}
	}
	return Change{Event: e, Revision: revision, Before: before, After: after}, nil
}

// Pass skips an event of an object that replay elision leaves out, because nothing is left
// of the object at Commit.ElidedUntil. It must not be called between Savepoint and Release.
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
	tx.born = first(tx.born, n.UID)
	// Only an imported object can have dependents before it exists: other uids are
	// generated in the commit that creates the object.
	o.nowParent = n.ImportTime != 0 && tx.owner(n.UID).all.All > 0
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
	switch {
	case lifecycle.IsRegistration(n):
		tx.rule(tx.kinds.Without(n.UID), tx.settings)
	case lifecycle.IsSettings(n):
		tx.rule(tx.kinds, lifecycle.DefaultSettings())
	}
}

// govern applies the new body of an object that configures the realm.
func (tx *Tx) govern(n *lifecycle.Node, body *coppicev1.Body) (err error) {
	kinds, settings := tx.kinds, tx.settings
	if lifecycle.IsRegistration(n) {
		kinds, err = kinds.With(n, body)
	} else {
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

// recount updates edges and counters after the references of an object have changed.
func (tx *Tx) recount(before, after *lifecycle.Node) {
	if before != nil && after != nil && before.Terminating() == after.Terminating() && sameOwners(before.Owners, after.Owners) {
		return
	}
	eachReference(before, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, n lifecycle.Counts) {
		w := tx.owner(r.UID)
		tx.change(w, &w.all, func(k *counter) { k.Counts = k.Minus(n) })
		tx.change(w, tx.claim(w, c), func(k *counter) { k.Counts = k.Minus(n) })
	})
	eachReference(after, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, n lifecycle.Counts) {
		if o := tx.object(r.UID); o.now != nil && !o.nowParent {
			if tx.recording {
				tx.onRollback(func() { o.nowParent = false })
			}
			o.nowParent, o.dirty = true, true
		}
		w := tx.owner(r.UID)
		add := func(k *counter) {
			if k.All == 0 || after.ImportTime < k.firstImport {
				k.firstImport = after.ImportTime
			}
			k.Counts = k.Plus(n)
			k.lastImport = max(k.lastImport, after.ImportTime)
		}
		tx.change(w, &w.all, add)
		tx.change(w, tx.claim(w, c), add)
		if before == nil || !sameOwners(before.Owners, after.Owners) {
			tx.grow(w) // a dependent that is terminating now was there before
		}
	})
}

// grow notes that an owner has dependents with pending work that were not there when its
// work row was written.
func (tx *Tx) grow(w *owner) {
	if !w.grew {
		tx.onRollback(func() { w.grew = false })
	}
	w.grew = true
}

// stance returns which dependents of an object have pending work: see lifecycle.PendingOf.
func stance(n *lifecycle.Node) string {
	switch {
	case n == nil:
		return "absent"
	case n.Waiting():
		return "waiting"
	case n.Orphaning():
		return "orphaning"
	}
	return "there"
}

func sameOwners(a, b []lifecycle.OwnerReference) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func (tx *Tx) change(w *owner, e *claim, f func(*counter)) {
	if tx.recording {
		was := *e
		tx.onRollback(func() { *e = was })
	}
	f(&e.counter)
	if e.All == 0 {
		e.counter = counter{}
	}
	e.dirty = true
	tx.touch(w.uid)
}

// eachReference visits the distinct references of an object: those that agree
// in uid and coordinates count once, and block if one of them does.
func eachReference(n *lifecycle.Node, visit func(*lifecycle.OwnerReference, lifecycle.Coordinates, lifecycle.Counts)) {
	if n == nil {
		return
	}
	lifecycle.EachOwner(n.Owners, func(r *lifecycle.OwnerReference, blocking bool) {
		counts := lifecycle.Counts{All: 1}
		if n.Terminating() {
			counts.Terminating = 1
		}
		if blocking {
			counts.Blocking = 1
		}
		visit(r, n.Claim(r), counts)
	})
}

// TouchSession records that an import session has got a command, or was closed.
func (tx *Tx) TouchSession(id string, now lifecycle.Time, closed bool) {
	if tx.recording {
		was, had := tx.sessions[id]
		imports := tx.imports
		tx.onRollback(func() {
			tx.imports = imports
			if had {
				tx.sessions[id] = was
			} else {
				delete(tx.sessions, id)
			}
		})
	}
	tx.imports = true
	if tx.sessions[id] = &now; closed {
		tx.sessions[id] = nil
	}
}

// endSessions deletes the import sessions that have ended without being closed. It is
// called in commits of import sessions, so that the number of rows is at most the number of
// sessions that were open at the same time. Its effect depends on the log alone.
func (tx *Tx) endSessions(now lifecycle.Time) {
	if !tx.imports {
		return
	}
	tx.imports = false
	idle := tx.Settings().SessionIdle
	ended := func(last lifecycle.Time) bool { return last.Add(idle) <= now }
	known := map[string]bool{} // from the nearest of this Tx and those under it
	for t := tx; t != nil; t = t.under {
		for id, last := range t.sessions {
			if !known[id] && last != nil && ended(*last) {
				tx.sessions[id] = nil
			}
			known[id] = true
		}
	}
	tx.r.scan("sessions", []byte{tableSession}, nil, func(key, value []byte) bool {
		var last uint64
		if err := decodeUvarints(value, &last); err != nil {
			tx.r.fail("sessions", err)
			return false
		}
		if id := string(key[1:]); !known[id] && ended(lifecycle.Time(last)) {
			tx.sessions[id] = nil
		}
		return true
	})
}

// Commit has the properties of a commit that EndCommit needs, in addition to its events.
type Commit struct {
	Sequence uint64
	// Position is the position of the commit in the stream, if it is known: see Tx.Place.
	// It equals Sequence unless messages were skipped.
	Position uint64
	Epoch    uint64
	Time     lifecycle.Time
	Checksum uint64
	RealmID  []byte
	// Commands are those with an id. EndCommit keeps and changes the slice.
	Commands []Command
	// Key and KeyFingerprint name the key of the next commit.
	Key            uint32
	KeyFingerprint []byte
	// StreamCreated is when the stream of the log was created, Unix nanoseconds.
	StreamCreated int64
	// ElidedUntil is the sequence of the commit up to which replay elision leaves out
	// objects: see Pass. Until that commit is applied the state is not a fold of the
	// log, and Open refuses it.
	ElidedUntil uint64
}

// EndCommit ends a commit. It computes the pending work of all uids that the commit
// touched, and moves the checkpoint.
func (tx *Tx) EndCommit(c Commit) {
	for _, u := range slices.Sorted(maps.Keys(tx.touched)) {
		tx.endTouch(u, c.Time)
	}
	clear(tx.touched)
	tx.endSessions(c.Time)

	if len(tx.removals) > 0 {
		tx.put(numberKey(tableRemoved, c.Sequence), appendRemovals(nil, tx.removals))
		row := windowRow[uint64]{sequence: c.Sequence, keys: make([]uint64, len(tx.removals))}
		for i := range tx.removals {
			row.keys[i] = uidHash(tx.removals[i].uid)
		}
		tx.removed = append(tx.removed, row)
		for _, o := range tx.removing {
			o.removal.sequence = c.Sequence
		}
		tx.removals, tx.removing = tx.removals[:0], tx.removing[:0]
		var pending [][]windowRow[uint64]
		for t := tx; t != nil; t = t.under {
			pending = append(pending, t.removed)
		}
		slices.Reverse(pending)
		_, tx.removedSince = tx.s.removed.surplus(pending...)
	}
	tx.endCommands(c)
	cp := tx.checkpoint
	const sparse = 1024 // revisions between two entries of the index
	if cp.Revision >= cp.IndexedRevision+sparse || cp.IndexedRevision == 0 && cp.Revision > 0 {
		cp.IndexedRevision = cp.Revision
		// Both entries can be used to seek: the revisions of this commit are not before its
		// sequence, and those of the next commit are not before the sequence after it.
		tx.put(numberKey(tableIndex, cp.Revision+1), binary.AppendUvarint(nil, c.Sequence+1))
	}
	cp.Sequence, cp.Epoch, cp.Time, cp.Checksum = c.Sequence, c.Epoch, int64(c.Time), c.Checksum
	cp.RealmId, cp.StreamCreated = c.RealmID, c.StreamCreated
	cp.Key, cp.KeyFingerprint = c.Key, c.KeyFingerprint
	if c.Position != 0 {
		tx.Place(c.Position)
	}
	if cp.ElidedUntil = c.ElidedUntil; c.Sequence >= c.ElidedUntil {
		cp.ElidedUntil = 0
	}
}

// endTouch updates the rows of absent owners and the work rows.
func (tx *Tx) endTouch(u uid.UID, now lifecycle.Time) {
	o := tx.object(u)
	w := tx.owner(u)
	a := tx.absence(u)
	switch {
	case a.ok && (o.now != nil || w.all.All == 0):
		*a = absence{dirty: true}
	case !a.ok && o.now == nil && w.all.All > 0:
		// The record of a removal is kept while dependents refer to the owner.
		if e := tx.removal(u); e.revision != 0 {
			*a = absence{revision: e.revision, claim: e.claim, ok: true, dirty: true}
		}
	}
	e, known := tx.pending[u]
	if !known {
		e = &workEntry{}
		if was := tx.underPending(u); was != nil {
			e.row, e.ok = was.row, was.ok
		} else {
			e.row, e.ok = tx.r.pending(u)
		}
		e.stored = e.ok
		tx.pending[u] = e
	}
	grew, keeps, refinalized := w.grew, w.keeps, o.refinalized
	w.grew, w.keeps, o.refinalized = false, false, false
	e.keeps = e.keeps || keeps
	pending := lifecycle.PendingOf(tx, u, o.now)
	if pending == (lifecycle.Pending{}) {
		if e.ok {
			*e = workEntry{stored: e.stored, dirty: true, keeps: e.keeps, dependents: e.dependents}
		}
		return
	}
	if e.ok && e.row.Pending == pending && (!grew || !pending.Evaluate && !pending.Orphan) {
		// The row is unchanged, but its message may have been handled already: the
		// finalizer completed and was set again, or another finalizer or a dependent
		// blocked it for a while. Also, one of several external finalizers may be done,
		// so that its call is obsolete.
		if pending.Finish != "" && (refinalized || grew) || pending.Finalize && refinalized {
			e.dirty = true
		}
		return
	}
	same := e.ok && !grew && e.row.Evaluate == pending.Evaluate && e.row.EvaluateAt == pending.EvaluateAt && e.row.Orphan == pending.Orphan
	since := now
	if e.ok {
		since = e.row.Since
	}
	*e = workEntry{row: WorkRow{Pending: pending, Since: since, Revision: tx.checkpoint.Revision}, ok: true, stored: e.stored, dirty: true, keeps: e.keeps, dependents: e.dependents || !same}
}

func (tx *Tx) underPending(u uid.UID) *workEntry {
	for t := tx.under; t != nil; t = t.under {
		if e := t.pending[u]; e != nil {
			return e
		}
	}
	return nil
}

func (tx *Tx) put(key, value []byte) { tx.rows = append(tx.rows, rowOp{key, value}) }

// Checkpoint returns the position in the log up to which the Tx has applied it.
func (tx *Tx) Checkpoint() *coppicev1.Checkpoint { return tx.checkpoint }

// Encode returns the encoding of a body, as in events and in the state.
func Encode(b *coppicev1.Body) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	return objectcodec.MarshalBody(b)
}
