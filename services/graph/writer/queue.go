package writer

import "sync"

// queue is a bounded queue of requests, from which all are taken at once.
type queue struct {
	maxLength, maxBytes int

	mu     sync.Mutex
	list   []*Request
	bytes  int
	all    int // callers of all requests so far
	closed bool
	wake   chan struct{} // has a token while there may be requests
	always chan struct{}
}

type putResult int

const (
	queued putResult = iota
	queueFull
	queueClosed
)

func newQueue(length, bytes int) *queue {
	q := &queue{maxLength: length, maxBytes: bytes, wake: make(chan struct{}, 1), always: make(chan struct{})}
	close(q.always)
	return q
}

func (q *queue) put(r *Request) putResult {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return queueClosed
	case len(q.list) > 0 && (len(q.list) >= q.maxLength || q.bytes+r.Size > q.maxBytes):
		return queueFull
	}
	q.list = append(q.list, r)
	q.bytes += r.Size
	q.all += r.callers()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return queued
}

// ready returns a channel that can be received from when there may be requests, or at once
// if now is true.
func (q *queue) ready(now bool) <-chan struct{} {
	if now {
		return q.always
	}
	return q.wake
}

// take removes and returns all requests.
func (q *queue) take() []*Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list, q.bytes = nil, 0
	return list
}

// size returns the number of queued requests and their bytes.
func (q *queue) size() (length, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list), q.bytes
}

// arrived returns the number of callers of all requests since the queue was created.
func (q *queue) arrived() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}

// close closes the queue and returns its requests.
func (q *queue) close() []*Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	list := q.list
	q.list, q.bytes = nil, 0
	return list
}
