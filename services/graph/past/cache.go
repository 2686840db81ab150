package past

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits bound a Cache. A zero field has its default value.
type Limits struct {
	// Bytes is the maximum size of all states on disk; 2 GiB. It may be exceeded for a moment, by at most
	// what one batch of commits or 4 MiB of a snapshot write.
	Bytes int64
	// States is the maximum number of states; 4. Each is an open Pebble store, which keeps up to
	// 64 MiB of nodes that were read.
	States int
	// Building is the maximum number of states that are built at the same time; 1.
	Building int
	// Waiting is the maximum number of states that wait to be built; 4.
	Waiting int
	// Actor is the maximum number of states that are built, or wait for that, because of the same
	// actor; 2. So no actor takes all places.
	Actor int
	// Rate is the maximum rate in bytes per second at which the log is folded for all states
	// that are being built; 32 MiB/s. The writer of the realm works alongside.
	Rate int64
	// Free is the room in bytes that building a state leaves on the disk; 256 MiB.
	Free uint64
}

func (l *Limits) setDefaults() {
	l.Bytes = cmp.Or(l.Bytes, 2<<30)
	l.States = cmp.Or(l.States, 4)
	l.Building = cmp.Or(l.Building, 1)
	l.Waiting = cmp.Or(l.Waiting, 4)
	l.Actor = cmp.Or(l.Actor, 2)
	l.Rate = cmp.Or(l.Rate, 32<<20)
	l.Free = cmp.Or(l.Free, 256<<20)
}

// Cache has the states of all realms of a process on disk. It is safe for concurrent use.
type Cache struct {
	dir    string
	l      Limits
	blocks *pebble.Cache
	places chan struct{} // one for each state that is built
	rate   *rate.Limiter // bytes of the log that are folded

	mu      sync.Mutex
	entries []*entry  // the least recently used first
	named   uint64    // the number of the last directory
	refused []refusal // the oldest first
}

// entry is a state that is built, or being built.
type entry struct {
	reader *Reader
	commit Commit
	actor  string // for which the state is built
	dir    string
	from   atomic.Uint64 // the sequence with which the building began
	at     atomic.Uint64 // and that it has reached

	built chan struct{} // closed when state or err is set
	state *state.State
	err   error

	// Under Cache.mu:
	users   int // calls of At and building ones
	bytes   int64
	dropped bool // it is not in entries any more
}

// blockCache is the size of the block cache that all states share, in bytes.
const blockCache = 64 << 20

// rateBurst is the number of bytes of the log that may be folded at once.
const rateBurst = 1 << 20

// NewCache returns an empty cache in a directory, which it removes first. It must be closed
// after its histories.
func NewCache(dir string, l Limits) (*Cache, error) {
	l.setDefaults()
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("past: %w", err)
	}
	return &Cache{dir: dir, l: l, blocks: state.NewCache(state.Config{CacheSize: blockCache}), places: make(chan struct{}, l.Building), rate: rate.NewLimiter(rate.Limit(l.Rate), rateBurst)}, nil
}

// Close removes the cache.
func (c *Cache) Close() error {
	c.blocks.Unref()
	return os.RemoveAll(c.dir)
}

// Usage is what a cache has.
type Usage struct {
	States int
	Bytes  int64
}

// Usage returns what the cache has.
func (c *Cache) Usage() (u Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		u.States++
		u.Bytes += e.bytes
	}
	return u
}

func (e *entry) is(reader *Reader, sequence uint64) bool {
	return e.reader == reader && e.commit.Sequence == sequence
}

func (e *entry) percent() int {
	from, at := e.from.Load(), e.at.Load()
	if e.commit.Sequence <= from || at <= from {
		return 0
	}
	return int(100 * (at - from) / (e.commit.Sequence - from))
}

func (e *entry) done() bool {
	select {
	case <-e.built:
		return true
	default:
		return false
	}
}

