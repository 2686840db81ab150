package writer

import (
	"slices"
	"sync"
	"time"
)

// queue has the requests that wait to be decided. It is bounded in their number, in their
// bytes, and in the estimated time to decide them all. It hands them out in turns: one
// request of each actor, or a part of one, in the order in which the actor has submitted them.
//
// When the queue is full, these rules bound what an actor can take from others:
//
//   - A request is refused if its actor would have more than its equal share of the bound,
//     which is the bound divided by the number of actors with requests in the queue.
//   - Otherwise it is accepted, and the newest requests of the actor that has the most are
//     removed and refused in its place. So number and bytes never exceed their bounds.
//     The time can: each actor has at most its share of it, or one request, whose time then corrects the estimate.
//   - A request that is larger than a bound is accepted by an empty queue. A request that
//     was handed out and could not be decided returns to the front, even if the queue is full.
type queue struct {
	maxLength, maxBytes int
	maxTime             time.Duration
	budget              *Budget

	mu      sync.Mutex
	waits   load             // all requests in the queue
	lines   map[string]*line // the lines that have requests, by actor
	turns   []*line          // the same, in the order of their turns
	classes map[classKey]*class
	all     int // number of callers of all requests since the queue was created
	closed  bool
	wake    chan struct{} // has a token only while there are requests
	always  chan struct{} // is closed: ready returns it while there are requests
}

// load is a number of requests, their bytes, and the estimated time to decide them.
type load struct {
	requests, bytes int
	time            time.Duration
}

// line has the requests of an actor, in order.
type line struct {
	load
	actor string
	list  []*Request
}

// classKey is what requests have in common that take about the same time.
type classKey struct{ actor, verb string }

// class estimates the time that requests of a kind take.
type class struct {
	estimate time.Duration // moving average of the time to decide a request
	waiting  int           // number of such requests in the queue
}

// maxClasses is the number of classes from which on those without requests are forgotten.
const maxClasses = 4096

type putResult int

const (
	queued putResult = iota
	queueFull
	queueClosed
)

func newQueue(length, bytes int, work time.Duration, budget *Budget) *queue {
	q := &queue{
		maxLength: length, maxBytes: bytes, maxTime: work, budget: budget, lines: map[string]*line{}, classes: map[classKey]*class{},
		wake: make(chan struct{}, 1), always: make(chan struct{}),
	}
	close(q.always)
	return q
}

// put adds a request behind those of its actor. It returns the requests that it has removed
// in its place, which are to be refused.
func (q *queue) put(r *Request) (result putResult, removed []*Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return queueClosed, nil
	}
	if r.class == nil {
		r.class = q.class(classKey{r.Actor, r.Verb})
	}
	for q.waits.requests > 0 {
		victim, fits := q.admit(r)
		if fits {
			break
		}
		if victim == nil {
			return queueFull, removed
		}
		end := len(victim.list) - 1
		last := victim.list[end]
		victim.list[end] = nil // its body is not kept
		victim.list = victim.list[:end]
		q.count(victim, last, -1)
		if len(victim.list) == 0 {
			q.remove(victim)
		}
		removed = append(removed, last)
	}
	l := q.lineOf(r.Actor, false)
	l.list = append(l.list, r)
	q.count(l, r, 1)
	q.all += r.callers()
	q.signal()
	return queued, removed
}

// admit reports whether a request fits into the queue. If it does not, admit returns the
// line whose last request is to be removed in its place, nil if there is none.
func (q *queue) admit(r *Request) (victim *line, fits bool) {
	own := load{1, r.Size, r.class.estimate}
	actors := len(q.lines)
	if l := q.lines[r.Actor]; l != nil {
		own = load{l.requests + 1, l.bytes + r.Size, l.time + own.time}
	} else {
		actors++
	}
	if own.requests > 1 && q.waits.time+r.class.estimate > q.maxTime && own.time > q.maxTime/time.Duration(actors) {
		return nil, false
	}
	most := min(q.maxBytes, q.waits.bytes+q.budget.left(q.waits.bytes))
	var of func(load) int
	switch {
	case q.waits.requests >= q.maxLength:
		of, most = func(l load) int { return l.requests }, q.maxLength
	case q.waits.bytes+r.Size > most:
		of = func(l load) int { return l.bytes }
	default:
		return nil, true
	}
	if of(own) > most/actors {
		return nil, false
	}
	for _, l := range q.turns {
		if l.list[len(l.list)-1].begun || of(l.load) <= of(own) {
			continue
		}
		if victim == nil || of(l.load) > of(victim.load) {
			victim = l
		}
	}
	return victim, false
}

