package past

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// admit returns an error if a snapshot cannot be loaded into the state of an entry. Its size in bytes is
// that in the archive, compressed: less than what the state has on disk.
func (c *Cache) admit(e *entry, size int64) error {
	if size > c.l.Bytes {
		return c.tooLarge(e)
	}
	return c.free(e, uint64(max(size, 0)))
}

// grow records the size of an entry that is being built in a directory, and removes others until the cache
// is within its limits. It fails if that is not possible.
func (c *Cache) grow(e *entry, dir string) error {
	size, err := sizeOf(dir)
	if err != nil {
		return err
	}
	if size > c.l.Bytes {
		return c.tooLarge(e)
	}
	var unused []*entry
	defer func() {
		for _, u := range unused {
			u.discard()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	e.bytes = size
	for {
		bytes, states := int64(0), 0
		for _, o := range c.entries {
			bytes += o.bytes
			if o.done() || o == e {
				states++
			}
		}
		if bytes <= c.l.Bytes && states <= c.l.States {
			return c.free(e, 0)
		}
		i := slices.IndexFunc(c.entries, func(o *entry) bool { return o.users == 0 })
		if i < 0 {
			return overloaded("realm %s: the cache for states of the past is full of states that are being read; try again later", e.reader.c.Realm)
		}
		unused = append(unused, c.entries[i])
		c.remove(c.entries[i])
	}
}

// tooLarge returns the error for a state that does not fit into the cache. It does not ask the client to
// try again.
func (c *Cache) tooLarge(e *entry) error {
	return &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
		"realm %s: the state at revision %d has more than %d bytes, the limit of the cache for states of the past; raise it with --history-cache", e.reader.c.Realm, e.commit.Revision, c.l.Bytes)}
}

// free returns an error if the disk of a state has too little room to write a number of bytes more.
func (c *Cache) free(e *entry, more uint64) error {
	usage, err := datadir.FS().GetDiskUsage(c.dir)
	needed := c.l.Free + more
	if err != nil || usage.AvailBytes >= needed {
		return nil //nolint:nilerr // without the figure the limit of the cache must do
	}
	return overloaded("realm %s: the disk of the cache for states of the past has %d bytes free, less than %d: make room, or try a revision that was read before", e.reader.c.Realm, usage.AvailBytes, needed)
}

// sizeOf returns the size of the files in a directory in bytes.
func sizeOf(dir string) (size int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, f := range entries {
		if info, err := f.Info(); err == nil { // else Pebble has deleted it meanwhile
			size += info.Size()
		}
	}
	return size, err
}

// refusal is the error for a state that was too large for the cache. It is kept because the request
// that began to build the state may have ended before: the client tries again, and must not have the
// state built again each time.
type refusal struct {
	reader   *Reader
	sequence uint64
	err      error
	until    time.Time
}

// Bounds of the refusals that are kept.
const (
	refusalLasts = time.Minute
	maxRefusals  = 64
)

// refuse keeps the error of an entry if the state is too large. c.mu is locked.
func (c *Cache) refuse(e *entry) {
	var refused *lifecycle.Error
	if !errors.As(e.err, &refused) || refused.Reason != api.ErrRequestEntityTooLarge {
		return
	}
	if len(c.refused) == maxRefusals {
		c.refused = slices.Delete(c.refused, 0, 1)
	}
	c.refused = append(c.refused, refusal{reader: e.reader, sequence: e.commit.Sequence, err: refused, until: time.Now().Add(refusalLasts)})
}

// refusal returns the error that is kept for a state, nil for none. c.mu is locked.
func (c *Cache) refusal(reader *Reader, sequence uint64) error {
	now := time.Now()
	c.refused = slices.DeleteFunc(c.refused, func(r refusal) bool { return !r.until.After(now) })
	for _, r := range c.refused {
		if r.reader == reader && r.sequence == sequence {
			return r.err
		}
	}
	return nil
}
