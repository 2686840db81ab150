package state

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The table of objects that expire has a row for each one that is not being deleted, in the
// order in which they do. So those that have expired are found without reading others.

// encodeExpiry encodes the rows of the objects that expire at another time than before.
func (tx *Tx) encodeExpiry(w *batchWriter, uids []uid.UID) {
	for _, u := range uids {
		o := tx.objects[u]
		was, is := lifecycle.DueAt(o.stored), lifecycle.DueAt(o.now)
		if was == is {
			continue // most
		}
		if was != lifecycle.Never {
			w.key = expiryKey(w.key[:0], was, u)
			w.delete(w.key)
		}
		if is != lifecycle.Never {
			w.key = expiryKey(w.key[:0], is, u)
			w.put(w.key, nil)
		}
	}
}

// ExpiryCursor is a position in the order in which objects expire.
type ExpiryCursor struct {
	At  lifecycle.Time
	UID uid.UID
}

// EachExpired calls visit for the objects that expire at a time until now, behind the cursor, in
// the order in which they do, until visit returns false.
func (s *Snapshot) EachExpired(now lifecycle.Time, after ExpiryCursor, visit func(ExpiryCursor) bool) {
	start := append(expiryKey(nil, after.At, after.UID), nul)
	s.r.scan("expiry", []byte{tableExpiry}, start, func(key, _ []byte) bool {
		at, u := splitExpiryKey(key)
		return at <= now && visit(ExpiryCursor{At: at, UID: u})
	})
}
