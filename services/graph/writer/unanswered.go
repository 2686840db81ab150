package writer

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// unansweredCommand is a command whose outcome is not known yet.
type unansweredCommand struct {
	first       *Request
	repetitions []func(proto.Message, *lifecycle.Error) // Request.Done of each repetition
	expires     time.Time                               // when the last of its clients stops waiting; zero for never
}

// Limits of the repetitions that wait for the outcomes of unanswered commands. A client that
// repeats a command after each timeout has a few.
const (
	maxRepetitions    = 64    // for each command
	maxAllRepetitions = 16384 // for all commands together
)

// repeat adds a repetition to an unanswered command, and reports whether it could. w.mu is locked.
func (w *Writer) repeat(p *unansweredCommand, r *Request) bool {
	switch { // also if it is refused: its client waits, and repeats the command once more
	case r.Expires.IsZero():
		p.expires = r.Expires
	case !p.expires.IsZero() && r.Expires.After(p.expires):
		p.expires = r.Expires
	}
	if len(p.repetitions) >= maxRepetitions || w.repetitions >= maxAllRepetitions {
		return false
	}
	p.repetitions = append(p.repetitions, r.Done)
	w.repetitions++
	return true
}

// dropExpired drops a request if its clients, also those that repeated it, no longer wait for the
// reply, and reports whether it has. If parts of the command are in the log, the clients get
// an error, as a client may still repeat the command. A command is not dropped if a part is
// in flight, or if no client can repeat it because it has no id.
func (w *Writer) dropExpired(r *Request) (bool, error) {
	if r.Expires.IsZero() {
		return false, nil
	}
	now := w.now()
	if now.Before(r.Expires) {
		return false, nil
	}
	if r.lastPart != 0 {
		if r.ID == (state.CommandID{}) || !w.noClientWaits(r, now, false) {
			return false, nil
		}
		at, ok, err := w.c.State.Command(r.key())
		if err != nil {
			return false, fmt.Errorf("writer: %w", err)
		}
		if !ok || !at.Unfinished || at.Sequence != r.lastPart {
			return false, nil
		}
		w.c.Counted(CountExpired)
		w.abandon(r)
		return true, nil
	}
	if !w.noClientWaits(r, now, true) {
		return false, nil
	}
	w.c.Counted(CountExpired)
	if r.Span != nil {
		tracing.End(r.Span, errExpired)
	}
	return true, nil
}

// errExpired is in the span of a request that was dropped.
var errExpired = errors.New("the client no longer waits; the request was dropped")

// noClientWaits reports whether no client waits any more for the outcome of a request. If remove is
// true, it then removes the unanswered command.
func (w *Writer) noClientWaits(r *Request, now time.Time, remove bool) bool {
	if r.ID == (state.CommandID{}) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.unanswered[r.key()]
	switch {
	case p == nil || p.first != r:
	case p.expires.IsZero() || now.Before(p.expires):
		return false
	case remove:
		w.forget(r)
	}
	return true
}

// forget removes the unanswered command of a request and returns it, nil if there is none. w.mu
// is locked.
func (w *Writer) forget(r *Request) *unansweredCommand {
	p := w.unanswered[r.key()]
	if p == nil || p.first != r {
		return nil
	}
	delete(w.unanswered, r.key())
	w.repetitions -= len(p.repetitions)
	return p
}

// answer sends an outcome to the client of a request, and to those that repeated it.
func (w *Writer) answer(o outcome) {
	o.r.done(o.reply, o.err)
	if o.r.ID == (state.CommandID{}) {
		return
	}
	w.mu.Lock()
	p := w.forget(o.r)
	w.mu.Unlock()
	if p == nil {
		return
	}
	for _, done := range p.repetitions {
		done(o.reply, o.err)
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
		Reason: api.ErrTimeout,
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
		if o.r.lastPart == 0 {
			w.answer(outcome{r: o.r, err: w.notWriter()})
		} else {
			w.abandon(o.r)
		}
	}
}
