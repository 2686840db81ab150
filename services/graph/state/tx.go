package state

import (
	"slices"

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
// or two, of which the second stands on the first: see Next.
type Tx struct {
	s          *State
	r          reader
	under      *Tx // what this one stands on, nil for the state alone; only read
	kinds      *lifecycle.Kinds
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
	prepared     *prepared // by Prepare

	undo      []func()
	recording bool

	last *owner // the owner looked up last
}

// object is an object as it is stored and as it is now.
type object struct {
	stored, now             *lifecycle.Node // stored: also by the Tx under this one
	storedParent, nowParent bool
	body                    []byte  // if it is not, or may not be, the one in the table
	bodyChanged             bool    // by this Tx
	removal                 removal // by this Tx or the one under it, the last
	dirty                   bool
}

type nameRef struct{ resource, namespace, name string }

// owner is a uid that dependents refer to, whether it exists or not, with the
// counters that were read or changed.
type owner struct {
	uid    uid.UID
	all    claim // of any claim
	claims []*claim
	index  map[lifecycle.Coordinates]*claim // once there are many
	grew   bool                             // in this commit: see grow
	holds  bool                             // since this commit: see OwedChange.Holds
}

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
// flushed meanwhile, by another goroutine, and has to be before a commit of the
// new one ends; if tx is dropped, the new one must be.
func (tx *Tx) Next() *Tx {
	next := newTx(reader{db: tx.s.db, removed: tx.s.removed}, tx.kinds, tx.options, tx.checkpoint)
	next.s, next.under, next.removedSince = tx.s, tx, tx.removedSince
	return next
}

func newTx(r reader, kinds *lifecycle.Kinds, options lifecycle.Options, at *coppicev1.Checkpoint) *Tx {
	return &Tx{
		r:          r,
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

// inherit sets the entry of an object from that of the Tx under this one, if
// it has one.
func (tx *Tx) inherit(u uid.UID, o *object) bool {
	if tx.under == nil {
		return false
	}
	was, ok := tx.under.objects[u]
	if ok {
		*o = object{
			stored: was.now, now: was.now, storedParent: was.nowParent, nowParent: was.nowParent,
			body: was.body, removal: was.removal,
		}
	}
	return ok
}

// Prefetch reads many nodes at once.
func (tx *Tx) Prefetch(uids []uid.UID) {
	missing := make([]uid.UID, 0, len(uids))
	for _, u := range uids {
		if _, ok := tx.objects[u]; ok {
			continue
		}
		if tx.under != nil && tx.under.objects[u] != nil {
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
	tx.r.prefetch(missing, func(u uid.UID, n *lifecycle.Node, parent bool) {
		o := &room[0]
		room = room[1:]
		*o = object{stored: n, now: n, storedParent: parent, nowParent: parent}
		tx.objects[u] = o
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
	tx.r.prefetchNames(kind.Resource(), namespace, missing, func(name string, u uid.UID) {
		tx.looked[nameRef{kind.Resource(), namespace, name}] = u
		if u != "" {
			found = append(found, u)
		}
	})
	tx.Prefetch(found)
}

// Kinds implements lifecycle.View.
func (tx *Tx) Kinds() *lifecycle.Kinds { return tx.kinds }

// Options implements lifecycle.View.
func (tx *Tx) Options() lifecycle.Options { return tx.options }

// Node implements lifecycle.View.
func (tx *Tx) Node(u uid.UID) *lifecycle.Node { return tx.object(u).now }

// Lookup implements lifecycle.View.
func (tx *Tx) Lookup(kind *lifecycle.Kind, namespace, name string) uid.UID {
	ref := nameRef{kind.Resource(), namespace, name}
	u, ok := tx.names[ref]
	if !ok && tx.under != nil {
		u, ok = tx.under.names[ref]
	}
	if !ok {
		if u, ok = tx.looked[ref]; !ok {
			u = tx.r.lookup(ref.resource, namespace, name)
			tx.looked[ref] = u
		}
	}
	if u == "" || tx.object(u).now == nil {
		return ""
	}
	return u
}

// Body implements lifecycle.View.
func (tx *Tx) Body(n *lifecycle.Node) *coppicev1.Body {
	o := tx.object(n.UID)
	if o.body == nil {
		return tx.r.body(n.UID)
	}
	b := &coppicev1.Body{}
	if err := proto.Unmarshal(o.body, b); err != nil {
		tx.r.fail("body", err)
	}
	return b
}

// owner returns the counters on a uid.
func (tx *Tx) owner(u uid.UID) *owner {
	if tx.last != nil && tx.last.uid == u {
		return tx.last
	}
	w, ok := tx.owners[u]
	if !ok {
		w = &owner{uid: u}
		tx.load(u, &w.all)
		tx.owners[u] = w
	}
	tx.last = w
	return w
}

// load reads a counter. An object that never had a dependent has none.
func (tx *Tx) load(u uid.UID, e *claim) {
	if was := tx.inherited(u, e.c); was != nil {
		e.counter, e.stored = was.counter, was.All > 0
		return
	}
	if o := tx.object(u); o.stored == nil || o.storedParent {
		e.counter = tx.r.counter(u, e.c)
		e.stored = e.All > 0
	}
}

// inherited is a counter as the Tx under this one has it, nil if it has none.
func (tx *Tx) inherited(u uid.UID, c lifecycle.Coordinates) *claim {
	if tx.under == nil {
		return nil
	}
	w := tx.under.owners[u]
	switch {
	case w == nil:
		return nil
	case c == (lifecycle.Coordinates{}):
		return &w.all
	}
	return w.find(c)
}

// find returns a counter that was read before, or nil.
func (w *owner) find(c lifecycle.Coordinates) *claim {
	if w.index != nil {
		return w.index[c]
	}
	for _, e := range w.claims {
		if e.c == c {
			return e
		}
	}
	return nil
}

// claim returns the counter of one claim, which is read if need be.
func (tx *Tx) claim(w *owner, c lifecycle.Coordinates) *claim {
	if c == (lifecycle.Coordinates{}) {
		return &w.all
	}
	if e := w.find(c); e != nil {
		return e
	}
	e := &claim{c: c}
	tx.load(w.uid, e)
	w.claims = append(w.claims, e)
	const many = 8
	if w.index == nil && len(w.claims) > many {
		w.index = map[lifecycle.Coordinates]*claim{}
		for _, e := range w.claims {
			w.index[e.c] = e
		}
	} else if w.index != nil {
		w.index[c] = e
	}
	return e
}

// Count implements lifecycle.View.
func (tx *Tx) Count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	if o := tx.object(owner); o.now != nil && !o.nowParent {
		return lifecycle.Counts{}
	}
	if !claims.AnyNamespace {
		return tx.claim(tx.owner(owner), claims.Coordinates).Counts
	}
	var sum lifecycle.Counts
	tx.eachClaim(owner, claims.Coordinates, func(c lifecycle.Coordinates, n counter) bool {
		if claims.Contains(c) {
			sum = sum.Plus(n.Counts)
		}
		return true
	})
	return sum
}

// eachClaim visits the counters of an owner that are not zero: those stored,
// as they are now, and then those that are new.
func (tx *Tx) eachClaim(u uid.UID, prefix lifecycle.Coordinates, visit func(lifecycle.Coordinates, counter) bool) {
	w := tx.owner(u)
	if tx.under != nil {
		if was := tx.under.owners[u]; was != nil {
			for _, e := range was.claims {
				tx.claim(w, e.c)
			}
		}
	}
	more := true
	var stored []lifecycle.Coordinates
	tx.r.claims(u, prefix, func(c lifecycle.Coordinates, n counter) bool {
		stored = append(stored, c)
		if e := w.find(c); e != nil {
			n = e.counter
		}
		if n.All > 0 {
			more = visit(c, n)
		}
		return more
	})
	for _, e := range w.claims {
		if more && e.All > 0 && !slices.Contains(stored, e.c) {
			more = visit(e.c, e.counter)
		}
	}
}

// ClaimsOn implements lifecycle.View.
func (tx *Tx) ClaimsOn(owner uid.UID, limit int) []lifecycle.Claimed {
	var list []lifecycle.Claimed
	tx.eachClaim(owner, lifecycle.Coordinates{}, func(at lifecycle.Coordinates, c counter) bool {
		list = append(list, lifecycle.Claimed{Coordinates: at, Counts: c.Counts, LastImport: c.lastImport, FirstImport: c.firstImport})
		return len(list) < limit
	})
	return list
}

// Removed implements lifecycle.View.
func (tx *Tx) Removed(u uid.UID, c lifecycle.Coordinates) (revision uint64, ok bool) {
	e := tx.removal(u)
	return e.revision, e.revision != 0 && e.claim == claimHash(c)
}

// removal returns the record of an object's removal: by this Tx, or as that of
// an owner that dependents still point to, or in the window. Without one its
// revision is zero.
func (tx *Tx) removal(u uid.UID) removal {
	if o := tx.object(u); o.removal.revision != 0 {
		return o.removal
	}
	if a := tx.absence(u); a.ok {
		return removal{uid: u, revision: a.revision, claim: a.claim}
	}
	return tx.r.removal(u, tx.removedSince)
}

// absence returns what is known of an owner that is gone and still has dependents.
func (tx *Tx) absence(u uid.UID) *absence {
	a, ok := tx.absent[u]
	if !ok {
		a = &absence{}
		if was := tx.underAbsence(u); was != nil {
			a.revision, a.claim, a.ok = was.revision, was.claim, was.ok
		} else {
			a.revision, a.claim, a.ok = tx.r.absent(u)
		}
		tx.absent[u] = a
	}
	return a
}

func (tx *Tx) underAbsence(u uid.UID) *absence {
	if tx.under == nil {
		return nil
	}
	return tx.under.absent[u]
}

// Session implements lifecycle.View.
func (tx *Tx) Session(id string) lifecycle.Session {
	last, ok := tx.sessions[id]
	if !ok && tx.under != nil {
		last, ok = tx.under.sessions[id]
	}
	switch {
	case !ok:
		return tx.r.session(id, tx.Options())
	case last == nil:
		return lifecycle.Session{}
	}
	return lifecycle.Session{Expires: last.Add(tx.Options().SessionIdle)}
}

// AnyOf implements lifecycle.View.
func (tx *Tx) AnyOf(k *lifecycle.Kind) string {
	return tx.anyName(namePrefix(k.Resource(), ""), func(ref nameRef) bool { return ref.resource == k.Resource() })
}

// AnyIn implements lifecycle.View.
func (tx *Tx) AnyIn(namespace string) string {
	for _, k := range tx.kinds.All() {
		if !k.Namespaced() {
			continue
		}
		if name := tx.anyName(namePrefix(k.Resource(), namespace), func(ref nameRef) bool {
			return ref.resource == k.Resource() && ref.namespace == namespace
		}); name != "" {
			return name
		}
	}
	return ""
}

func (tx *Tx) anyName(prefix []byte, matches func(nameRef) bool) (name string) {
	tx.r.scan("names", prefix, nil, func(key, value []byte) bool {
		if tx.knownGone(uid.UID(value)) {
			return true
		}
		resource, _, n := splitNameKey(key)
		name = resource + "/" + n
		return false
	})
	if name != "" {
		return name
	}
	if name = tx.anyCreated(tx.names, matches); name == "" && tx.under != nil {
		name = tx.anyCreated(tx.under.names, matches)
	}
	return name
}

func (tx *Tx) anyCreated(names map[nameRef]uid.UID, matches func(nameRef) bool) string {
	for ref, u := range names {
		if matches(ref) && tx.object(u).now != nil {
			return ref.resource + "/" + ref.name
		}
	}
	return ""
}

// knownGone reports whether an object was removed, by this Tx or the one under
// it.
func (tx *Tx) knownGone(u uid.UID) bool {
	o, ok := tx.objects[u]
	if !ok && tx.under != nil {
		o, ok = tx.under.objects[u]
	}
	return ok && o.now == nil
}
