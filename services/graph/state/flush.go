package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// WorkChange is a work row that a Tx wrote or deleted.
type WorkChange struct {
	UID uid.UID
	Row WorkRow
	// Had and Has say whether the row existed before and exists now.
	Had, Has bool
	// Dependents: the work for dependents has changed, or the set of these dependents.
	Dependents bool
	// Keeps: the object keeps its dependents now, and did not before, because it was absent
	// or waited for them. Dangling and waiting references of these dependents to other
	// owners may have to be removed now.
	Keeps bool
}

// prepared has the effects of a Tx, encoded for Flush.
type prepared struct {
	w       writer    // of the batch
	names   []uint64  // hashes of keys that are written or deleted
	dirty   []uid.UID // sorted
	pending []WorkChange
}

// Sizes of batches in bytes: the largest whose memory is used again, and estimates for an
// object that is written and for one that is removed.
const (
	retainedBatch = 16 << 20
	objectStays   = 640
	objectRemoved = 128
)

// Prepare encodes the effects of the commits that have ended, so that Flush only has to
// write them. Afterwards only Flush, Drop and Next may be called. Prepare can run while
// the last of the commits is being appended to the log, and while the Tx under this one is
// flushed. Flush calls Prepare if it was not called.
func (tx *Tx) Prepare() error {
	if tx.prepared != nil {
		return nil
	}
	tx.Drop() // Prepare is the last to read
	if err := tx.Err(); err != nil {
		return err
	}
	s := tx.s
	uids, stay := tx.dirtyObjects()
	size := stay*objectStays + (len(uids)-stay+1)*objectRemoved
	b := s.db.NewBatch(pebble.WithInitialSizeBytes(size), pebble.WithMaxRetainedSizeBytes(retainedBatch))
	p := &prepared{w: writer{b: b}, dirty: uids}
	w := &p.w
	runs := tx.runs(uids)
	tx.writeNodes(w, uids, runs)
	tx.writeBodies(w, uids, runs)
	p.names = tx.writeNames(w, uids)
	tx.writeEdges(w, uids, runs)
	tx.writeClaims(w)
	tx.writeAbsent(w)
	p.pending = tx.writePending(w)
	tx.writeSessions(w)
	tx.writeCommands(w)
	for _, op := range tx.rows {
		w.put(op.key, op.value)
	}
	if w.err != nil {
		return fmt.Errorf("state: write: %w", w.err)
	}
	tx.prepared = p
	return nil
}

// Flush writes the effects of the commits that have ended, in one batch with the
// checkpoint, and makes them visible to new Snapshots. It returns the changed work rows.
// After an error the State is unusable.
func (tx *Tx) Flush() ([]WorkChange, error) { return tx.FlushNotify(func() {}) }

