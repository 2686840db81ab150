package state

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// commandMemory is how much memory the commands of the newest commits may take, in
// bytes. The table of commands has all.
const commandMemory = 64 << 20

// What a row and each of its commands take in memory, at most: a fingerprint in the
// row, and one with a sequence in the index, which is between 7/16 and 7/8 full.
const (
	bytesOfRow     = 64
	bytesOfCommand = 8 + 2*17 + 8
)

// commands has the newest commands that are kept in memory, so that a new command
// is known to be new without a read of the disk. It is empty when the state has been
// opened, and safe for concurrent use.
//
// Commands are known by a fingerprint of 64 bits, with a seed that is drawn here. The
// log decides about equal fingerprints: see writer.recall.
type commands struct {
	most int // bytes
	seed maphash.Seed

	mu    sync.RWMutex
	rows  []commandPrints // oldest first, without gaps from there on
	bytes int
	index map[uint64]uint64 // fingerprint to sequence<<1 | unfinished
	now   lifecycle.Time    // of the newest commit
	// Of the commands that are kept and are not in memory: the time of the last
	// commit, and the greatest time in an id. Zero if there are none.
	older, olderID lifecycle.Time
}

// commandPrints is a row of commands as it is in memory.
type commandPrints struct {
	sequence uint64
	time     lifecycle.Time // of the commit
	newest   lifecycle.Time // the greatest time in an id
	prints   []uint64
}

func newCommands(most int) *commands {
	return &commands{most: most, seed: maphash.MakeSeed(), index: map[uint64]uint64{}}
}

func (c *commands) setMost(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = bytes
}

// load says what the table has, of which nothing is in memory.
func (c *commands) load(at *coppicev1.Checkpoint) {
	c.now = lifecycle.Time(at.GetTime())
	if at.GetNewestCommandId() != 0 {
		c.older, c.olderID = c.now, lifecycle.Time(at.GetNewestCommandId()*1000)
	}
}

func (c *commands) print(k CommandKey) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.Write(k.ID[:])
	_, _ = h.WriteString(k.Actor)
	return h.Sum64()
}

// find returns where a command is. If it is not in memory, but may be in the table, it
// returns up to what time the commits are not in memory, otherwise zero. id is the time
// in the command's id.
func (c *commands) find(k CommandKey, id lifecycle.Time) (r Recorded, ok bool, older lifecycle.Time) {
	print := c.print(k)
	c.mu.RLock()
	defer c.mu.RUnlock()
	if at, ok := c.index[print]; ok {
		r = Recorded{Sequence: at >> 1, Unfinished: at&1 != 0}
		i, found := slices.BinarySearchFunc(c.rows, r.Sequence, func(row commandPrints, sequence uint64) int {
			return cmp.Compare(row.sequence, sequence)
		})
		return r, found && max(c.rows[i].time, id) >= horizon(c.now), 0
	}
	if id <= c.olderID && max(c.older, id) >= horizon(c.now) {
		return r, false, c.older
	}
	return r, false, 0
}

// update adds the commands of commits, the last of which has a time, and drops
// those that are not kept any more or do not fit into the memory.
func (c *commands) update(added []commandRow, now lifecycle.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	for _, row := range added {
		c.add(row)
	}
	n := 0
	for horizon := horizon(now); n < len(c.rows); n++ {
		row := &c.rows[n]
		kept := max(row.time, row.newest) >= horizon
		if kept {
			if c.bytes <= c.most || n == len(c.rows)-1 {
				break
			}
			c.older, c.olderID = row.time, max(c.olderID, row.newest)
		}
		for _, print := range row.prints {
			if c.index[print]>>1 == row.sequence {
				delete(c.index, print)
			}
		}
		c.bytes -= row.bytes()
	}
	clear(c.rows[:n])
	c.rows = c.rows[n:]
}

func (c *commands) add(row commandRow) {
	p := commandPrints{sequence: row.sequence, time: row.time, prints: make([]uint64, len(row.commands))}
	for i, k := range row.commands {
		at := row.sequence << 1
		if k.Unfinished {
			at |= 1
		}
		t, _ := k.ID.Time()
		p.newest = max(p.newest, t)
		p.prints[i] = c.print(k.CommandKey)
		c.index[p.prints[i]] = at
	}
	c.rows = append(c.rows, p)
	c.bytes += p.bytes()
}

func (p *commandPrints) bytes() int { return bytesOfRow + len(p.prints)*bytesOfCommand }
