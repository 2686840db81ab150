package console

import (
	"context"
	"sync"
	"time"
)

// cached is a value that is read again when it is old. Readers receive the last value meanwhile, and wait only for the
// first one. It is the same for all readers, so none of them can end a read.
type cached[T any] struct {
	// read reads the value, for at most the time. It returns false if there is none, and the last one is kept.
	read func(ctx context.Context) (T, bool)
	age  time.Duration // after which it is old
	time time.Duration // of a read

	mu      sync.Mutex
	value   T
	at      time.Time     // when the last read ended
	reading chan struct{} // closed when the read ends; nil without one
}

// get returns the value. has is false if there is none yet, or if ctx ended before the first read did.
func (c *cached[T]) get(ctx context.Context) (value T, has bool) {
	c.mu.Lock()
	if c.reading == nil && (c.at.IsZero() || time.Since(c.at) > c.age) {
		c.reading = make(chan struct{})
		go c.refresh(context.WithoutCancel(ctx), c.reading)
	}
	first, reading := c.at.IsZero(), c.reading
	c.mu.Unlock()
	if first {
		select {
		case <-reading:
		case <-ctx.Done():
			return value, false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, !c.at.IsZero()
}

func (c *cached[T]) refresh(ctx context.Context, reading chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	value, ok := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.value = value
	}
	c.at, c.reading = time.Now(), nil
	close(reading)
}
