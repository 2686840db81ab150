package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// What a message costs is most of what a request with one object costs. So where
// many callers of a Client create objects of the same resource and namespace, a few
// requests are on their way at once, and what comes meanwhile goes together in the
// next. Only creations do: what is answered is as large as what is sent.
const (
	maxFlights = 4         // requests of a kind on their way, but for one that is late
	maxMembers = 256       // callers whose objects go together
	maxShared  = 256 << 10 // bytes of them
	// maxWait is how long a caller waits for a place. Where none becomes free,
	// as those who have one wait for an answer that is lost, they go apart.
	maxWait = 100 * time.Millisecond
	// Callers come again as soon as they are answered, but not all at once: the first
	// of them take the places, and the others would wait until a whole commit later.
	// Where that is long, as where a sync of the disk takes long, one more request
	// carries them, an eighth of the time later that a request takes.
	longFlight = 2 * time.Millisecond
	lateAfter  = 8
)

// queues are creations of one object each, by where they are made.
type queues struct {
	longest time.Duration // that a caller waits for a place
	mu      sync.Mutex
	of      map[bus.API]*queue
}

func newQueues() *queues { return &queues{longest: maxWait, of: map[bus.API]*queue{}} }

type queue struct {
	flights int // of both sorts: alone and together
	waiting []*member
	takes   time.Duration // how long requests that carry many take
}

// member is a caller whose object goes together with those of others.
type member struct {
	data    []byte       // an ObjectsRequest with one object
	flight  *flight      // that it is on, nil as long as it waits
	outcome chan outcome // has room for it
}

type outcome struct {
	Result
	error
}

// flight is a request for many callers, some of whom may not wait any more.
type flight struct {
	members []*member
	present int
	ctx     context.Context // ends when nobody is present
	cancel  context.CancelFunc
	last    error // of the last attempt that has failed
}

// create creates an object, together with those of other callers if many are under
// way.
func (o *Objects) create(ctx context.Context, opts WriteOptions, object *coppicev1.Object) (Result, error) {
	if o.c.apart || opts != (WriteOptions{}) {
		return one(o.write(ctx, bus.VerbCreate, opts, object))
	}
	// Whoever does not wait any more may do with the object what they like.
	data, err := encode(&coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{object}})
	if err != nil {
		return Result{}, err
	}
	a := o.api(bus.VerbCreate)
	alone := func() (Result, error) {
		var reply coppicev1.ObjectsReply
		return one(&reply, o.c.send(ctx, a, true, data, &reply, nil))
	}
	m := &member{data: data, outcome: make(chan outcome, 1)}
	waits, late := o.c.queues.wait(a, m)
	if !waits {
		defer o.c.land(a)
		return alone()
	}
	if late > 0 {
		time.AfterFunc(late, func() { o.c.launch(a, o.c.queues.late(a, o.c.nc.MaxPayload())) })
	}
	ctx, cancel := o.c.patiently(ctx)
	defer cancel()
	long := time.NewTimer(o.c.queues.longest)
	defer long.Stop()
	for {
		select {
		case out := <-m.outcome:
			if out.Err != nil && rpc.Retryable(out.Err) { // as it is where it went alone
				return alone()
			}
			return out.Result, out.error
		case <-long.C:
			if o.c.queues.withdraw(a, m) {
				return alone()
			}
		case <-ctx.Done():
			var err error
			if o.c.queues.withdraw(a, m) {
				err = &Error{Reason: Timeout, Message: "the request was not sent in time, as those before it were not answered; nothing has changed"}
			} else {
				err = o.c.queues.leave(m)
			}
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err = fmt.Errorf("%s: %w", a.Subject(), ctx.Err())
			}
			return Result{}, err
		}
	}
}

// land ends a flight. The next one takes its place, if anybody waits.
func (c *Client) land(a bus.API) { c.launch(a, c.queues.take(a, c.nc.MaxPayload())) }

func (c *Client) launch(a bus.API, f *flight) {
	if f != nil {
		go c.fly(a, f)
	}
}

