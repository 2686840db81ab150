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
	names    map[nameRef]uid.UID // who has a name, or had it last: created here, or looked up; "" for nobody
	owners   map[uid.UID]*owner
	absent   map[uid.UID]*absence
	owed     map[uid.UID]*owedEntry
	sessions map[string]*lifecycle.Time // last command; nil if closed
	touched  map[uid.UID]struct{}       // whose owed row may have changed in this commit

	removals     []removal           // of this commit
	removing     []*object           // whose removals these are, as far as there are entries
	removed      []windowRow[uint64] // of the commits that ended
	removedSince uint64              // the first sequence that the window will hold
	commands     []commandRow        // of the commits that ended
	began        lifecycle.Time      // time of the last commit before this Tx; 0 for none
	rows         []rowOp
	placed       []placed         // where the commits that ended are
	born         uid.UID          // the first, by uid, of the objects created here; "" if there is none
	bornUnder    uid.UID          // of those created by the Tx under this one
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
	refinalized             bool    // this commit changed its finalizers: see endTouch
	behind                  uid.UID // see cached
	generation              uint64  // see cached
}

type nameRef struct{ resource, namespace, name string }

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

// Begin starts a Tx. The one before must have been flushed or dropped. What the
// one that was flushed last has looked up need not be looked up again: commands
// that follow one another are often about the same kind, namespace and owner.
func (s *State) Begin() *Tx {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest != nil {
		return s.newest.Next()
	}
	tx := newTx(reader{db: s.db, removed: s.removed}, s.kinds, s.options, s.checkpoint, 0)
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
	next := newTx(reader{db: tx.s.db, removed: tx.s.removed}, tx.kinds, tx.options, tx.checkpoint, len(tx.names))
	next.s, next.under, next.removedSince = tx.s, tx, tx.removedSince
	for t := tx; t != nil; t = t.under {
		next.bornUnder = first(next.bornUnder, t.born)
	}
	return next
}

// newTx returns a Tx with room for so many objects and names: to grow it costs more.
func newTx(r reader, kinds *lifecycle.Kinds, options lifecycle.Options, at *coppicev1.Checkpoint, room int) *Tx {
	return &Tx{
		r:          r,
		was:        kinds,
		kinds:      kinds,
		options:    options,
		checkpoint: proto.Clone(at).(*coppicev1.Checkpoint),
		began:      lifecycle.Time(at.GetTime()),
		objects:    make(map[uid.UID]*object, room),
		names:      make(map[nameRef]uid.UID, room),
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
	return newTx(reader{db: s.snap, removed: s.r.removed}, s.kinds, s.options, s.checkpoint, 0)
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
	was, flushed := tx.underObject(u)
	if was == nil {
		return false
	}
	*o = object{
		stored: was.now, now: was.now, storedParent: was.nowParent, nowParent: was.nowParent,
		behind: was.behind, generation: was.generation,
	}
	if !flushed { // otherwise they are found where they are stored
		o.body, o.removal = was.body, was.removal
	}
	return true
}

// underObject is the entry of an object that a Tx under this one has, the
// nearest, and whether that Tx was flushed; nil if none has.
func (tx *Tx) underObject(u uid.UID) (o *object, flushed bool) {
	for t := tx.under; t != nil; t = t.under {
		if o := t.objects[u]; o != nil {
			return o, t.flushed.Load()
		}
	}
	return nil, false
}

// mostKept is how many entries a Tx has at the most that is kept once it is
// flushed, and mostKeptBytes how much it has written: more than one command takes,
// and less than counts.
const (
	mostKept      = 1 << 10
	mostKeptBytes = 64 << 10
)

// worthKeeping reports whether a Tx that has written so many bytes can be kept.
func (tx *Tx) worthKeeping(bytes int) bool {
	entries := len(tx.objects) + len(tx.names) + len(tx.owners) + len(tx.absent) + len(tx.owed)
	if bytes > mostKeptBytes || entries > mostKept {
		return false
	}
	for _, w := range tx.owners {
		entries += len(w.claims)
	}
	return entries <= mostKept
}
