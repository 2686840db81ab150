package state

import (
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// written is a filter of the names that were written or deleted not long ago:
// all those that may be in a memtable still, and others. A name that it does not
// have is looked up in the tables alone, whose own filters rule most out: names
// that are new, as most are that are looked up, cost no search of memtables. It
// is safe for concurrent use.
type written struct {
	perHalf int // bytes of batches that each half is for

	mu         sync.RWMutex
	young, old []block
	bytes      int // of batches, in young
}

// block is a Bloom filter of its own, in one line of the processor's cache.
type block [8]uint64

// nameBlocks is how many blocks a half has: two million names then have 16 bits
// each. With more it has more false positives.
const nameBlocks = 1 << 16

// newWritten returns the filter for a state that has nothing in memtables, and
// never more than unflushed bytes of batches.
func newWritten(unflushed int) *written {
	return &written{perHalf: unflushed, young: make([]block, nameBlocks), old: make([]block, nameBlocks)}
}

// hash is the hash by which a filter knows a key.
func hash(key []byte) uint64 { return xxhash.Sum64(key) }

// bits are those of a key by its hash: which block, and four bits in it.
func bits(h uint64) (at uint32, set [4]uint32) {
	at = uint32(h) % nameBlocks
	for i := range set {
		set[i] = uint32(h>>(28+9*i)) % 512
	}
	return at, set
}

// add adds the hashes of the keys of a batch of so many bytes, before it is
// written.
func (w *written) add(keys []uint64, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes >= w.perHalf {
		// What is in old was written before all that memtables can hold.
		w.young, w.old = w.old, w.young
		clear(w.young)
		w.bytes = 0
	}
	for _, key := range keys {
		at, set := bits(key)
		for _, i := range set {
			w.young[at][i/64] |= 1 << (i % 64)
		}
	}
	w.bytes += bytes
}

// may reports whether a key may have been written lately.
func (w *written) may(key []byte) bool {
	at, set := bits(hash(key))
	w.mu.RLock()
	defer w.mu.RUnlock()
	young, old := true, true
	for _, i := range set {
		young = young && w.young[at][i/64]&(1<<(i%64)) != 0
		old = old && w.old[at][i/64]&(1<<(i%64)) != 0
	}
	return young || old
}

// storedName returns which object has a name, "" if none has, as stored.
func (tx *Tx) storedName(resource, namespace, name string) (u uid.UID) {
	if tx.s == nil {
		return tx.r.lookup(resource, namespace, name)
	}
	tx.r.key = nameKey(tx.r.key[:0], resource, namespace, name)
	if tx.s.written.may(tx.r.key) {
		return tx.r.lookup(resource, namespace, name)
	}
	if tx.tables == nil {
		it, err := tx.s.db.NewIter(&pebble.IterOptions{
			LowerBound: []byte{tableName}, UpperBound: []byte{tableName + 1}, UseL6Filters: true, OnlyReadGuaranteedDurable: true,
		})
		if err != nil {
			tx.r.fail("name", err)
			return ""
		}
		tx.tables = it
	}
	if tx.tables.SeekPrefixGE(tx.r.key) {
		value, err := tx.tables.ValueAndErr()
		if err != nil {
			tx.r.fail("name", err)
		}
		return uid.UID(value)
	}
	if err := tx.tables.Error(); err != nil {
		tx.r.fail("name", err)
	}
	return ""
}

// Drop ends a Tx that is not flushed. It may be called more than once.
func (tx *Tx) Drop() {
	if tx.tables != nil {
		if err := tx.tables.Close(); err != nil {
			tx.r.fail("name", err)
		}
		tx.tables = nil
	}
}
