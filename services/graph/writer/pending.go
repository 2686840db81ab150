package writer

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// pendingCommand is a command whose outcome is not known yet.
type pendingCommand struct {
	first       *Request
	repetitions []*Request
}

// repeats reports whether the command of a request is pending, and whether the request
// repeats it. A repetition gets the outcome of the pending command.
func (w *Writer) repeats(r *Request) (again, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.pending[r.key()]
	if f == nil {
		return false, false
	}
	if f.first != r {
		f.repetitions = append(f.repetitions, r)
	}
	return f.first != r, true
}

// expect registers a command whose outcome is not known yet.
func (w *Writer) expect(r *Request) {
	if r.ID == (state.CommandID{}) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[r.key()] == nil {
		w.pending[r.key()] = &pendingCommand{first: r}
	}
}

// answer sends an outcome to the client of a request, and to those that repeated it.
func (w *Writer) answer(o outcome) {
	o.r.done(o.reply, o.err)
	if o.r.ID == (state.CommandID{}) {
		return
	}
	w.mu.Lock()
	f := w.pending[o.r.key()]
	if f != nil && f.first == o.r {
		delete(w.pending, o.r.key())
	} else {
		f = nil
	}
	w.mu.Unlock()
	if f == nil {
		return
	}
	for _, r := range f.repetitions {
		r.done(o.reply, o.err)
	}
}

// abandon answers a request of which a part is in the log or may be, and its repetitions,
// with a timeout: the client can repeat the command with its id. A request without an id
// gets no answer.
func (w *Writer) abandon(r *Request) {
	if r.ID == (state.CommandID{}) {
		return
	}
	w.answer(outcome{r: r, err: &lifecycle.Error{
		Reason: lifecycle.ReasonTimeout,
		Message: fmt.Sprintf("realm %s: the command was begun or carried out, and its outcome is not known; "+
			"repeat it with the same command id", w.c.Realm),
		RetryAfter: 250 * time.Millisecond,
	}})
}

// outcome is the result of a request, which is sent once the commit is in the log.
type outcome struct {
	r     *Request
	reply proto.Message
	err   *lifecycle.Error
}

// refuse answers requests whose commit is not in the log: this is no longer the writer.
func (w *Writer) refuse(outcomes []outcome) {
	for _, o := range outcomes {
		if o.r.recorded == 0 {
			w.answer(outcome{r: o.r, err: w.notWriter()})
		} else {
			w.abandon(o.r)
		}
	}
}
