package state

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// cursor is an iterator over a table that steps to a row if the row is near, and searches
// otherwise. Rows that are read one after the other are often neighbours, and a step is
// much cheaper than a search.
type cursor struct {
	*pebble.Iterator
	at    pebble.IterValidityState // result of the last seek or next; IterExhausted if unknown
	limit []byte                   // at IterAtLimit: there are no rows before this key
	// searches is the number of searches before the next attempt to step, and misses the
	// number of failed attempts in a row. A failed attempt may have passed many deleted
	// entries.
	searches, misses int
	reach            uint64 // distance within which to step, by uid.Place; at least minReach
	bound            []byte // scratch
	failure          error  // the first error; the iterator drops it at the next seek
}

const (
	// maxMisses is the number of misses in a row after which the interval between attempts
	// to step is not doubled further.
	maxMisses = 6
	// few is the number of entries (deleted ones and older versions) that cost as much to
	// pass as a search.
	few = 32
	// minReach is the initial distance within which to step. It corresponds to the objects
	// that are created in some microseconds.
	minReach = 64
	// looks is the maximum number of attempts to step to a row, each over a longer
	// distance, before the cursor searches: a long distance without rows may have many
	// deleted entries.
	looks = 3
)

// seek moves to the first row at or after the key and before the limit. It returns whether
// it stepped there from the row before. For uids that are text, whose distance is unknown,
// it steps only if many is set, which says that many rows are sought in order.
func (c *cursor) seek(key, limit []byte, many bool) (stepped bool) {
	from := c.position()
	_, timed := uid.Place(key[1:])
	switch {
	case c.searches > 0:
		c.searches--
	case from != nil && (timed || many) && (bytes.Compare(from, key) < 0 || c.at == pebble.IterAtLimit && bytes.Equal(from, key)):
		stepped = c.at == pebble.IterValid
		passed, there := c.step(key, limit)
		if there && passed <= few {
			c.misses = 0
			return stepped
		}
		c.misses = int(min(uint64(c.misses)+1+passed/(4*few), maxMisses))
		c.searches = 1<<c.misses - 1
		if there {
			return stepped
		}
	}
	c.moved(c.SeekGEWithLimit(key, limit), limit)
	return false
}

// step moves to the next row. there is true if that row is at or after the key, or there is
// none before the limit. It tries a short distance first, and longer ones if that has no
// rows, also at the next call. It stops after it has passed many entries, or after several
// attempts. passed is the number of entries that it has passed. It cannot skip entries that
// were deleted by range in the same memtable.
func (c *cursor) step(key, limit []byte) (passed uint64, there bool) {
	before := c.passed()
	for look := 1; ; look++ {
		c.reach = max(c.reach, minReach)
		bounded := c.ahead(c.reach) && bytes.Compare(c.bound, key) < 0
		if bounded {
			c.next(c.bound)
		} else {
			c.next(limit)
		}
		if passed = c.passed() - before; passed > few {
			c.reach = minReach
		}
		switch {
		case c.at == pebble.IterValid:
			return passed, bytes.Compare(c.Key(), key) >= 0
		case c.at == pebble.IterExhausted || !bounded:
			return passed, true
		case passed > few || look == looks:
			return passed, false
		}
		c.reach = 8 * min(c.reach, math.MaxUint64/8)
	}
}

// ahead sets bound to the key that is the distance reach after the position, in a table
// whose keys begin with uids. It returns false if there is no such key.
func (c *cursor) ahead(reach uint64) bool {
	from := c.position()
	at, ok := uid.Place(from[1:])
	if !ok || at > math.MaxUint64-reach {
		return false
	}
	c.bound = binary.BigEndian.AppendUint64(append(c.bound[:0], from[:2]...), at+reach)
	return true
}

// position returns the key of the current row, or the limit at which the cursor has
// stopped; nil if unknown.
func (c *cursor) position() []byte {
	switch c.at {
	case pebble.IterValid:
		return c.Key()
	case pebble.IterAtLimit:
		return c.limit
	}
	return nil
}

// passed returns the number of entries that the iterator has passed: rows, deleted rows and
// older versions. Rows that were deleted by range count twice.
func (c *cursor) passed() uint64 {
	s := c.Stats().InternalStats
	return s.PointCount + s.PointsCoveredByRangeTombstones
}

// next moves to the next row before the limit.
func (c *cursor) next(limit []byte) { c.moved(c.NextWithLimit(limit), limit) }

func (c *cursor) moved(at pebble.IterValidityState, limit []byte) {
	switch c.at = at; at {
	case pebble.IterAtLimit:
		c.limit = append(c.limit[:0], limit...)
	case pebble.IterExhausted:
		if c.failure == nil {
			c.failure = c.Error()
		}
	}
}

// on reports whether the current row's key begins with the prefix.
func (c *cursor) on(prefix []byte) bool {
	return c.at == pebble.IterValid && bytes.HasPrefix(c.Key(), prefix)
}

// get moves to a key, and reports whether the row exists.
func (c *cursor) get(key []byte) bool {
	c.at = pebble.IterExhausted
	return c.SeekPrefixGE(key)
}
