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

// Tx collects the effects of commits in memory. It implements lifecycle.View: it reads the
// state with these effects. Events are added one by one, so that each command of a
// commit sees the effects of those before it. A commit ends with EndCommit. Apply writes
// all commits that have ended; Drop discards them. A Tx is not safe for concurrent use. A
// State has one Tx at a time, or a sequence of them in which each starts from the one
// before: see Next.
type Tx struct {
	s          *State
	r          reader
	under      *Tx              // the Tx that this one starts from, nil for the state alone; only read
	applied    atomic.Bool      // its effects are in the state
	was, kinds *lifecycle.Kinds // before this Tx and now
	settings   lifecycle.Settings
	realm      lifecycle.Realm
	realmDirty bool // realm was changed by this Tx
	checkpoint *coppicev1.Checkpoint

	objects  map[uid.UID]*object
	names    map[nameRef]uid.UID // the object that has a name or had it last: created here, or looked up; "" for none
	owners   map[uid.UID]*owner
	absent   map[uid.UID]*absence
	pending  map[uid.UID]*workEntry
	sessions map[string]*lifecycle.Time // last command; nil if closed
	imports  bool                       // this commit has a command of an import session
	touched  map[uid.UID]struct{}       // whose work row may have changed in this commit

	removals     []removal           // of this commit
	removing     []*object           // the entries of the removed objects, without those of PassRemoval
	removed      []windowRow[uint64] // of the commits that ended
	removedSince uint64              // the first sequence that the window will hold
	commands     []commandRow        // of the commits that ended
	began        lifecycle.Time      // time of the last commit before this Tx; 0 for none
	rows         []rowOp
	placed       []placed // where the commits that ended are
	births       births
	encoded      *encoded         // by Encode
	tables       *pebble.Iterator // over names, without memtables; nil until it is needed

	undo      []func()
	recording bool

	last   *owner // the owner looked up last
	latest struct {
		uid    uid.UID
		object *object
	} // the entry that object returned last
	anyUse *owner // see uses; nil until it is needed

	// The claims of uses without a uid that this Tx has counted, by the same coordinates
	// without a namespace.
	waiting map[lifecycle.Coordinates][]lifecycle.Coordinates

	kindRows     map[string]*kindRow  // by resource
	lastKind     *kindRow             // the kind looked up last
	brakes       map[string]*brakeRow // by resource
	releasedRows map[uid.UID]*releasedRow
	released     *uint64 // number of rows of released objects; nil until it is needed
	releasedWere uint64  // released before this Tx
	unbraked     bool    // see Unbrake

	noticeRows  map[uid.UID]*noticeRow
	noticed     *uint64 // number of objects with notices; nil until it is needed
	noticedWere uint64  // noticed before this Tx
}

// object is an object as it is stored and as it is now.
type object struct {
	stored, now       *lifecycle.Node // stored: also by a Tx under this one
	storedKin, nowKin kin
	body              []byte  // if it may differ from the one in the table
	bodyChanged       bool    // by this Tx
	removal           removal // the last one by this Tx or one under it
	dirty             bool
	refinalized       bool // its finalizers changed in this commit: see endTouch
	before            neighbour
}

type nameRef struct{ resource, namespace, name string }

type absence struct {
	revision uint64
	claim    uint64 // claimHash of its coordinates
	ok       bool   // false: not absent, whatever is stored
	dirty    bool
}

type workEntry struct {
	row    WorkRow
	ok     bool
	stored bool
	dirty  bool
	keeps  bool // see WorkChange.Keeps

	dependents bool // see WorkChange.Dependents
}

type rowOp struct {
	key, value []byte // of a row to write
}

var _ lifecycle.View = (*Tx)(nil)

// Begin starts a Tx. The previous one must have been applied or dropped. A small Tx that
// was applied serves as a cache for the next: consecutive commands often read the same
// kind, namespace and owner.
func (s *State) Begin() *Tx {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest != nil {
		return s.newest.Next()
	}
	tx := newTx(reader{db: s.db, failures: s.failures, removed: s.removed}, s.kinds, s.settings, s.checkpoint, 0)
	tx.s, tx.realm = s, s.realm
	return tx
}

// Next starts a Tx on top of tx. All commits of tx must have ended. Another goroutine may
// apply tx meanwhile, and must do so before the new Tx is applied. If tx is dropped, the
// new Tx must be dropped too.
func (tx *Tx) Next() *Tx {
	for t := tx; t.under != nil; t = t.under {
		if t.under.applied.Load() {
			t.under = nil // its effects are in the state, and so are those of the ones under it
			break
		}
	}
	next := newTx(reader{db: tx.s.db, failures: tx.s.failures, removed: tx.s.removed}, tx.kinds, tx.settings, tx.checkpoint, len(tx.names))
	next.s, next.under, next.removedSince, next.realm = tx.s, tx, tx.removedSince, tx.realm
	for t := tx; t != nil; t = t.under {
		next.births.under = first(next.births.under, t.births.here)
	}
	return next
}

