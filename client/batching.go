package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/election"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/tracing"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Most of the cost of a request with one object is the cost of a message. So if
// maxRequests requests to create objects of a resource and namespace wait for their
// replies, the objects of further callers wait in a queue, and the next request has
// as many of them as fit. Only Create uses batches: its replies are as large as its
// requests, so that the size of a reply is known.
const (
	maxRequests = 4         // requests that wait for replies
	maxMembers  = 256       // objects in a batch
	maxShared   = 256 << 10 // bytes in a batch
	// maxWait is how long an object waits in the queue. If no request completes in
	// that time, its reply may be lost, and the object is sent as its own request.
	maxWait = 100 * time.Millisecond
)

// batches has the queue of each resource and namespace.
type batches struct {
	maxWait time.Duration
	mu      sync.Mutex
	queues  map[bus.API]*queue
}

func newBatches() *batches { return &batches{maxWait: maxWait, queues: map[bus.API]*queue{}} }

type queue struct {
	requests int // that wait for replies, with one object or a batch
	waiting  []*member
}

// member is one caller of Create.
type member struct {
	data    []byte // an encoded ObjectsRequest with one object
	trace   trace.SpanContext
	term    *election.Term // of the caller, which has it if it is a leader; a batch has one
	batch   *batchOf       // nil while the member waits in the queue
	outcome chan outcome   // has room for one
}

type outcome struct {
	Result
	error
}

// batchOf is a request with the objects of several callers.
type batchOf struct {
	members []*member
	present int             // members whose callers still wait
	ctx     context.Context // ends when no caller waits
	cancel  context.CancelFunc
	last    error // of the last failed attempt
}

// createBatched creates an object, in a batch if many callers create objects.
func (r *resourceClient) createBatched(ctx context.Context, o *Object, into *Reply) (*Object, error) {
	// The object is encoded here, because the caller may change it after a return.
	data, err := encode(&coppicev1.ObjectsRequest{Objects: []*Object{o}})
	if err != nil {
		return nil, err
	}
	c, a := r.c, r.api(bus.VerbCreate)
	unbatched := func() (*Object, error) {
		var reply coppicev1.ObjectsReply
		return object(&reply, into, c.sendCommand(ctx, a, data, &reply, nil))
	}
	m := &member{data: data, trace: trace.SpanContextFromContext(ctx), term: election.TermOf(ctx), outcome: make(chan outcome, 1)}
	if !c.batches.enter(a, m) {
		defer c.completed(a)
		return unbatched()
	}
	ctx, cancel := c.withRetryTimeout(ctx)
	defer cancel()
	long := time.NewTimer(c.batches.maxWait)
	defer long.Stop()
	for {
		select {
		case out := <-m.outcome:
			if out.error != nil {
				return nil, out.error
			}
			if out.Err != nil && rpc.Retryable(out.Err) { // as an unbatched request is retried
				return unbatched()
			}
			if into != nil {
				*into = Reply{Revision: out.Revision, Warnings: out.Warnings, Created: out.Created}
			}
			return out.Object, out.Err
		case <-long.C:
			if c.batches.withdraw(a, m) {
				return unbatched()
			}
		case <-ctx.Done():
			err := error(&Error{Reason: ErrTimeout, Message: "create: the request was not sent, because earlier requests got no reply in time; nothing has changed"})
			if !c.batches.withdraw(a, m) {
				err = c.batches.leave(m)
			}
			return nil, rpc.Ended(ctx, err)
		}
	}
}

// completed notes that a request has completed, and starts the next one if objects wait.
func (c *Client) completed(a bus.API) {
	if b := c.batches.next(a, c.nc.MaxPayload()); b != nil {
		go c.sendBatch(a, b)
	}
}

// sendBatch sends a batch, and gives each member its outcome.
func (c *Client) sendBatch(a bus.API, b *batchOf) {
	defer c.completed(a)
	defer b.cancel()
	defer runtime.Gosched() // callers may create their next objects before the next batch starts
	// In protobuf, concatenated encodings of a message with a repeated field are the
	// encoding of one message with all elements.
	var data []byte
	for _, m := range b.members {
		data = append(data, m.data...)
	}
	options, err := encode(&coppicev1.ObjectsRequest{ReturnObjects: true})
	var reply coppicev1.ObjectsReply
	if err == nil {
		ctx, span := c.startBatch(b)
		err = c.sendCommand(ctx, a, append(data, options...), &reply, func(err error) { c.batches.failed(b, err) })
		tracing.End(span, err)
	}
	list := results(&reply)
	if err == nil && len(list) != len(b.members) {
		err = fmt.Errorf("create: %w", errResults(len(list), len(b.members)))
	}
	for i, m := range b.members {
		if err != nil {
			m.outcome <- outcome{error: err}
			continue
		}
		var e *Error
		if errors.As(list[i].Err, &e) {
			e.Index = 0 // the caller knows of one object
		}
		m.outcome <- outcome{Result: list[i]}
	}
}

// enter reports whether a member has to wait in the queue.
func (b *batches) enter(a bus.API, m *member) (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[a]
	if q == nil {
		q = &queue{}
		b.queues[a] = q
	}
	if q.requests < maxRequests {
		q.requests++
		return false
	}
	q.waiting = append(q.waiting, m)
	return true
}

// next returns the batch that follows a completed request, nil if no member waits.
func (b *batches) next(a bus.API, maxPayload int64) *batchOf {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[a]
	if len(q.waiting) == 0 {
		if q.requests--; q.requests == 0 {
			delete(b.queues, a)
		}
		return nil
	}
	return q.take(maxPayload)
}

// take returns a batch of the members that have waited longest. Its request and its
// reply fit into messages of the largest size.
func (q *queue) take(maxPayload int64) *batchOf {
	n, size := 0, 0
	for n < len(q.waiting) {
		size += len(q.waiting[n].data)
		if n > 0 && (q.waiting[n].term != q.waiting[0].term || size > min(maxShared, int(maxPayload/4)) || n == min(maxMembers, int(maxPayload>>12))) {
			break
		}
		n++
	}
	b := &batchOf{members: slices.Clone(q.waiting[:n]), present: n}
	b.ctx, b.cancel = context.WithCancel(election.With(context.Background(), q.waiting[0].term))
	for _, m := range b.members {
		m.batch = b
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
	return b
}

// withdraw removes a member from the queue. It reports false for one that is in a batch.
func (b *batches) withdraw(a bus.API, m *member) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.batch != nil {
		return false
	}
	q := b.queues[a]
	q.waiting = slices.DeleteFunc(q.waiting, func(other *member) bool { return other == m })
	return true
}

// failed keeps the error of the last attempt, for members that leave the batch.
func (b *batches) failed(of *batchOf, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of.last = err
}

// leave removes a member from its batch, and cancels the batch if it was the last. It
// returns the error of the last attempt if there was one.
func (b *batches) leave(m *member) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := m.batch
	if of.present--; of.present == 0 {
		of.cancel()
	}
	if of.last != nil {
		return of.last
	}
	return &Error{Reason: ErrTimeout, Message: "create: no reply in time; the request may have been carried out"}
}
