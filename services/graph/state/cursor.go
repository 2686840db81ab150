package state

import (
	"bytes"

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
}

const (
	// maxMisses is how many misses in a row make a cursor try to step to the next row
	// less often: each twice as seldom as the one before.
	maxMisses = 6
	// fewDeleted is how many deleted rows on the way to the next cost less than a search.
	fewDeleted = 8
)

// seek moves to the first row at the key or behind, unless that is at the limit
// or behind. It reports whether it came there directly from the row before; whether
// to try that is for the caller to say.
func (c *cursor) seek(key, limit []byte, try bool) (stepped bool) {
	from := c.position()
	switch {
	case c.searches > 0:
		c.searches--
	case try && from != nil && (bytes.Compare(from, key) < 0 || c.at == pebble.IterAtLimit && bytes.Equal(from, key)):
		stepped = c.at == pebble.IterValid
		passed := c.passed()
		c.next(limit)
		passed = c.passed() - passed
		there := c.at != pebble.IterValid || bytes.Compare(c.Key(), key) >= 0
		if there && passed <= fewDeleted {
			c.misses = 0
			return stepped
		}
		c.misses = int(min(uint64(c.misses)+1+passed/(4*fewDeleted), maxMisses))
		c.searches = 1<<c.misses - 1
		if there {
			return stepped
		}
	}
	c.moved(c.SeekGEWithLimit(key, limit), limit)
	return false
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

// near reports whether a key of a table whose keys begin with uids is a short way
// ahead: whether its uid was drawn at about the same time as that of the position.
// On the way lies what belongs to the objects that were created in between.
func (c *cursor) near(key []byte) bool {
	from := c.position()
	return len(from) > 1 && uid.DrawnTogether(from[1:], key[1:])
}

// passed is how many rows it has come by, also deleted ones.
func (c *cursor) passed() uint64 {
	s := c.Stats().InternalStats
	return s.PointCount + s.PointsCoveredByRangeTombstones
}

// next moves to the next row, unless that is at the limit or behind.
func (c *cursor) next(limit []byte) { c.moved(c.NextWithLimit(limit), limit) }

func (c *cursor) moved(at pebble.IterValidityState, limit []byte) {
	if c.at = at; at == pebble.IterAtLimit {
		c.limit = append(c.limit[:0], limit...)
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