// has reports whether the cache has the state after a commit, or builds it.
func (c *Cache) has(reader *Reader, sequence uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.entries, func(e *entry) bool { return e.is(reader, sequence) })
}

// enter returns the entry of a commit, and begins to build its state for an actor if there is none. release
// must be called once.
func (c *Cache) enter(reader *Reader, actor string, commit Commit) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.entries, func(e *entry) bool { return e.is(reader, commit.Sequence) }); i >= 0 {
		e := c.entries[i]
		c.entries = append(slices.Delete(c.entries, i, i+1), e)
		e.users++
		return e, nil
	}
	if err := c.refusal(reader, commit.Sequence); err != nil {
		return nil, err
	}
	building, own := 0, 0
	for _, e := range c.entries {
		if !e.done() {
			building++
			if e.actor == actor {
				own++
			}
		}
	}
	if most := c.l.Building + c.l.Waiting; building >= most {
		return nil, overloaded("realm %s: %d states of the past are being built or wait for that, the most at one time; try again later", reader.c.Realm, most)
	}
	if own >= c.l.Actor {
		return nil, overloaded("realm %s: %d states of the past are being built for %s or wait for that, the most for one actor; try again later", reader.c.Realm, own, actor)
	}
	if reader.ctx.Err() != nil {
		return nil, reader.failed(commit, reader.ctx.Err())
	}
	c.named++
	e := &entry{reader: reader, commit: commit, actor: actor, dir: filepath.Join(c.dir, strconv.FormatUint(c.named, 10)), built: make(chan struct{}), users: 2}
	c.entries = append(c.entries, e)
	reader.jobs.Go(func() { c.build(e) })
	return e, nil
}

func overloaded(format string, args ...any) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrTooManyRequests, RetryAfter: time.Second, Message: fmt.Sprintf(format, args...)}
}

// build builds the state of an entry when there is a place.
func (c *Cache) build(e *entry) {
	defer c.release(e)
	leave := func() {}
	defer func() {
		close(e.built)
		leave() // afterwards, so that the next one to be built can begin with this state
	}()
	select {
	case c.places <- struct{}{}:
		leave = func() { <-c.places }
	case <-e.reader.ctx.Done():
		e.err = e.reader.failed(e.commit, e.reader.ctx.Err())
	}
	if e.err == nil {
		if err := e.build(); err != nil {
			e.err = e.reader.failed(e.commit, err)
		}
	}
	if e.err != nil {
		c.mu.Lock()
		c.remove(e) // the next request tries again, unless the state is too large
		c.refuse(e)
		c.mu.Unlock()
	}
}

// release ends a use of an entry. The last one of an entry that was dropped removes its state.
func (c *Cache) release(e *entry) {
	c.mu.Lock()
	e.users--
	last := e.users == 0 && e.dropped
	c.mu.Unlock()
	if last {
		e.discard()
	}
}

// remove takes an entry out of the cache. c.mu is locked.
func (c *Cache) remove(e *entry) {
	e.dropped = true
	c.entries = slices.DeleteFunc(c.entries, func(o *entry) bool { return o == e })
}

// discard closes the state of an entry, and deletes it.
func (e *entry) discard() {
	var err error
	if e.state != nil {
		err = e.state.Close()
	}
	if err = errors.Join(err, os.RemoveAll(e.dir)); err != nil {
		e.reader.c.Logger.Warn("cannot delete a state of the past", "directory", e.dir, "error", err)
	}
}

// drop removes the entries of a realm, in which nothing is built any more.
func (c *Cache) drop(reader *Reader) error {
	var unused []*entry
	c.mu.Lock()
	c.refused = slices.DeleteFunc(c.refused, func(r refusal) bool { return r.reader == reader })
	for _, e := range slices.Clone(c.entries) {
		if e.reader == reader {
			c.remove(e)
			if e.users == 0 {
				unused = append(unused, e)
			}
		}
	}
	c.mu.Unlock()
	for _, e := range unused {
		e.discard()
	}
	return nil
}
