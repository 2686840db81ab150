package writer

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Submit queues a request. If the queue is full, the request is refused as overloaded. It
// is safe for concurrent use and does not block.
func (w *Writer) Submit(r *Request) {
	switch w.queue.put(r) {
	case queueFull:
		w.turnAway(r, w.overloaded())
	case queueClosed:
		w.turnAway(r, w.notWriter())
	}
}

// turnAway answers a request that is not queued with an error.
func (w *Writer) turnAway(r *Request, err *lifecycle.Error) {
	if r.recorded != 0 {
		w.abandon(r)
		return
	}
	r.done(nil, err)
}

// Queued returns the number of requests that wait to be decided, and their size in bytes.
func (w *Writer) Queued() (requests, bytes int) { return w.queue.size() }

// Do submits a request, whose Done it sets, and waits for the outcome. If ctx ends first, Do
// returns the error of ctx, and the outcome is unknown.
func (w *Writer) Do(ctx context.Context, r *Request) (proto.Message, error) {
	type outcome struct {
		reply proto.Message
		err   *lifecycle.Error
	}
	decided := make(chan outcome, 1)
	r.Done = func(reply proto.Message, err *lifecycle.Error) { decided <- outcome{reply, err} }
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
		Reason:     lifecycle.ReasonTooManyRequests,
		Message:    fmt.Sprintf("realm %s: too many commands are queued; try again later", w.c.Realm),
		RetryAfter: 50 * time.Millisecond,
	}
}

func (w *Writer) notWriter() *lifecycle.Error {
	why := "this is not the writer any more"
	if skew := w.skew.Load(); skew != nil {
		why = (*skew).Error()
	}
	return &lifecycle.Error{
		Reason:     lifecycle.ReasonServiceUnavailable,
		Message:    fmt.Sprintf("realm %s: %s; another takes over; try again", w.c.Realm, why),
		RetryAfter: 250 * time.Millisecond,
	}
}