// putBack adds a request that was handed out, and could not be decided, in front of all
// others: it is handed out next.
func (q *queue) putBack(r *Request) { q.insert(r, true) }

// putBackPart adds a request that was handed out, and of which a part was decided, in front of those of its
// actor, and gives other actors their turns before it goes on.
func (q *queue) putBackPart(r *Request) { q.insert(r, false) }

// insert adds a request in front of those of its actor, which has the next turn if next is true.
func (q *queue) insert(r *Request, next bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lineOf(r.Actor, next)
	l.list = slices.Insert(l.list, 0, r)
	q.count(l, r, 1)
	q.signal()
}

// lineOf returns the line of an actor, which has the next turn if first is true. A line that
// it creates has the last turn otherwise.
func (q *queue) lineOf(actor string, first bool) *line {
	l := q.lines[actor]
	switch {
	case l == nil:
		l = &line{actor: actor}
		q.lines[actor] = l
	case first:
		q.turns = slices.DeleteFunc(q.turns, func(other *line) bool { return other == l })
	default:
		return l
	}
	if first {
		q.turns = slices.Insert(q.turns, 0, l)
	} else {
		q.turns = append(q.turns, l)
	}
	return l
}

// count adds a request that was added to a line, or subtracts one that was removed from it.
func (q *queue) count(l *line, r *Request, sign int) {
	for _, n := range []*load{&q.waits, &l.load} {
		n.requests += sign
		n.bytes += sign * r.Size
		n.time += time.Duration(sign) * r.class.estimate
	}
	r.class.waiting += sign
	q.budget.add(sign * r.Size)
}

// remove removes an empty line.
func (q *queue) remove(l *line) {
	delete(q.lines, l.actor)
	q.turns = slices.DeleteFunc(q.turns, func(other *line) bool { return other == l })
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// ready returns a channel that can be received from when there are requests.
func (q *queue) ready() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waits.requests > 0 {
		return q.always
	}
	return q.wake
}

// next removes and returns the request whose turn it is, nil if there is none.
func (q *queue) next() *Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return nil
	}
	l := q.turns[0]
	r := l.list[0]
	l.list[0] = nil
	l.list = l.list[1:]
	q.count(l, r, -1)
	switch {
	case len(l.list) == 0:
		delete(q.lines, l.actor)
		q.turns[0] = nil
		q.turns = q.turns[1:]
	case len(q.turns) > 1:
		q.turns = append(q.turns[1:], l)
	}
	if q.waits.requests == 0 {
		select {
		case <-q.wake:
		default:
		}
	}
	return r
}

// class returns the class of a key.
func (q *queue) class(key classKey) *class {
	c := q.classes[key]
	if c != nil {
		return c
	}
	if len(q.classes) >= maxClasses {
		for k, c := range q.classes {
			if c.waiting == 0 {
				delete(q.classes, k)
			}
		}
	}
	c = &class{}
	q.classes[key] = c
	return c
}

// updateEstimate updates the estimate for requests of the same actor and verb as one that was decided.
// The estimate is a moving average that begins with zero, so that one request which was
// slow by chance does not fill the queue.
func (q *queue) updateEstimate(r *Request, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := r.class
	change := (took - c.estimate) / 8
	c.estimate += change
	if c.waiting > 0 {
		all := time.Duration(c.waiting) * change
		q.waits.time += all
		q.lines[r.Actor].time += all
	}
}

// load returns what waits.
func (q *queue) load() load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waits
}

// arrived returns the number of callers of all requests since the queue was created.
func (q *queue) arrived() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}

// close closes the queue, and removes and returns its requests.
func (q *queue) close() (list []*Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, l := range q.turns {
		list = append(list, l.list...)
	}
	q.budget.add(-q.waits.bytes)
	q.lines, q.turns, q.waits = map[string]*line{}, nil, load{}
	return list
}
