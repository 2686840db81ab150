package state

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// cursor is an iterator over a table that knows where it is: rows that are read
// one after the other often lie so, and to step to the next row is much cheaper
// than a search.
type cursor struct {
	*pebble.Iterator
	at    pebble.IterValidityState // where the last seek or next has led; IterExhausted if nothing is known
	limit []byte                   // at IterAtLimit: nothing up to here is left
	// Where the next row was not the one, or was far away, some are searched for before
	// that is tried again, as on the way to the next may lie many that are deleted.
	searches, misses int
	reach            uint64 // how far ahead the next row is looked for, by uid.Place; minReach if less
	bound            []byte // scratch
	failure          error  // the first; the iterator forgets it with the next seek
}

const (
	// maxMisses is how many misses in a row make a cursor try to step to the next row
	// less often: each twice as seldom as the one before.
	maxMisses = 6
	// few is how many entries on the way to the next row cost no more than a search:
	// deleted ones, and older versions.
	few = 32
	// minReach is how far ahead a row is looked for at first: as many objects lie there
	// as are made in some microseconds.
	minReach = 64
	// looks is how often a row is looked for, each time farther ahead, before it is
	// searched for: where nothing lies for long, many that are deleted may lie behind.
	looks = 3
)

// seek moves to the first row at the key or behind, unless that is at the limit, which
// is behind the key, or farther. It reports whether it came there directly from the row
// before. Where uids are text, which does not tell how far away they lie, that is tried
// only if many are sought in order.
func (c *cursor) seek(key, limit []byte, many bool) (stepped bool) {
	from := c.position()
	_, tells := uid.Place(key[1:])
	switch {
	case c.searches > 0:
		c.searches--
	case from != nil && (tells || many) && (bytes.Compare(from, key) < 0 || c.at == pebble.IterAtLimit && bytes.Equal(from, key)):
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

// step moves to the next row, and reports whether that is at the key or behind, or there
// is none before the limit. It looks a little ahead, and farther where nothing lies, also
// the next time; it gives up when it has come by many entries, which it looks after
// each time, or has looked often. Of what was deleted by range in the same memtable it
// comes by all.
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

// ahead sets bound to the key of a table whose keys begin with uids so far ahead of
// the position. It reports false if there is none.
func (c *cursor) ahead(reach uint64) bool {
	from := c.position()
	at, ok := uid.Place(from[1:])
	if !ok || at > math.MaxUint64-reach {
		return false
	}
	c.bound = binary.BigEndian.AppendUint64(append(c.bound[:0], from[:2]...), at+reach)
	return true
}

// position is the key of the row that it is on, or where it has paused; nil if
// nothing is known.
func (c *cursor) position() []byte {
	switch c.at {
	case pebble.IterValid:
		return c.Key()
	case pebble.IterAtLimit:
		return c.limit
	}
	return nil
}

// passed is how many entries it has come by: rows, deleted ones and older versions of
// them; those that were deleted by range count twice.
func (c *cursor) passed() uint64 {
	s := c.Stats().InternalStats
	return s.PointCount + s.PointsCoveredByRangeTombstones
}

// next moves to the next row, unless that is at the limit or behind.
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

// on reports whether it is on a row whose key begins with the prefix.
func (c *cursor) on(prefix []byte) bool {
	return c.at == pebble.IterValid && bytes.HasPrefix(c.Key(), prefix)
}

// get moves to a key, and reports whether there is such a row.
func (c *cursor) get(key []byte) bool {
	c.at = pebble.IterExhausted
	return c.SeekPrefixGE(key)
}