// fly sends what the members of a flight write, and tells each what became of it.
func (c *Client) fly(a bus.API, f *flight) {
	defer c.land(a)
	defer f.cancel()
	defer runtime.Gosched() // who was answered may come again at once
	// Of a repeated field, encodings one behind the other are the encoding of all.
	var data []byte
	for _, m := range f.members {
		data = append(data, m.data...)
	}
	whole, err := encode(&coppicev1.ObjectsRequest{Whole: true})
	var reply coppicev1.ObjectsReply
	if err == nil {
		sent := time.Now()
		err = c.send(f.ctx, a, true, append(data, whole...), &reply, func(err error) { c.queues.failed(f, err) })
		if err == nil {
			c.queues.took(a, time.Since(sent))
		}
	}
	list := results(&reply)
	if err == nil && len(list) != len(f.members) {
		err = &Error{Reason: InternalError, Message: fmt.Sprintf("%d results for %d objects", len(list), len(f.members))}
	}
	for i, m := range f.members {
		if err != nil {
			m.outcome <- outcome{error: err}
			continue
		}
		var e *Error
		if errors.As(list[i].Err, &e) {
			e.Index = 0 // of the one that the caller knows of
		}
		m.outcome <- outcome{list[i], list[i].Err}
	}
}

// wait reports whether a caller has to wait, as there are enough flights, and if
// there may be one more, after how long.
func (q *queues) wait(a bus.API, m *member) (waits bool, late time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.of[a]
	if at == nil {
		at = &queue{}
		q.of[a] = at
	}
	if at.flights < maxFlights {
		at.flights++
		return false, 0
	}
	at.waiting = append(at.waiting, m)
	if len(at.waiting) == 1 && at.takes >= longFlight {
		late = min(at.takes/lateAfter, maxWait/4)
	}
	return true, late
}

// late returns a flight beyond those that have a place, nil if nobody waits or there
// is one.
func (q *queues) late(a bus.API, largest int64) *flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.of[a]
	if at == nil || len(at.waiting) == 0 || at.flights > maxFlights {
		return nil
	}
	at.flights++
	return at.next(largest)
}

// took notes how long a flight took, which has not landed yet.
func (q *queues) took(a bus.API, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.of[a]
	at.takes += (d - at.takes) / 8
}

// take returns the flight that takes the place of one that has landed, nil if nobody
// waits.
func (q *queues) take(a bus.API, largest int64) *flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.of[a]
	if len(at.waiting) == 0 {
		if at.flights--; at.flights == 0 {
			delete(q.of, a)
		}
		return nil
	}
	return at.next(largest)
}

// next returns the flight of those who have waited longest. What it carries and what is
// answered fits into messages of the largest size.
func (at *queue) next(largest int64) *flight {
	n, size := 0, 0
	for n < len(at.waiting) {
		size += len(at.waiting[n].data)
		if n > 0 && (size > min(maxShared, int(largest/4)) || n == min(maxMembers, int(largest>>12))) {
			break
		}
		n++
	}
	f := &flight{members: slices.Clone(at.waiting[:n]), present: n}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, m := range f.members {
		m.flight = f
	}
	at.waiting = slices.Delete(at.waiting, 0, n)
	return f
}

// withdraw takes a caller out that waits for a place. It reports false for one who
// has got one.
func (q *queues) withdraw(a bus.API, m *member) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.flight != nil {
		return false
	}
	at := q.of[a]
	at.waiting = slices.DeleteFunc(at.waiting, func(other *member) bool { return other == m })
	return true
}

// failed notes why an attempt of a flight has failed, for who leaves it.
func (q *queues) failed(f *flight, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.last = err
}

// leave takes a caller off their flight. It returns what to say of it.
func (q *queues) leave(m *member) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := m.flight
	if f.present--; f.present == 0 {
		f.cancel()
	}
	if f.last != nil {
		return f.last
	}
	return &Error{Reason: Timeout, Message: "no answer in time; it is not known whether the request was carried out"}
}
