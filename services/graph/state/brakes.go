package state

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// kindRow is the number of objects of a kind.
type kindRow struct {
	resource string
	objects  uint64 // now
	were     uint64 // before this Tx
}

// brakeRow is the brake of a kind.
type brakeRow struct {
	lifecycle.Brake
	dirty bool // set by this Tx
}

// kindRow returns the number of objects of a kind.
func (tx *Tx) kindRow(resource string) *kindRow {
	if tx.lastKind != nil && tx.lastKind.resource == resource {
		return tx.lastKind
	}
	k := tx.kindRows[resource]
	if k == nil {
		k = &kindRow{resource: resource}
		if was := nearest(tx, func(t *Tx) *kindRow { return t.kindRows[resource] }); was != nil {
			k.objects = was.objects
		} else {
			k.objects = tx.r.objects(resource)
		}
		k.were = k.objects
		tx.kindRows[resource] = k
	}
	tx.lastKind = k
	return k
}

// countObjects adds n to the number of objects of a kind.
func (tx *Tx) countObjects(resource string, n int) {
	k := tx.kindRow(resource)
	if tx.recording {
		was := k.objects
		tx.onRollback(func() { k.objects = was })
	}
	k.objects += uint64(n)
}

func (tx *Tx) brakeRow(resource string) *brakeRow {
	b := tx.brakes[resource]
	if b == nil {
		b = &brakeRow{}
		if was := nearest(tx, func(t *Tx) *brakeRow { return t.brakes[resource] }); was != nil {
			b.Brake = was.Brake
		} else {
			b.Brake = tx.r.brake(resource)
		}
		tx.brakes[resource] = b
	}
	return b
}

// SetBrake sets the brake of a kind.
func (tx *Tx) SetBrake(resource string, to lifecycle.Brake) {
	b := tx.brakeRow(resource)
	if tx.recording {
		was := *b
		tx.onRollback(func() { *b = was })
	}
	*b = brakeRow{to, true}
}

// Brakes returns the brakes that this Tx has set, by resource, for the log. It includes brakes
// that were set to the value that they had, and leaves out those that were set to zero.
func (tx *Tx) Brakes() map[string]lifecycle.Brake {
	var all map[string]lifecycle.Brake
	for resource, b := range tx.brakes {
		if b.dirty && b.Brake != (lifecycle.Brake{}) {
			if all == nil {
				all = map[string]lifecycle.Brake{}
			}
			all[resource] = b.Brake
		}
	}
	return all
}

// Brake implements lifecycle.View.
func (tx *Tx) Brake(k *lifecycle.Kind) (lifecycle.Brake, uint64) {
	return tx.brakeRow(k.Resource()).Brake, tx.kindRow(k.Resource()).objects
}

// Unbrake makes the Tx ignore brakes: every deletion is let through, and none is counted.
// Such a Tx cannot be applied.
func (tx *Tx) Unbrake() { tx.unbraked = true }

// Released implements lifecycle.View.
func (tx *Tx) Released(u uid.UID) bool {
	if tx.unbraked {
		return true
	}
	return tx.countReleases().now > 0 && tx.releasedRow(u).now
}

// releasedRow says whether there is a row for a released object, before this Tx and now.
type releasedRow struct{ was, now bool }

// countReleases returns the number of rows of released objects.
func (tx *Tx) countReleases() *rowCount {
	if tx.releases == nil {
		tx.releases = tx.countRows(func(t *Tx) *rowCount { return t.releases }, tx.r.releases)
	}
	return tx.releases
}

func (tx *Tx) releasedRow(u uid.UID) *releasedRow {
	r := tx.releasedRows[u]
	if r == nil {
		r = &releasedRow{}
		if was := nearest(tx, func(t *Tx) *releasedRow { return t.releasedRows[u] }); was != nil {
			r.now = was.now
		} else {
			r.now = tx.r.isReleased(u)
		}
		r.was = r.now
		tx.releasedRows[u] = r
	}
	return r
}

func (tx *Tx) setReleased(u uid.UID, to bool) {
	r := tx.releasedRow(u)
	if r.now == to {
		return
	}
	n := tx.countReleases()
	if tx.recording {
		was, before := *r, *n
		tx.onRollback(func() { *r, *n = was, before })
	}
	r.now = to
	if to {
		n.now++
	} else {
		n.now--
	}
}

// LetThrough records that the release of a brake lets the deletion of objects through. It
// skips objects that do not exist or are being deleted.
func (tx *Tx) LetThrough(objects []uid.UID) {
	tx.Prefetch(objects)
	for _, u := range objects {
		if lifecycle.Releasable(tx.Node(u)) {
			tx.setReleased(u, true)
		}
	}
}

// endRelease ends the release of an object that is deleted, or whose owners have changed.
func (tx *Tx) endRelease(before, after *lifecycle.Node) {
	if before == nil || tx.unbraked || tx.countReleases().now == 0 {
		return
	}
	if after == nil || after.Terminating() || !lifecycle.SameOwners(before, after) {
		tx.setReleased(before.UID, false)
	}
}

