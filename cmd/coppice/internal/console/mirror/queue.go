package mirror

import "cmp"

// queue has objects ordered by a time. It is a heap that knows the place of each object.
type queue struct {
	heap []waiting
	at   map[uint32]int // places in the heap
}

// waiting is an object in a queue.
type waiting struct {
	since int64 // Unix microseconds
	id    uint32
}

func (w waiting) before(o waiting) bool {
	return cmp.Or(cmp.Compare(w.since, o.since), cmp.Compare(w.id, o.id)) < 0
}

func (q *queue) len() int { return len(q.heap) }

func (q *queue) add(w waiting) {
	if q.at == nil {
		q.at = map[uint32]int{}
	}
	q.heap = append(q.heap, w)
	q.at[w.id] = len(q.heap) - 1
	q.up(len(q.heap) - 1)
}

func (q *queue) remove(id uint32) {
	i, last := q.at[id], len(q.heap)-1
	q.swap(i, last)
	q.heap = q.heap[:last]
	delete(q.at, id)
	if i < last {
		q.up(i)
		q.down(i)
	}
}

// merge adds the objects of another queue, which is empty afterwards. It moves those of the shorter one.
func (q *queue) merge(o *queue) {
	if q.len() < o.len() {
		*q, *o = *o, *q
	}
	for _, w := range o.heap {
		q.add(w)
	}
	*o = queue{}
}

// oldest returns the n objects with the earliest times, in order, in O(n log n).
func (q *queue) oldest(n int) []waiting {
	var found []waiting
	var next queue // places in the heap, by the times there
	if len(q.heap) > 0 {
		next.add(waiting{q.heap[0].since, 0})
	}
	for len(found) < n && next.len() > 0 {
		i := next.heap[0].id
		next.remove(i)
		found = append(found, q.heap[i])
		for _, c := range []uint32{2*i + 1, 2*i + 2} {
			if int(c) < len(q.heap) {
				next.add(waiting{q.heap[c].since, c})
			}
		}
	}
	return found
}

func (q *queue) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.at[q.heap[i].id], q.at[q.heap[j].id] = i, j
}

func (q *queue) up(i int) {
	for i > 0 && q.heap[i].before(q.heap[(i-1)/2]) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (q *queue) down(i int) {
	for {
		c := 2*i + 1
		if c+1 < len(q.heap) && q.heap[c+1].before(q.heap[c]) {
			c++
		}
		if c >= len(q.heap) || !q.heap[c].before(q.heap[i]) {
			return
		}
		q.swap(i, c)
		i = c
	}
}
