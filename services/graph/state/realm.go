package state

import (
	"encoding/binary"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// ChangeRealm adds an event about the realm itself in a commit of that time.
func (tx *Tx) ChangeRealm(event lifecycle.RealmChange, now lifecycle.Time) {
	was, dirty := tx.realm, tx.realmDirty
	tx.onRollback(func() { tx.realm, tx.realmDirty = was, dirty })
	tx.realm, tx.realmDirty = tx.realm.After(event, now), true
}

// Realm returns what the log records about the realm itself.
func (s *State) Realm() lifecycle.Realm {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head.realm
}

// encodeRealm encodes the rows of the realm, if this Tx has changed it. A realm that began
// empty and was never paused has none.
func (tx *Tx) encodeRealm(w *batchWriter) {
	if !tx.realmDirty {
		return
	}
	if o := tx.realm.Origin; o != (lifecycle.Origin{}) {
		w.put(keyOrigin, binary.AppendUvarint(o.RealmID[:], o.Sequence))
	}
	if tx.realm.Paused {
		w.put(keyPaused, nil)
	} else {
		w.delete(keyPaused)
	}
	if len(tx.realm.Pauses) > 0 {
		var v []byte
		for _, p := range tx.realm.Pauses {
			v = binary.AppendUvarint(binary.AppendUvarint(v, uint64(p.From)), uint64(p.Until))
		}
		w.put(keyPauses, v)
	}
}

func (s *State) loadRealm(r *reader) {
	s.head.realm = lifecycle.Realm{}
	r.get("origin", keyOrigin, func(v []byte) error {
		if len(v) < len(s.head.realm.Origin.RealmID) {
			return errCorrupt
		}
		n := copy(s.head.realm.Origin.RealmID[:], v)
		return decodeUvarints(v[n:], &s.head.realm.Origin.Sequence)
	})
	s.head.realm.Paused = r.get("paused", keyPaused, func([]byte) error { return nil })
	r.get("pauses", keyPauses, func(v []byte) (err error) {
		for len(v) > 0 && err == nil {
			var from, until uint64
			v, err = cutUvarints(v, &from, &until)
			s.head.realm.Pauses = append(s.head.realm.Pauses, lifecycle.Span{From: lifecycle.Time(from), Until: lifecycle.Time(until)})
		}
		return err
	})
}
