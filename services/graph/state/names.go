package state

import (
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/uid"
)

// nameFilter is a Bloom filter of the names that were written or deleted recently: all names
// that may still be in a memtable, and others. A name that is not in it is looked up only
// in the tables on disk, whose own filters exclude most new names. So the look-up of a new
// name, which is the usual case, does not search the memtables. It is safe for concurrent
// use.
type nameFilter struct {
	perHalf int // maximum size in bytes of the batches whose keys a half has

	mu         sync.RWMutex
	young, old half
	bytes      int // size of the batches whose keys young has
}

// half is a part of the filter. Its chunks are nil until a name is in them: a process may
// have hundreds of states, of which most have few names.
type half []*[chunkBlocks]block

// chunkBlocks is the number of blocks of a chunk, which has 4 KiB.
const chunkBlocks = 64

// block is a Bloom filter in one cache line of the processor.
type block [8]uint64

// nameBlocks is the number of blocks of a half. Two million names have 16 bits each; with
// more names there are more false positives.
const nameBlocks = 1 << 16

// newNameFilter returns the filter for a state with empty memtables, which never have more
// than unflushed bytes of batches.
func newNameFilter(unflushed int) *nameFilter {
	return &nameFilter{perHalf: unflushed, young: make(half, nameBlocks/chunkBlocks), old: make(half, nameBlocks/chunkBlocks)}
}

// hash returns the hash of a key in the filter.
func hash(key []byte) uint64 { return xxhash.Sum64(key) }

// bits returns the block of a hash, and four bits in it.
func bits(h uint64) (at uint32, set [4]uint32) {
	at = uint32(h) % nameBlocks
	for i := range set {
		set[i] = uint32(h>>(28+9*i)) % 512
	}
	return at, set
}

// add adds the hashes of the keys of a batch, of a size in bytes. It must be called before
// the batch is written.
func (w *nameFilter) add(keys []uint64, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes >= w.perHalf {
		// The names in old were written before everything that memtables can have.
		w.young, w.old = w.old, w.young
		for _, chunk := range w.young {
			if chunk != nil {
				*chunk = [chunkBlocks]block{}
			}
		}
		w.bytes = 0
	}
	for _, key := range keys {
		at, set := bits(key)
		chunk := w.young[at/chunkBlocks]
		if chunk == nil {
			chunk = &[chunkBlocks]block{}
			w.young[at/chunkBlocks] = chunk
		}
		b := &chunk[at%chunkBlocks]
		for _, i := range set {
			b[i/64] |= 1 << (i % 64)
		}
	}
	w.bytes += bytes
}

// may reports whether a key may have been written recently.
func (w *nameFilter) may(key []byte) bool {
	at, set := bits(hash(key))
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.young.may(at, set) || w.old.may(at, set)
}

func (h half) may(at uint32, set [4]uint32) bool {
	chunk := h[at/chunkBlocks]
	if chunk == nil {
		return false
	}
	b := &chunk[at%chunkBlocks]
	for _, i := range set {
		if b[i/64]&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}

// storedName returns the object that has a name in the state, "" if none has.
func (tx *Tx) storedName(resource, namespace, name string) (u uid.UID) {
	if tx.s == nil {
		return tx.r.lookup(resource, namespace, name)
	}
	tx.r.key = nameKey(tx.r.key[:0], resource, namespace, name)
	if tx.s.nameFilter.may(tx.r.key) {
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
