package replay

import (
	"encoding/binary"
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
)

// candidates is what is known of the objects that a stretch removes, by uid. They have
// UUIDs. All are added, then sorted, then searched; searching is safe for concurrent use.
// As UUIDs sort by time, most lookups are near the one before. So a search begins where the
// last one ended, in memory that is in the processor's caches; a map would miss them.
type candidates struct {
	keys []candidateKey
	of   []candidate
}

// candidateKey is a UUID as two numbers, because these compare faster than bytes.
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

// candidateKeyOf is the key of a packed uid, if it is a UUID.
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

// cursor is where in candidates a search ended, and where the next one begins.
type cursor int

// find returns the place of an object in candidates.of, or none.
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
