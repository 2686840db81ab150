package state

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// encoded has the effects of a Tx, encoded by Encode for Apply.
type encoded struct {
	w       batchWriter
	names   []uint64     // hashes of the keys of names that are written or deleted
	dirty   []uid.UID    // the objects whose rows change, sorted
	pending []WorkChange // sorted by uid
}

// Sizes of batches in bytes: the largest whose memory is used again, and estimates for an
// object that is written and for one that is removed.
const (
	retainedBatch = 16 << 20
	objectStays   = 640
	objectRemoved = 128
)

// Encode encodes the effects of the commits that have ended, so that Apply only has to
// write them. Afterwards only Place, Apply, AnswerAndApply, Drop, Next and Checkpoint may be
// called. Encode can run while the last of the commits is being appended to the log, and
// while the Tx under this one is applied. Apply calls Encode if it was not called.
func (tx *Tx) Encode() error {
	if tx.encoded != nil {
		return nil
	}
	tx.closeTables() // Encode is the last to read
	if err := tx.Err(); err != nil {
		return err
	}
	s := tx.s
	uids, stay := tx.dirtyObjects()
	size := stay*objectStays + (len(uids)-stay+1)*objectRemoved
	b := s.db.NewBatch(pebble.WithInitialSizeBytes(size), pebble.WithMaxRetainedSizeBytes(retainedBatch))
	e := &encoded{w: batchWriter{b: b}, dirty: uids}
	w := &e.w
	tx.encodeNodes(w, uids)
	tx.encodeBodies(w, uids)
	e.names = tx.encodeNames(w, uids)
	tx.encodeProtected(w, uids)
	tx.encodeExpiry(w, uids)
	tx.encodeEdges(w, uids)
	tx.encodeClaims(w)
	tx.encodeAbsent(w)
	e.pending = tx.encodePending(w)
	tx.encodeSessions(w)
	tx.encodeRealm(w)
	tx.encodeBrakes(w)
	tx.encodeNotices(w)
	tx.encodeCommands(w)
	for _, op := range tx.rows {
		w.put(op.key, op.value)
	}
	if w.err != nil {
		return fmt.Errorf("state: write: %w", w.err)
	}
	tx.encoded = e
	return nil
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

func (tx *Tx) encodeNodes(w *batchWriter, uids []uid.UID) {
	for _, u := range uids {
		o := tx.objects[u]
		w.key = appendUIDKey(w.key[:0], tableNode, u)
		if o.now == nil {
			w.delete(w.key)
			continue
		}
		w.value = appendNodeValue(w.value[:0], o.now, o.nowKin)
		w.put(w.key, w.value)
	}
}

func (tx *Tx) encodeBodies(w *batchWriter, uids []uid.UID) {
	for _, u := range uids {
		o := tx.objects[u]
		w.key = appendUIDKey(w.key[:0], tableBody, u)
		switch {
		case o.now == nil:
			w.delete(w.key)
		case o.bodyChanged:
			w.put(w.key, o.body)
		}
	}
}

// encodeNames deletes the names of removed objects and then writes the names of new ones,
// because a new object may have the name of a removed one. The key of a name has the
// resource that the kind had when the name was written: the kind may have been deleted
// since, after its last object, and registered again with another plural. Names are sorted
// before they are written, because a memtable inserts neighbours faster. It returns the
// hashes of all these keys.
func (tx *Tx) encodeNames(w *batchWriter, uids []uid.UID) (keys []uint64) {
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

func (tx *Tx) encodeEdges(w *batchWriter, uids []uid.UID) {
	for _, u := range uids {
		o := tx.objects[u]
		w.encodeUses(o.stored, o.now)
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

func (tx *Tx) encodeClaims(w *batchWriter) {
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

func (tx *Tx) encodeAbsent(w *batchWriter) {
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

func (tx *Tx) encodePending(w *batchWriter) []WorkChange {
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
