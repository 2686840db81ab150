package writer

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Submit queues a request. If the queue is full, the request is refused as overloaded, or
// requests of another actor are refused in its place: see queue. A request that repeats a
// unanswered command is not queued, and gets the outcome of that command. Submit is safe for
// concurrent use and does not block.
func (w *Writer) Submit(r *Request) {
	result, repeats, removed := w.enqueue(r)
	w.refuseRemoved(removed)
	switch {
	case result == queueClosed:
		r.done(nil, w.notWriter())
	case result == queueFull:
		w.c.Counted(CountRefused)
		err := w.overloaded()
		if repeats {
			err = w.repeatedTooOften()
		}
		r.done(nil, err)
	case repeats:
		w.c.Counted(CountRepeated)
	}
}

// enqueue puts a request into the queue, or adds it to the unanswered command that it repeats.
func (w *Writer) enqueue(r *Request) (result putResult, repeats bool, removed []*Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return queueClosed, false, nil
	}
	if r.ID == (state.CommandID{}) {
		result, removed = w.queue.put(r)
		return result, false, removed
	}
	if p := w.unanswered[r.key()]; p != nil {
		if !w.repeat(p, r) {
			return queueFull, true, nil
		}
		return queued, true, nil
	}
	if result, removed = w.queue.put(r); result == queued {
		w.unanswered[r.key()] = &unansweredCommand{first: r, expires: r.Expires}
	}
	return result, false, removed
}

// refuseRemoved answers requests that were removed from a full queue, and their repetitions.
func (w *Writer) refuseRemoved(removed []*Request) {
	for _, r := range removed {
		w.c.Counted(CountRefused)
		if r.lastPart != 0 {
			w.abandon(r)
		} else {
			w.answer(outcome{r: r, err: w.overloaded()})
		}
	}
}

// Queued returns the number of all requests that wait to be decided, and their size in bytes.
func (w *Writer) Queued() (requests, bytes int) {
	l := w.queue.load()
	return l.requests, l.bytes
}

// Backlog returns the estimated time to decide all requests that wait, and the number of
// requests that wait for the outcome of an unanswered command which they repeat.
func (w *Writer) Backlog() (work time.Duration, repetitions int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.load().time, w.repetitions
}

// Do submits a request, whose Done it sets, and waits for the outcome. If ctx ends first, Do
// returns the error of ctx, and the outcome is unknown. A request that was not decided until
// the deadline of ctx is dropped.
func (w *Writer) Do(ctx context.Context, r *Request) (proto.Message, error) {
	type outcome struct {
		reply proto.Message
		err   *lifecycle.Error
	}
	decided := make(chan outcome, 1)
	r.Done = func(reply proto.Message, err *lifecycle.Error) { decided <- outcome{reply, err} }
	if end, ok := ctx.Deadline(); ok && r.Expires.IsZero() {
		r.Expires = end
	}
	if r.Span == nil {
		r.Span = trace.SpanFromContext(ctx)
	}
	w.Submit(r)
	select {
	case o := <-decided:
		if o.err != nil {
			return nil, o.err
		}
		return o.reply, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *Writer) overloaded() *lifecycle.Error {
	return &lifecycle.Error{
		Reason:     api.ErrTooManyRequests,
		Message:    fmt.Sprintf("realm %s: too many commands are queued; try again later", w.c.Realm),
		RetryAfter: 50 * time.Millisecond,
	}
}

func (w *Writer) repeatedTooOften() *lifecycle.Error {
	return &lifecycle.Error{
		Reason:     api.ErrTooManyRequests,
		Message:    fmt.Sprintf("realm %s: the command has no outcome yet, and too many repetitions of it wait for its outcome; try again later", w.c.Realm),
		RetryAfter: time.Second,
	}
}

func (w *Writer) notWriter() *lifecycle.Error {
	why := "this is not the writer any more"
	if skew := w.skew.Load(); skew != nil {
		why = (*skew).Error()
	}
	return &lifecycle.Error{
		Reason:     api.ErrServiceUnavailable,
		Message:    fmt.Sprintf("realm %s: %s; another takes over; try again", w.c.Realm, why),
		RetryAfter: 250 * time.Millisecond,
	}
}