// encodeBrakes encodes the rows of kinds and brakes, and those of released objects.
func (tx *Tx) encodeBrakes(w *batchWriter) {
	for resource, k := range tx.kindRows {
		switch k.objects {
		case k.were:
		case 0:
			w.delete(resourceKey(tableKind, resource))
		default:
			w.put(resourceKey(tableKind, resource), binary.AppendUvarint(nil, k.objects))
		}
	}
	for resource, b := range tx.brakes {
		switch {
		case !b.dirty:
		case b.Brake == (lifecycle.Brake{}):
			w.delete(resourceKey(tableBrake, resource))
		default:
			w.put(resourceKey(tableBrake, resource), appendBrake(nil, b.Brake))
		}
	}
	for u, r := range tx.releasedRows {
		switch key := keyOfUID(tableReleased, u); {
		case r.now == r.was:
		case r.now:
			w.put(key, nil)
		default:
			w.delete(key)
		}
	}
	tx.releases.encode(w, keyReleases)
}

// A brake's value: since, base, counted, tripped.
func appendBrake(b []byte, k lifecycle.Brake) []byte {
	for _, v := range []uint64{uint64(k.Since), k.Base, k.Counted, uint64(k.Tripped)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func decodeBrake(b []byte) (k lifecycle.Brake, err error) {
	var since, tripped uint64
	err = decodeUvarints(b, &since, &k.Base, &k.Counted, &tripped)
	k.Since, k.Tripped = lifecycle.Time(since), lifecycle.Time(tripped)
	return k, err
}

func (r *reader) objects(resource string) (n uint64) {
	r.get("kinds", resourceKey(tableKind, resource), func(v []byte) error { return decodeUvarints(v, &n) })
	return n
}

func (r *reader) brake(resource string) (b lifecycle.Brake) {
	r.get("brakes", resourceKey(tableBrake, resource), func(v []byte) (err error) {
		b, err = decodeBrake(v)
		return err
	})
	return b
}

func (r *reader) releases() (n uint64) {
	r.get("releases", keyReleases, func(v []byte) error { return decodeUvarints(v, &n) })
	return n
}

func (r *reader) isReleased(u uid.UID) bool {
	return r.get("releases", keyOfUID(tableReleased, u), func([]byte) error { return nil })
}

// Brake implements lifecycle.View.
func (s *Snapshot) Brake(k *lifecycle.Kind) (lifecycle.Brake, uint64) {
	b, ok := s.brakes[k.Resource()]
	if !ok {
		b.brake, b.objects = s.r.brake(k.Resource()), s.r.objects(k.Resource())
		s.brakes[k.Resource()] = b
	}
	return b.brake, b.objects
}

// AnyTripped reports whether a brake is tripped.
func (s *Snapshot) AnyTripped() bool {
	if s.anyTripped == nil {
		found := false
		s.r.scan("brakes", []byte{tableBrake}, nil, func(_, value []byte) bool {
			b, err := decodeBrake(value)
			if err != nil {
				s.r.fail("brakes", err)
			}
			found = b.Tripped != 0
			return !found && err == nil
		})
		s.anyTripped = &found
	}
	return *s.anyTripped
}

// Tripped returns the brakes that are tripped, by resource.
func (s *State) Tripped() (map[string]lifecycle.Brake, error) {
	snap := s.Snapshot()
	all := map[string]lifecycle.Brake{}
	snap.r.scan("brakes", []byte{tableBrake}, nil, func(key, value []byte) bool {
		b, err := decodeBrake(value)
		if err != nil {
			snap.r.fail("brakes", err)
		}
		if b.Tripped != 0 {
			all[string(key[1:])] = b
		}
		return err == nil
	})
	return all, errors.Join(snap.Err(), snap.Close())
}

// brakeOf is a brake that was read, and the number of objects of its kind.
type brakeOf struct {
	brake   lifecycle.Brake
	objects uint64
}

// Released implements lifecycle.View.
func (s *Snapshot) Released(u uid.UID) bool {
	if s.releases == nil {
		n := s.r.releases()
		s.releases = &n
	}
	return *s.releases > 0 && s.r.isReleased(u)
}

// kindCounter counts the names of each kind, in the order of their keys.
type kindCounter []kindRow

// count counts the name with a key.
func (c *kindCounter) count(key []byte) {
	resource, _, _ := bytes.Cut(key[1:], []byte{nul})
	if n := len(*c); n == 0 || (*c)[n-1].resource != string(resource) {
		*c = append(*c, kindRow{resource: string(resource)})
	}
	(*c)[len(*c)-1].objects++
}

// each calls visit for the rows of the kinds, in the order of their keys.
func (c kindCounter) each(visit func(key, value []byte) error) error {
	for i := range c {
		if err := visit(resourceKey(tableKind, c[i].resource), binary.AppendUvarint(nil, c[i].objects)); err != nil {
			return err
		}
	}
	return nil
}
