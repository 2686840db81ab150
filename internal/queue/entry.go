package queue

import (
	"container/heap"
	"slices"
	"time"
)

// entry returns the entry of a key, a new one if it has none.
func (q *Queue[K]) entry(key K) *entry[K] {
	e := q.entries[key]
	if e == nil {
		e = &entry[K]{key: key}
		q.entries[key] = e
	}
	return e
}

// add makes an entry ready.
func (q *Queue[K]) add(e *entry[K], f Flags) {
	e.flags |= f
	if e.ready {
		return
	}
	e.ready = true
	if !e.active {
		q.append(e)
	}
}

// append adds a ready entry to the order in which keys are handed out.
func (q *Queue[K]) append(e *entry[K]) {
	if e != &q.all {
		q.order = append(q.order, e)
		q.ready++
	}
	q.signal()
}

// maxStale is how many entries of order are not ready before it is compacted.
const maxStale = 4096

// compact drops entries of order that were forgotten, if most were.
func (q *Queue[K]) compact() {
	if stale := len(q.order) - q.next - q.ready; stale > maxStale && stale > q.ready {
		q.order = slices.DeleteFunc(q.order[q.next:], func(e *entry[K]) bool { return !e.ready })
		q.next = 0
	}
}

// schedule makes an entry ready at a time, at the earliest of those given, but not
// while it rests.
func (q *Queue[K]) schedule(e *entry[K], f Flags, at time.Time) {
	if at.Before(e.rest) {
		at = e.rest
	}
	e.later |= f
	if !e.timed || at.Before(e.at) {
		e.timed = true
		q.move(e, at)
	}
}

// move gives an entry its time.
func (q *Queue[K]) move(e *entry[K], at time.Time) {
	e.at = at
	if e.place > 0 {
		heap.Fix(&q.times, e.place-1)
	} else {
		heap.Push(&q.times, e)
	}
	if e.place == 1 {
		q.signal()
	}
}

func (q *Queue[K]) round(at time.Time) time.Time {
	if step := q.c.Step; step > 0 {
		at = at.Add(step - 1).Truncate(step)
	}
	return at
}

// elapse makes ready what has become due.
func (q *Queue[K]) elapse() {
	if len(q.times) == 0 {
		return
	}
	now := q.c.Now()
	for len(q.times) > 0 && !q.times[0].at.After(now) {
		e := heap.Pop(&q.times).(*entry[K])
		e.rest = time.Time{}
		if e.timed {
			f := e.later
			e.timed, e.later = false, 0
			q.add(e, f)
		} else if !e.ready && !e.active {
			delete(q.entries, e.key)
		}
	}
}

// signal wakes a caller of Get, now or when it waits next. One that finds nothing to
// do waits again.
func (q *Queue[K]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// timer fires when the next key becomes ready.
func (q *Queue[K]) timer() <-chan time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.times) == 0 {
		return nil
	}
	return time.After(q.times[0].at.Sub(q.c.Now()))
}

// times is a heap of the entries that have a time, or rest.
type times[K comparable] []*entry[K]

func (t times[K]) Len() int           { return len(t) }
func (t times[K]) Less(i, j int) bool { return t[i].at.Before(t[j].at) }

func (t times[K]) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i+1, j+1
}

// Push implements heap.Interface.
func (t *times[K]) Push(x any) {
	e := x.(*entry[K])
	*t = append(*t, e)
	e.place = len(*t)
}

// Pop implements heap.Interface.
func (t *times[K]) Pop() any {
	n := len(*t) - 1
	e := (*t)[n]
	(*t)[n] = nil
	*t = (*t)[:n]
	e.place = 0
	return e
}
