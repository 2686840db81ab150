package state

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// commandMemory is the default maximum memory for commands, in bytes. It has those of the
// newest commits; the table of commands has all.
const commandMemory = 64 << 20

// The maximum memory of a row and of each of its commands, in bytes: a fingerprint in the
// row, and one with a sequence in the index, which is between 7/16 and 7/8 full.
const (
	bytesOfRow     = 64
	bytesOfCommand = 8 + 2*17 + 8
)

// commands is an in-memory index of the newest commands, which recognises a new command
// without a read of the disk. It is empty after the state is opened. It is safe for
// concurrent use.
//
// Commands are identified by a fingerprint of 64 bits with a random seed. Fingerprints can
// collide, so the writer compares the command in the log: see writer.recall.
type commands struct {
	most int // bytes
	seed maphash.Seed

	mu    sync.RWMutex
	rows  []commandPrints // oldest first, without gaps from there on
	bytes int
	index map[uint64]uint64 // fingerprint to sequence<<1 | unfinished
	now   lifecycle.Time    // of the newest commit
	// The time of the last commit, and the latest time in an id, of the kept commands that
	// are not in memory. Zero if there are none.
	older, olderID lifecycle.Time
}

// commandPrints is a row of commands in memory.
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

// load initializes c for a table of which nothing is in memory.
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

// find returns the position of a command in the log. If the command is not in memory but
// may be in the table, older is the time of the last commit that is not in memory,
// otherwise zero. id is the time in the command's id.
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

// update adds the commands of commits. now is the time of the last of them. It drops
// commands that are not kept any more or do not fit into the memory.
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
