package state

import (
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Tx collects the effects of commits in memory: a lifecycle.View of the state
// with what the commits have changed so far on top. Events are applied one by
// one, so that each command of a commit sees those before it. A commit ends
// with EndCommit; any number of them are written by Flush, or dropped by
// letting the Tx go. A Tx is for one goroutine, and a State has one at a time,
// or several, each of which stands on the one before: see Next.
type Tx struct {
	s          *State
	r          reader
	under      *Tx              // what this one stands on, nil for the state alone; only read
	flushed    atomic.Bool      // what it has changed is in the state
	was, kinds *lifecycle.Kinds // before it and now
	options    lifecycle.Options
	checkpoint *coppicev1.Checkpoint

	objects  map[uid.UID]*object
	names    map[nameRef]uid.UID // of objects created here
	looked   map[nameRef]uid.UID // as stored, of names that were looked up; "" if there is none
	owners   map[uid.UID]*owner
	absent   map[uid.UID]*absence
	owed     map[uid.UID]*owedEntry
	sessions map[string]*lifecycle.Time // last command; nil if closed
	touched  map[uid.UID]struct{}       // whose owed row may have changed in this commit

	removals     []removal           // of this commit
	removed      []windowRow[uint64] // of the commits that ended
	removedSince uint64              // the first sequence that the window will hold
	commands     []windowRow[CommandID]
	rows         []rowOp
	prepared     *prepared        // by Prepare
	tables       *pebble.Iterator // over names, without memtables; nil until it is needed

	undo      []func()
	recording bool

	last *owner // the owner looked up last
}

// object is an object as it is stored and as it is now.
type object struct {
	stored, now             *lifecycle.Node // stored: also by a Tx under this one
	storedParent, nowParent bool
	body                    []byte  // if it is not, or may not be, the one in the table
	bodyChanged             bool    // by this Tx
	removal                 removal // by this Tx or one under it, the last
	dirty                   bool
}

type nameRef struct{ resource, namespace, name string }

// owner is a uid that dependents refer to, whether it exists or not, with the
// counters that were read or changed.
type owner struct {
	uid    uid.UID
	all    claim // of any claim
	claims []*claim
	whole  bool                             // claims has all that are not zero
	index  map[lifecycle.Coordinates]*claim // once there are many
	grew   bool                             // in this commit: see grow
	holds  bool                             // since this commit: see OwedChange.Holds
}

// fewClaims is how many claims on an owner are few.
const fewClaims = 8

type claim struct {
	c lifecycle.Coordinates
	counter
	stored bool
	dirty  bool
}

type absence struct {
	revision uint64
	claim    uint64 // claimHash of its coordinates
	ok       bool   // false: not absent, whatever is stored
	dirty    bool
}

type owedEntry struct {
	row    OwedRow
	ok     bool
	stored bool
	dirty  bool
	holds  bool // see OwedChange.Holds

	dependents bool // see OwedChange.Dependents
}

type rowOp struct {
	key, value []byte // nil value: delete
}

var _ lifecycle.View = (*Tx)(nil)

// Begin starts a Tx. The one before must have been flushed or dropped.
func (s *State) Begin() *Tx {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tx := newTx(reader{db: s.db, removed: s.removed}, s.kinds, s.options, s.checkpoint)
	tx.s = s
	return tx
}

// Next starts a Tx on top of tx, of which all commits have ended. tx may be
// flushed meanwhile, by another goroutine, and has to be before the new one is;
// if tx is dropped, the new one must be.
func (tx *Tx) Next() *Tx {
	for t := tx; t.under != nil; t = t.under {
		if t.under.flushed.Load() {
			t.under = nil // nobody needs it any more, nor those under it
			break
		}
	}
	next := newTx(reader{db: tx.s.db, removed: tx.s.removed}, tx.kinds, tx.options, tx.checkpoint)
	next.s, next.under, next.removedSince = tx.s, tx, tx.removedSince
	return next
}

func newTx(r reader, kinds *lifecycle.Kinds, options lifecycle.Options, at *coppicev1.Checkpoint) *Tx {
	return &Tx{
		r:          r,
		was:        kinds,
		kinds:      kinds,
		options:    options,
		checkpoint: proto.Clone(at).(*coppicev1.Checkpoint),
		objects:    map[uid.UID]*object{},
		names:      map[nameRef]uid.UID{},
		looked:     map[nameRef]uid.UID{},
		owners:     map[uid.UID]*owner{},
		absent:     map[uid.UID]*absence{},
		owed:       map[uid.UID]*owedEntry{},
		sessions:   map[string]*lifecycle.Time{},
		touched:    map[uid.UID]struct{}{},
	}
}

// Begin starts a Tx on the snapshot, to find out what commits would do. It ends
// with the snapshot and must be dropped: nothing of it can be written.
func (s *Snapshot) Begin() *Tx {
	return newTx(reader{db: s.snap, removed: s.r.removed}, s.kinds, s.options, s.checkpoint)
}

// Stored is the state without what the Tx has changed.
func (tx *Tx) Stored() *Snapshot { return tx.s.Snapshot() }

// Err is the first failure of a read. After it the Tx must be dropped.
func (tx *Tx) Err() error { return tx.r.failure }

// Savepoint begins recording changes, and returns how to undo those made
// since. Either Rollback or Release must follow before the next Savepoint.
func (tx *Tx) Savepoint() {
	tx.undo, tx.recording = tx.undo[:0], true
}

// Rollback undoes what was applied since the Savepoint.
func (tx *Tx) Rollback() {
	tx.recording = false
	for _, f := range slices.Backward(tx.undo) {
		f()
	}
	clear(tx.undo)
	tx.undo = tx.undo[:0]
}

// Release keeps what was applied since the Savepoint.
func (tx *Tx) Release() {
	tx.recording = false
	clear(tx.undo)
	tx.undo = tx.undo[:0]
}

func (tx *Tx) onRollback(f func()) {
	if tx.recording {
		tx.undo = append(tx.undo, f)
	}
}

// object returns the entry of an object, which is read if need be.
func (tx *Tx) object(u uid.UID) *object {
	o, ok := tx.objects[u]
	if !ok {
		o = &object{}
		if !tx.inherit(u, o) {
			o.stored, o.storedParent = tx.r.node(u)
			o.now, o.nowParent = o.stored, o.storedParent
		}
		tx.objects[u] = o
	}
	return o
}

// inherit sets the entry of an object from that of a Tx under this one, if one
// has it.
func (tx *Tx) inherit(u uid.UID, o *object) bool {
	was := tx.underObject(u)
	if was != nil {
		*o = object{
			stored: was.now, now: was.now, storedParent: was.nowParent, nowParent: was.nowParent,
			body: was.body, removal: was.removal,
		}
	}
	return was != nil
}

// underObject is the entry of an object that a Tx under this one has, the
// nearest; nil if none has.
func (tx *Tx) underObject(u uid.UID) *object {
	for t := tx.under; t != nil; t = t.under {
		if o := t.objects[u]; o != nil {
			return o
		}
	}
	return nil
}

// Prefetch reads many nodes at once.
func (tx *Tx) Prefetch(uids []uid.UID) {
	missing := make([]uid.UID, 0, len(uids))
	for _, u := range uids {
		if _, ok := tx.objects[u]; ok {
			continue
		}
		if tx.underObject(u) != nil {
			tx.object(u)
			continue
		}
		missing = append(missing, u)
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	room := make([]object, len(missing))
	if len(tx.objects) == 0 {
		tx.objects = make(map[uid.UID]*object, len(missing)+8)
	}
	var parents []uid.UID
	visit := func(u uid.UID, n *lifecycle.Node, parent bool) {
		o := &room[0]
		room = room[1:]
		*o = object{stored: n, now: n, storedParent: parent, nowParent: parent}
		tx.objects[u] = o
		if parent {
			parents = append(parents, u)
		}
	}
	if tx.s != nil {
		missing = tx.s.recent.find(missing, func(u uid.UID, c cached) { visit(u, c.node, c.parent) })
	}
	tx.r.prefetch(missing, visit)
	if len(parents) > 1 {
		slices.Sort(parents)
		tx.prefetchOwners(parents)
	}
}

// PrefetchOwners reads what changes of the owners of objects when these go, which
// have been read themselves.
func (tx *Tx) PrefetchOwners(uids []uid.UID) {
	owners := ownersOf(uids, func(u uid.UID) *lifecycle.Node {
		if o := tx.objects[u]; o != nil {
			return o.now
		}
		return nil
	})
	if len(owners) < 2 {
		return
	}
	tx.Prefetch(owners)
	var gone, missing []uid.UID
	for _, u := range owners {
		o := tx.objects[u]
		if o.stored == nil && tx.absent[u] == nil && tx.underAbsence(u) == nil {
			gone = append(gone, u)
		}
		if (o.stored == nil || o.storedParent) && tx.owners[u] == nil && !tx.underOwns(u) {
			missing = append(missing, u)
		}
	}
	if len(missing) > 0 {
		tx.prefetchOwners(missing)
	}
	if len(gone) > 0 {
		tx.r.prefetchAbsent(gone, func(u uid.UID, revision, claim uint64, ok bool) {
			tx.absent[u] = &absence{revision: revision, claim: claim, ok: ok}
		})
	}
}

// ownersOf are the owners of objects, each once and sorted. node tells the node of
// an object, nil if it is not known.
func ownersOf(uids []uid.UID, node func(uid.UID) *lifecycle.Node) (owners []uid.UID) {
	for _, u := range uids {
		n := node(u)
		if n == nil {
			continue
		}
		for i := range n.Owners {
			// Dependents of the same owner often follow one another.
			if o := n.Owners[i].UID; len(owners) == 0 || owners[len(owners)-1] != o {
				owners = append(owners, o)
			}
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// prefetchOwners reads the counters on uids, and what is owed because of them.
// The uids are sorted.
func (tx *Tx) prefetchOwners(sorted []uid.UID) {
	tx.r.prefetchOwners(sorted, func(w *owner) {
		if tx.owners[w.uid] == nil && !tx.underOwns(w.uid) {
			tx.owners[w.uid] = w
		}
	})
	tx.r.prefetchRows("owed", tableOwed, sorted, 1, func(u uid.UID, rows []stored, _ bool) {
		if tx.owed[u] != nil || tx.underOwed(u) != nil {
			return
		}
		e := &owedEntry{}
		for _, row := range rows {
			var err error
			if e.row, err = decodeOwed(row.value); err != nil {
				tx.r.fail("owed", err)
			}
			e.ok, e.stored = true, true
		}
		tx.owed[u] = e
	})
}

// PrefetchNames reads which objects have names, and their nodes, many at once.
func (tx *Tx) PrefetchNames(kind *lifecycle.Kind, namespace string, names []string) {
	missing := make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := tx.looked[nameRef{kind.Resource(), namespace, name}]; !ok {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	var found []uid.UID
	for _, name := range missing {
		u := tx.storedName(kind.Resource(), namespace, name)
		tx.looked[nameRef{kind.Resource(), namespace, name}] = u
		if u != "" {
			found = append(found, u)
		}
	}
	tx.Prefetch(found)
}
