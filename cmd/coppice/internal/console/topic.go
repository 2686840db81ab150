package console

import (
	"context"
	"sync"
)

// topic is a value that changes, and for whose changes goroutines wait. A goroutine that is slower than the changes skips
// some, and never the last one.
type topic[T any] struct {
	mu      sync.Mutex
	value   T
	version uint64
	changed chan struct{}
}

// init sets the first value.
func (t *topic[T]) init(v T) { t.value, t.version, t.changed = v, 1, make(chan struct{}) }

// set changes the value.
func (t *topic[T]) set(v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.value = v
	t.version++
	close(t.changed)
	t.changed = make(chan struct{})
}

// get returns the value and its version.
func (t *topic[T]) get() (v T, version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.version
}

// next waits for a value with another version than one that get or next has returned.
func (t *topic[T]) next(ctx context.Context, than uint64) (v T, version uint64, err error) {
	for {
		t.mu.Lock()
		v, version, changed := t.value, t.version, t.changed
		t.mu.Unlock()
		if version != than {
			return v, version, nil
		}
		select {
		case <-ctx.Done():
			return v, version, ctx.Err()
		case <-changed:
		}
	}
}
