package state

import (
	"encoding/binary"
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
	s       *State           // nil for a Tx of Snapshot.Begin
	r       reader           // reads what neither this Tx nor those under it have
	tables  *pebble.Iterator // over the names in tables: see storedName; nil until it is needed
	under   *Tx              // the Tx that this one starts from, nil for the state alone; only read
	applied atomic.Bool      // the effects of this Tx are in the state

	head                   // with the effects of this Tx
	was   *lifecycle.Kinds // the kinds before this Tx
	began lifecycle.Time   // time of the last commit before this Tx; 0 for none

	entries
	lookups
	openCommit
	endedCommits
	undoLog

	realmDirty bool     // head.realm was changed by this Tx
	unbraked   bool     // see Unbrake
	encoded    *encoded // nil until Encode was called
}

// entries are the rows that a Tx has read or changed, by key, as they are now. Encode encodes
// those that this Tx has changed.
type entries struct {
	objects      map[uid.UID]*object
	names        map[nameRef]uid.UID // the object that has a name or had it last: created here, or looked up; "" for none
	owners       map[uid.UID]*owner
	absent       map[uid.UID]*absence
	pending      map[uid.UID]*workEntry
	sessions     map[string]*lifecycle.Time // time of the last command; nil if the session was closed or has ended
	kindRows     map[string]*kindRow        // numbers of objects, by resource
	brakes       map[string]*brakeRow       // by resource
	releasedRows map[uid.UID]*releasedRow
	noticeRows   map[uid.UID]*noticeRow
	releases     *rowCount // number of releasedRows in the state and here; nil until it is needed
	noticed      *rowCount // number of objects with notices; nil until it is needed

	// The claims of uses without a uid that this Tx has counted, by the same coordinates
	// without a namespace.
	waiting map[lifecycle.Coordinates][]lifecycle.Coordinates
}

// openCommit is what EndCommit needs to know of the commit that has not ended.
type openCommit struct {
	touched  map[uid.UID]struct{} // the objects whose work row may have changed
	imports  bool                 // the commit has a command of an import session
	removals []removal            // the removals of the commit, in the order of their revisions
	removing []*object            // the entries of the removed objects, without those of PassRemoval
}

// endedCommits is what the commits that have ended add to the state, in addition to entries.
type endedCommits struct {
	rows         []rowOp             // rows of tables without entries
	removed      []windowRow[uint64] // removed uids, by uidHash
	removedSince uint64              // the first sequence that the window of removed uids will have
	commands     []commandRow
	placed       []placed // positions in the stream that Place has set
}

// lookups are the entries that were looked up last. Rules ask for the same ones several times in a row.
type lookups struct {
	lastObject struct {
		uid   uid.UID
		entry *object // nil for none
	}
	lastOwner *owner
	lastKind  *kindRow
	allUses   *owner // see uses
}

// object is an object as it is stored and as it is now.
type object struct {
	stored, now       *lifecycle.Node // stored: also by a Tx under this one; nil if there is no object
	storedKin, nowKin kin
	body              []byte  // the encoding of the body, if it may differ from the one in the table
	bodyChanged       bool    // body was changed by this Tx
	removal           removal // the last one by this Tx or one under it; its revision is zero for none
	dirty             bool    // changed by this Tx
	refinalized       bool    // its finalizers changed in the open commit: see endTouch
}

// nameRef is the name of an object, with the resource of its kind.
type nameRef struct{ resource, namespace, name string }

// absence is the row of an absent owner.
type absence struct {
	revision uint64 // revision of the removal
	claim    uint64 // claimHash of its coordinates
	ok       bool   // false: there is no row now, whatever is stored
	dirty    bool   // changed by this Tx
}

// workEntry is the work row of an object.
type workEntry struct {
	row        WorkRow
	ok         bool // there is a row now
	stored     bool // there is a row in the state, or a Tx under this one has one
	dirty      bool // changed by this Tx
	keeps      bool // see WorkChange.Keeps
	dependents bool // see WorkChange.Dependents
}