// FlushNotify is Flush, and calls notify before it writes, when replies that depend on the
// effects may be sent: Command finds the commands, and Snapshot and Begin wait until the
// effects are written. notify must therefore call neither. If the effects cannot be
// written, all later Snapshots fail.
func (tx *Tx) FlushNotify(notify func()) ([]WorkChange, error) {
	if err := tx.Prepare(); err != nil {
		return nil, err
	}
	s, p := tx.s, tx.prepared
	checkpoint := tx.writePositions(&p.w, s.Checkpoint())
	cp, err := proto.MarshalOptions{Deterministic: true}.Marshal(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("state: checkpoint: %w", err)
	}
	p.w.put(keyCheckpoint, cp)
	removed := drop(&p.w, tableRemoved, s.removed, tx.removed)
	if p.w.err != nil {
		return nil, fmt.Errorf("state: write: %w", p.w.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands.update(tx.commands, lifecycle.Time(tx.checkpoint.GetTime()))
	s.kinds, s.settings, s.checkpoint = tx.kinds, tx.settings, checkpoint
	notify()
	written := p.w.b.Len()
	s.written.add(p.names, written)
	if err := s.commit(p.w.b); err != nil {
		return nil, err
	}
	if err := p.w.b.Close(); err != nil {
		return nil, fmt.Errorf("state: write: %w", err)
	}
	s.ranges.Add(p.w.ranges)
	s.recent.write(p.dirty, tx.born)
	s.removed.update(tx.removed, removed)
	if s.newest = nil; tx.worthKeeping(written) {
		s.newest = tx
	}
	tx.flushed.Store(true)
	return p.pending, nil
}

// drop deletes the rows that leave a window when rows are added to it, and returns their
// number.
func drop[K comparable](w *writer, table byte, from *window[K], added []windowRow[K]) int {
	n, _ := from.surplus(added)
	for i := range n {
		w.delete(numberKey(table, from.row(i, added).sequence))
	}
	return n
}

// writer writes to a batch. It keeps the first error and does nothing after it.
type writer struct {
	b          *pebble.Batch
	ranges     int64  // number of deleted ranges
	key, value []byte // scratch
	err        error
}

func (w *writer) put(key, value []byte) {
	if err := w.b.Set(key, value, nil); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *writer) delete(key []byte) {
	if err := w.b.Delete(key, nil); err != nil && w.err == nil {
		w.err = err
	}
}

// deleteRange deletes the rows from the first key to the last, inclusive.
func (w *writer) deleteRange(first, last []byte) {
	w.ranges++
	if err := w.b.DeleteRange(first, append(last, nul), nil); err != nil && w.err == nil {
		w.err = err
	}
}

// deleteSpans deletes the rows of commands in the spans from up to, but without, until.
func (w *writer) deleteSpans(from, until uint32) {
	w.ranges++
	if err := w.b.DeleteRange(commandSpanKey(nil, from), commandSpanKey(nil, until), nil); err != nil && w.err == nil {
		w.err = err
	}
}

// dirtyObjects returns the objects whose rows change, sorted, and how many of them are not
// removed.
func (tx *Tx) dirtyObjects() (uids []uid.UID, stay int) {
	uids = make([]uid.UID, 0, len(tx.objects))
	for u, o := range tx.objects {
		if o.dirty && (o.stored != nil || o.now != nil) {
			uids = append(uids, u)
			if o.now != nil {
				stay++
			}
		}
	}
	slices.Sort(uids)
	return uids, stay
}

func (tx *Tx) writeNodes(w *writer, uids []uid.UID, runs []int) {
	for run := range inRuns(uids, runs) {
		if len(run) > 1 {
			w.deleteRun(tableNode, run)
			continue
		}
		o := tx.objects[run[0]]
		w.key = appendUIDKey(w.key[:0], tableNode, run[0])
		if o.now == nil {
			w.delete(w.key)
			continue
		}
		w.value = appendNodeValue(w.value[:0], o.now, o.nowParent)
		w.put(w.key, w.value)
	}
}

func (tx *Tx) writeBodies(w *writer, uids []uid.UID, runs []int) {
	for run := range inRuns(uids, runs) {
		if len(run) > 1 {
			w.deleteRun(tableBody, run)
			continue
		}
		o := tx.objects[run[0]]
		w.key = appendUIDKey(w.key[:0], tableBody, run[0])
		switch {
		case o.now == nil:
			w.delete(w.key)
		case o.bodyChanged:
			w.put(w.key, o.body)
		}
	}
}

// writeNames deletes the names of removed objects and then writes the names of new ones,
// because a new object may have the name of a removed one. The key of a name has the
// resource that the kind had when the name was written: the kind may have been deleted
// since, after its last object, and registered again with another plural. Names are sorted
// before they are written, because a memtable inserts neighbours faster. It returns the
// hashes of all these keys.
func (tx *Tx) writeNames(w *writer, uids []uid.UID) (keys []uint64) {
	keys = make([]uint64, 0, len(uids))
	rows := make([]stored, 0, len(uids))
	var room []byte // for the rows that follow
	name := func(kinds *lifecycle.Kinds, n *lifecycle.Node) {
		if cap(room)-len(room) < longName {
			room = make([]byte, 0, longName+min(128*len(uids), 64<<10))
		}
		from := len(room)
		room = nameKey(room, kinds.OfNode(n).Resource(), n.Namespace, n.Name)
		to := len(room)
		room = append(room, n.UID...)
		keys = append(keys, hash(room[from:to]))
		rows = append(rows, stored{room[from:to], room[to:]})
	}
	sorted := func() []stored {
		slices.SortFunc(rows, func(a, b stored) int { return bytes.Compare(a.key, b.key) })
		return rows
	}
	for _, u := range uids {
		if o := tx.objects[u]; o.stored != nil && (o.now == nil || o.stored.Coordinates() != o.now.Coordinates()) {
			name(tx.was, o.stored)
		}
	}
	for _, r := range sorted() {
		w.delete(r.key)
	}
	rows = rows[:0]
	for _, u := range uids {
		if o := tx.objects[u]; o.now != nil && (o.stored == nil || o.stored.Coordinates() != o.now.Coordinates()) {
			name(tx.kinds, o.now)
		}
	}
	for _, r := range sorted() {
		w.put(r.key, r.value)
	}
	return keys
}

// longName is the size in bytes that the rows of most names do not exceed.
const longName = 512

func (tx *Tx) writeEdges(w *writer, uids []uid.UID, runs []int) {
	for run := range inRuns(uids, runs) {
		if len(run) > 1 {
			tx.deleteEdges(w, run)
			continue
		}
		u := run[0]
		o := tx.objects[u]
		if o.stored != nil && o.now != nil && sameOwners(o.stored.Owners, o.now.Owners) {
			continue
		}
		stays := func(*lifecycle.OwnerReference) bool { return false }
		if o.now != nil && o.stored != nil {
			stays = lifecycle.ClaimedBy(o.now.Owners)
		}
		eachReference(o.stored, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, _ lifecycle.Counts) {
			if !stays(r) {
				w.key = edgeKey(w.key[:0], r.UID, claimHash(c), u)
				w.delete(w.key)
			}
		})
		eachReference(o.now, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, n lifecycle.Counts) {
			w.key = edgeKey(w.key[:0], r.UID, claimHash(c), u)
			w.put(w.key, []byte{byte(n.Blocking)})
		})
	}
}

