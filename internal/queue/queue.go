package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Flags say what there is to do about a key. Their meaning is the caller's.
type Flags uint8

// Config has the settings of a queue.
type Config struct {
	// Limit is how many keys at most are ready, and how many have a time; 65,536 if
	// zero. Those that are being processed count for neither.
	Limit int
	// Step is to what multiples times are rounded up, so that keys whose times are
	// close together are handed out together; none if zero.
	Step time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// DefaultLimit is the Limit of a queue without one.
const DefaultLimit = 1 << 16

// Queue is a delaying work queue. Its methods are safe for concurrent use.
type Queue[K comparable] struct {
	c    Config
	wake chan struct{} // one of the callers of Get has something to do

	mu      sync.Mutex
	entries map[K]*entry[K]
	all     entry[K]    // what AddAll adds
	order   []*entry[K] // that became ready, and those that ceased to be since
	next    int         // in order
	ready   int         // how many of order are ready
	times   times[K]
}

// entry is a key that is ready, has a time, rests or is being processed.
type entry[K comparable] struct {
	key    K
	flags  Flags // of adds for now
	later  Flags // of adds with a time
	ready  bool  // added for now; if active, it is handed out again
	active bool  // being processed
	timed  bool  // added with a time
	place  int   // in times plus one, 0 for none
	at     time.Time
	rest   time.Time // not handed out before
}

// Item is a key that was handed out.
type Item[K comparable] struct {
	Key   K
	Flags Flags // of all adds since it was handed out last
	entry *entry[K]
}

// Batch is what one call of Get hands out.
type Batch[K comparable] struct {
	Items []Item[K]
	// All: everything is to be processed, with AllFlags.
	All      bool
	AllFlags Flags
}

// New returns an empty queue.
func New[K comparable](c Config) *Queue[K] {
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Queue[K]{c: c, wake: make(chan struct{}, 1), entries: map[K]*entry[K]{}}
}

// Tx adds and forgets keys in a call of Update.
type Tx[K comparable] struct{ q *Queue[K] }

// Update calls f, whose adds take place at once and cost one lock. f must not
// call other methods of the queue.
func (q *Queue[K]) Update(f func(Tx[K])) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f(Tx[K]{q})
}

// Add adds a key for now. It reports false, and does nothing, if the queue is full.
func (q *Queue[K]) Add(key K, f Flags) (ok bool) {
	q.Update(func(tx Tx[K]) { ok = tx.Add(key, f) })
	return ok
}

// AddAt adds a key for a time. It reports false, and does nothing, if the queue is
// full.
func (q *Queue[K]) AddAt(key K, f Flags, at time.Time) (ok bool) {
	q.Update(func(tx Tx[K]) { ok = tx.AddAt(key, f, at) })
	return ok
}

// AddAll adds everything for now, instead of single keys.
func (q *Queue[K]) AddAll(f Flags) {
	q.Update(func(Tx[K]) { q.add(&q.all, f) })
}

// AddAllAt adds everything for a time.
func (q *Queue[K]) AddAllAt(f Flags, at time.Time) {
	q.Update(func(Tx[K]) { q.schedule(&q.all, f, q.round(at)) })
}

// Forget drops what was added for a key, except for flags of keep that were added
// for now. It does not end its processing.
func (q *Queue[K]) Forget(key K, keep Flags) {
	q.Update(func(tx Tx[K]) { tx.Forget(key, keep) })
}

// Rest has a key that is being processed not handed out again before at, whatever is
// added. It has no effect if as many keys rest or have a time as the limit allows.
func (q *Queue[K]) Rest(key K, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.place == 0 && len(q.times) >= q.c.Limit {
		return
	}
	e.rest = at
	if !e.timed || e.at.Before(at) {
		q.move(e, at)
	}
}

// Pending reports whether a key is ready or being processed.
func (q *Queue[K]) Pending(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	return e != nil && (e.ready || e.active)
}

// Has reports whether a key is ready, has a time, or is being processed.
func (q *Queue[K]) Has(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	return e != nil && (e.ready || e.active || e.timed)
}

// Get waits until keys are ready, and hands out at most limit of them, all if limit is
// 0. The caller must report them as Done. It returns the error of ctx.
func (q *Queue[K]) Get(ctx context.Context, limit int) (Batch[K], error) {
	for {
		b, ok := q.Take(limit)
		if ok {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return b, ctx.Err()
		case <-q.wake:
		case <-q.timer():
		}
	}
}

// Take is Get for callers that do not wait. It reports whether anything was ready.
func (q *Queue[K]) Take(limit int) (b Batch[K], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.elapse()
	if q.all.ready && !q.all.active {
		b.All, b.AllFlags = true, q.all.flags
		q.all.ready, q.all.flags, q.all.active = false, 0, true
	}
	n := q.ready
	if limit > 0 {
		n = min(n, limit)
	}
	b.Items = make([]Item[K], 0, n)
	for ; len(b.Items) < n; q.next++ {
		if e := q.order[q.next]; e.ready {
			b.Items = append(b.Items, Item[K]{e.key, e.flags, e})
			e.ready, e.flags, e.active = false, 0, true
		}
		q.order[q.next] = nil
	}
	if q.ready -= n; q.ready == 0 {
		clear(q.order)
		q.order, q.next = q.order[:0], 0
	}
	ok = b.All || n > 0
	if ok && (q.ready > 0 || len(q.times) > 0) {
		q.signal() // another caller of Get, which takes more, or waits for the next time
	}
	return b, ok
}

// Done ends the processing of a batch. Keys that were added meanwhile are ready, or
// rest.
func (q *Queue[K]) Done(b Batch[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.All {
		if q.all.active = false; q.all.ready {
			q.signal()
		}
	}
	now := time.Time{}
	for i := range b.Items {
		e := b.Items[i].entry
		e.active = false
		if !e.rest.IsZero() && now.IsZero() {
			now = q.c.Now()
		}
		switch {
		case e.ready && e.rest.After(now):
			f := e.flags
			e.ready, e.flags = false, 0
			q.schedule(e, f, e.rest)
		case e.ready:
			q.append(e)
		case e.place == 0:
			delete(q.entries, e.key)
		}
	}
}

// Add is Queue.Add.
func (tx Tx[K]) Add(key K, f Flags) bool {
	q := tx.q
	e := q.entries[key]
	if e == nil && q.ready >= q.c.Limit {
		return false
	}
	if e == nil {
		e = q.entry(key)
	}
	if e.rest.IsZero() || !e.rest.After(q.c.Now()) {
		q.add(e, f)
	} else {
		q.schedule(e, f, e.rest)
	}
	return true
}

// AddAt is Queue.AddAt.
func (tx Tx[K]) AddAt(key K, f Flags, at time.Time) bool {
	q := tx.q
	if e := q.entries[key]; (e == nil || e.place == 0) && len(q.times) >= q.c.Limit {
		return false
	}
	q.schedule(q.entry(key), f, q.round(at))
	return true
}

// Forget is Queue.Forget.
func (tx Tx[K]) Forget(key K, keep Flags) {
	q := tx.q
	e := q.entries[key]
	if e == nil {
		return
	}
	if e.place > 0 {
		heap.Remove(&q.times, e.place-1)
	}
	e.timed, e.later, e.rest = false, 0, time.Time{}
	if e.flags &= keep; e.ready && e.flags != 0 {
		return
	}
	if !e.active {
		delete(q.entries, key)
		if e.ready {
			q.ready--
		}
	}
	e.ready = false
	q.compact()
}
