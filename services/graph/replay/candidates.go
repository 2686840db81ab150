package replay

import (
	"encoding/binary"
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
)

// candidates has a record of each object that a stretch removes, by uid. The uids are
// UUIDs. All are added, then sorted, then searched; searching is safe for concurrent use.
// UUIDs sort by time, so most lookups are near the previous one. A search therefore begins
// where the last one ended, in memory that the processor has cached; lookups in a map
// would miss the caches.
type candidates struct {
	keys []candidateKey
	of   []candidate
}

// candidateKey is a UUID as two numbers, which compare faster than bytes.
type candidateKey struct{ high, low uint64 }

func (k candidateKey) compare(o candidateKey) int {
	switch {
	case k.high < o.high || k.high == o.high && k.low < o.low:
		return -1
	case k == o:
		return 0
	}
	return 1
}

// candidateKeyOf returns the key of a packed uid, if the uid is a UUID.
func candidateKeyOf(u uid.UID) (k candidateKey, ok bool) {
	if !u.UUID() {
		return k, false
	}
	var b [uid.PackedUUID]byte
	copy(b[:], u)
	return candidateKey{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])}, true
}

// add adds objects before sort.
func (c *candidates) add(keys ...candidateKey) { c.keys = append(c.keys, keys...) }

// sort is called once, after the last add and before the first find.
func (c *candidates) sort() {
	slices.SortFunc(c.keys, candidateKey.compare)
	c.keys = slices.Compact(c.keys)
	c.of = make([]candidate, len(c.keys))
}

// cursor is the index in candidates at which the last search ended and the next begins.
type cursor int

// find returns the index of an object in candidates.of, or none.
func (c *candidates) find(u uid.UID, at *cursor) int32 {
	k, ok := candidateKeyOf(u)
	if !ok || len(c.keys) == 0 {
		return none
	}
	// Grow the interval keys[low:high] from where the last search ended, doubling each
	// step, until it must contain the key.
	low := int(*at)
	high := low + 1
	for step := 1; high < len(c.keys) && c.keys[high].compare(k) <= 0; step *= 2 {
		low, high = high, min(high+step, len(c.keys))
	}
	for step := 1; low > 0 && c.keys[low].compare(k) > 0; step *= 2 {
		low, high = max(low-step, 0), low
	}
	i, found := slices.BinarySearchFunc(c.keys[low:high], k, candidateKey.compare)
	low = min(low+i, len(c.keys)-1)
	*at = cursor(low)
	if !found {
		return none
	}
	return int32(low)
}
