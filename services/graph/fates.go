package graph

import (
	"encoding/binary"
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
)

// fates has what is known of objects, by uid, each with a UUID for one. All are
// added, then sorted, then looked up, which is safe for concurrent use. Most
// come in the order of their uids, as those sort by time: so a look begins where
// the last one ended, in memory that is in the caches, where a map would miss
// them each time.
type fates struct {
	keys []fateKey
	of   []fate
}

// fateKey is a UUID as two numbers, which compare faster than bytes.
type fateKey struct{ high, low uint64 }

func (k fateKey) compare(o fateKey) int {
	switch {
	case k.high < o.high || k.high == o.high && k.low < o.low:
		return -1
	case k == o:
		return 0
	}
	return 1
}

// fateKeyOf is the key of a packed uid, if it is a UUID.
func fateKeyOf(u uid.UID) (k fateKey, ok bool) {
	if !u.UUID() {
		return k, false
	}
	var b [uid.PackedUUID]byte
	copy(b[:], u)
	return fateKey{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])}, true
}

// add adds objects before sort.
func (f *fates) add(keys ...fateKey) { f.keys = append(f.keys, keys...) }

// sort ends adding.
func (f *fates) sort() {
	slices.SortFunc(f.keys, fateKey.compare)
	f.keys = slices.Compact(f.keys)
	f.of = make([]fate, len(f.keys))
}

// cursor is where in fates a look ended, and the next one begins.
type cursor int

// find returns the place of an object in fates.of, or none.
func (f *fates) find(u uid.UID, at *cursor) int32 {
	k, ok := fateKeyOf(u)
	if !ok || len(f.keys) == 0 {
		return none
	}
	// The key is in keys[low:high], if anywhere: in an interval beside where the
	// last look ended, twice as long until it is.
	low := int(*at)
	high := low + 1
	for step := 1; high < len(f.keys) && f.keys[high].compare(k) <= 0; step *= 2 {
		low, high = high, min(high+step, len(f.keys))
	}
	for step := 1; low > 0 && f.keys[low].compare(k) > 0; step *= 2 {
		low, high = max(low-step, 0), low
	}
	i, found := slices.BinarySearchFunc(f.keys[low:high], k, fateKey.compare)
	low = min(low+i, len(f.keys)-1)
	*at = cursor(low)
	if !found {
		return none
	}
	return int32(low)
}