// newTx returns a Tx whose maps have room for a number of objects and names, so that they
// need not grow.
func newTx(r reader, kinds *lifecycle.Kinds, settings lifecycle.Settings, at *coppicev1.Checkpoint, room int) *Tx {
	return &Tx{
		r:          r,
		was:        kinds,
		kinds:      kinds,
		settings:   settings,
		checkpoint: proto.Clone(at).(*coppicev1.Checkpoint),
		began:      lifecycle.Time(at.GetTime()),
		objects:    make(map[uid.UID]*object, room),
		names:      make(map[nameRef]uid.UID, room),
		owners:     map[uid.UID]*owner{},
		absent:     map[uid.UID]*absence{},
		pending:    map[uid.UID]*workEntry{},
		sessions:   map[string]*lifecycle.Time{},
		touched:    map[uid.UID]struct{}{},

		kindRows: map[string]*kindRow{}, brakes: map[string]*brakeRow{}, releasedRows: map[uid.UID]*releasedRow{},
		noticeRows: map[uid.UID]*noticeRow{},
	}
}

// Begin starts a Tx on the snapshot, to compute the effect of commits without writing it.
// The Tx must be dropped before the snapshot is closed, and cannot be applied.
func (s *Snapshot) Begin() *Tx {
	tx := newTx(reader{db: s.snap, failures: s.r.failures, removed: s.r.removed}, s.kinds, s.settings, s.checkpoint, 0)
	tx.realm = s.realm
	return tx
}

// Stored returns a Snapshot of the State, without the changes of this Tx and of others that are
// not applied. The caller must close it. It must not be called for a Tx of Snapshot.Begin.
func (tx *Tx) Stored() *Snapshot { return tx.s.Snapshot() }

// Err returns the first failure of a read. If it is not nil, the Tx must be dropped.
func (tx *Tx) Err() error { return tx.r.err() }

// TakeUnreadable returns the first body that could not be decoded, nil if there is none, and
// forgets it, so that it is not the failure of the Tx.
func (tx *Tx) TakeUnreadable() *UnreadableError { return tx.r.takeUnreadable() }

// ReadableBody returns the body of an object, nil if it cannot be decoded.
func (tx *Tx) ReadableBody(n *lifecycle.Node) *coppicev1.Body {
	was := tx.TakeUnreadable()
	b := tx.Body(n)
	if tx.TakeUnreadable() != nil {
		b = nil
	}
	tx.r.unreadable = was
	return b
}

// Savepoint begins to record changes, so that Rollback can undo them. Rollback or Release
// must be called before the next Savepoint.
func (tx *Tx) Savepoint() {
	tx.undo, tx.recording = tx.undo[:0], true
}

// Rollback undoes what was added since the Savepoint.
func (tx *Tx) Rollback() {
	tx.recording = false
	for _, f := range slices.Backward(tx.undo) {
		f()
	}
	clear(tx.undo)
	tx.undo = tx.undo[:0]
}

// Release keeps what was added since the Savepoint.
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

// object returns the entry of an object, and reads the object if it has none. Rules ask
// for the same object several times in a row.
func (tx *Tx) object(u uid.UID) *object {
	if tx.latest.object != nil && tx.latest.uid == u {
		return tx.latest.object
	}
	o, ok := tx.objects[u]
	if !ok {
		o = &object{}
		if !tx.inherit(u, o) {
			o.stored, o.storedKin = tx.r.node(u)
			o.now, o.nowKin = o.stored, o.storedKin
		}
		tx.objects[u] = o
	}
	tx.latest.uid, tx.latest.object = u, o
	return o
}

// inherit sets the entry of an object from that of a Tx under this one, if one
// has it.
func (tx *Tx) inherit(u uid.UID, o *object) bool {
	was, applied := tx.underObject(u)
	if was == nil {
		return false
	}
	*o = object{
		stored: was.now, now: was.now, storedKin: was.nowKin, nowKin: was.nowKin,
		before: was.before,
	}
	if !applied { // otherwise they are read from the state
		o.body, o.removal = was.body, was.removal
	}
	return true
}

// underObject returns the entry of an object in the nearest Tx under this one that has
// one, and whether that Tx was applied; nil if none has.
func (tx *Tx) underObject(u uid.UID) (o *object, applied bool) {
	for t := tx.under; t != nil; t = t.under {
		if o := t.objects[u]; o != nil {
			return o, t.applied.Load()
		}
	}
	return nil, false
}

// mostKept is the maximum number of entries, and mostKeptBytes of bytes written, of a Tx
// that is kept as a cache after it was applied. One command is smaller.
const (
	mostKept      = 1 << 10
	mostKeptBytes = 64 << 10
)

// worthKeeping reports whether a Tx that has written so many bytes can be kept.
func (tx *Tx) worthKeeping(bytes int) bool {
	entries := len(tx.objects) + len(tx.names) + len(tx.owners) + len(tx.absent) + len(tx.pending) + len(tx.releasedRows) + len(tx.noticeRows)
	if bytes > mostKeptBytes || entries > mostKept {
		return false
	}
	for _, w := range tx.owners {
		entries += len(w.claims)
	}
	return entries <= mostKept
}
