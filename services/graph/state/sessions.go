package state

import (
	"encoding/binary"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

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
	ended := func(last lifecycle.Time) bool { return sessionEnd(tx, last) <= now }
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

// sessionEnd returns when an import session ends unless it gets commands after its last one.
func sessionEnd(v lifecycle.View, last lifecycle.Time) lifecycle.Time {
	return v.Pauses().End(last, v.Settings().SessionIdle)
}

// Session implements lifecycle.View.
func (tx *Tx) Session(id string) lifecycle.Session {
	last, ok := tx.sessions[id]
	for t := tx.under; !ok && t != nil; t = t.under {
		last, ok = t.sessions[id]
	}
	switch {
	case !ok:
		return tx.r.session(id, tx)
	case last == nil:
		return lifecycle.Session{}
	}
	return lifecycle.Session{Expires: sessionEnd(tx, *last)}
}

func (tx *Tx) encodeSessions(w *batchWriter) {
	for id, last := range tx.sessions {
		if last == nil {
			w.delete(sessionKey(id))
		} else {
			w.put(sessionKey(id), binary.AppendUvarint(nil, uint64(*last)))
		}
	}
}