func (tx *Tx) writeClaims(w *writer) {
	for _, u := range slices.Sorted(maps.Keys(tx.owners)) {
		o := tx.owners[u]
		write := func(e *claim) {
			if !e.dirty {
				return
			}
			w.key = claimKey(w.key[:0], u, e.c)
			switch {
			case e.All > 0:
				w.value = appendCounter(w.value[:0], e.counter)
				w.put(w.key, w.value)
			case e.stored:
				w.delete(w.key)
			}
		}
		write(&o.all)
		for _, e := range o.claims {
			write(e)
		}
	}
}

func (tx *Tx) writeAbsent(w *writer) {
	for u, a := range tx.absent {
		switch {
		case !a.dirty:
		case a.ok:
			w.put(keyOfUID(tableAbsent, u), appendAbsent(nil, a.revision, a.claim))
		default:
			w.delete(keyOfUID(tableAbsent, u))
		}
	}
}

func (tx *Tx) writePending(w *writer) []WorkChange {
	var changes []WorkChange
	for u, e := range tx.pending {
		if !e.dirty || !e.ok && !e.stored {
			continue
		}
		w.key = appendUIDKey(w.key[:0], tableWork, u)
		if e.ok {
			w.value = appendWorkRow(w.value[:0], e.row)
			w.put(w.key, w.value)
		} else {
			w.delete(w.key)
		}
		changes = append(changes, WorkChange{UID: u, Row: e.row, Had: e.stored, Has: e.ok, Dependents: e.dependents, Keeps: e.keeps})
	}
	slices.SortFunc(changes, func(a, b WorkChange) int { return cmp.Compare(a.UID, b.UID) })
	return changes
}

func (tx *Tx) writeSessions(w *writer) {
	for id, last := range tx.sessions {
		if last == nil {
			w.delete(sessionKey(id))
		} else {
			w.put(sessionKey(id), binary.AppendUvarint(nil, uint64(*last)))
		}
	}
}