// rowOp is a row to write.
type rowOp struct{ key, value []byte }

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
	return newTx(s, reader{db: s.db, failures: s.failures, removed: s.removed}, s.head, 0)
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
	next := newTx(tx.s, reader{db: tx.s.db, failures: tx.s.failures, removed: tx.s.removed}, tx.head, len(tx.names))
	next.under, next.removedSince = tx, tx.removedSince
	return next
}

// Begin starts a Tx on the snapshot, to compute the effect of commits without writing it.
// The Tx must be dropped before the snapshot is closed, and cannot be applied.
func (s *Snapshot) Begin() *Tx {
	return newTx(nil, reader{db: s.snap, failures: s.r.failures, removed: s.r.removed}, s.head, 0)
}

// newTx returns a Tx whose maps have room for a number of objects and names, so that they
// need not grow.
func newTx(s *State, r reader, h head, room int) *Tx {
	h.checkpoint = proto.Clone(h.checkpoint).(*coppicev1.Checkpoint)
	return &Tx{
		s: s, r: r, head: h, was: h.kinds, began: lifecycle.Time(h.checkpoint.GetTime()),
		entries: entries{
			objects: make(map[uid.UID]*object, room), names: make(map[nameRef]uid.UID, room), owners: map[uid.UID]*owner{},
			absent: map[uid.UID]*absence{}, pending: map[uid.UID]*workEntry{}, sessions: map[string]*lifecycle.Time{},
			kindRows: map[string]*kindRow{}, brakes: map[string]*brakeRow{},
			releasedRows: map[uid.UID]*releasedRow{}, noticeRows: map[uid.UID]*noticeRow{},
		},
		openCommit: openCommit{touched: map[uid.UID]struct{}{}},
	}
}

// Drop ends a Tx that is not applied. It may be called more than once, and after Encode.
func (tx *Tx) Drop() { tx.closeTables() }

// closeTables closes the iterator over the names in tables, if it is open.
func (tx *Tx) closeTables() {
	if tx.tables != nil {
		if err := tx.tables.Close(); err != nil {
			tx.r.fail("name", err)
		}
		tx.tables = nil
	}
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

// object returns the entry of an object, and reads the object if it has none.
func (tx *Tx) object(u uid.UID) *object {
	if tx.lastObject.entry != nil && tx.lastObject.uid == u {
		return tx.lastObject.entry
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
	tx.lastObject.uid, tx.lastObject.entry = u, o
	return o
}

// inherit sets the entry of an object from that of a Tx under this one, if one
// has it.
func (tx *Tx) inherit(u uid.UID, o *object) bool {
	was, applied := tx.underObject(u)
	if was == nil {
		return false
	}
	*o = object{stored: was.now, now: was.now, storedKin: was.nowKin, nowKin: was.nowKin}
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
func (tx *Tx) worthKeeping(bytes int) bool { return bytes <= mostKeptBytes && tx.few(mostKept) }

// few reports whether there are at most a number of entries.
func (e *entries) few(most int) bool {
	n := len(e.objects) + len(e.names) + len(e.owners) + len(e.absent) + len(e.pending) + len(e.releasedRows) + len(e.noticeRows)
	if n > most {
		return false
	}
	for _, w := range e.owners {
		n += len(w.claims)
	}
	return n <= most
}

// nearest returns the entry that the nearest Tx under tx has; nil if none has one.
func nearest[V any](tx *Tx, entry func(*Tx) *V) *V {
	for t := tx.under; t != nil; t = t.under {
		if v := entry(t); v != nil {
			return v
		}
	}
	return nil
}

// rowCount is a number of rows that the state stores, so that nothing is read while there are none.
type rowCount struct{ was, now uint64 } // before this Tx, and now

// countRows returns a number as the nearest Tx under this one has it, or as it is stored.
func (tx *Tx) countRows(count func(*Tx) *rowCount, stored func() uint64) *rowCount {
	if was := nearest(tx, count); was != nil {
		return &rowCount{was.now, was.now}
	}
	n := stored()
	return &rowCount{n, n}
}

// encode encodes the number, if it has changed. c may be nil.
func (c *rowCount) encode(w *batchWriter, key []byte) {
	switch {
	case c == nil || c.now == c.was:
	case c.now > 0:
		w.put(key, binary.AppendUvarint(nil, c.now))
	default:
		w.delete(key)
	}
}
