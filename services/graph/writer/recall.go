package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// repeated reports whether the command of a request was carried out before: then its reply is read
// from the log. If the log has only its first parts, the request continues the command.
func (w *Writer) repeated(ctx context.Context, r *Request) (bool, error) {
	if r.ID == (state.CommandID{}) {
		return false, nil
	}
	if r.begun { // by this writer, which continues it
		return false, nil
	}
	at, ok, err := w.c.State.Command(r.key())
	if err != nil {
		return false, fmt.Errorf("writer: %w", err)
	}
	if !ok || at.Unfinished && at.Sequence == r.lastPart {
		return false, nil
	}
	r.lastPart = at.Sequence
	select {
	case w.recalls <- struct{}{}:
		w.recalling.Go(func() {
			defer func() { <-w.recalls }()
			w.recall(ctx, at, r)
		})
	default:
		w.abandon(r)
	}
	return true, nil
}

// recall answers a repeated command from the log, or resumes it if the log does not have
// all parts.
func (w *Writer) recall(ctx context.Context, at state.Recorded, r *Request) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply := r.Work.NewReply()
	err := w.readParts(ctx, at.Sequence, r, reply)
	switch {
	case errors.Is(err, errAnother):
		w.answer(outcome{r: r, err: unknown(r, lifecycle.TimeOf(w.c.Now()))})
		return
	case errors.Is(err, eventlog.ErrCut):
		w.answer(outcome{r: r, err: w.notInLog(at.Sequence)})
		return
	case err == nil && at.Unfinished:
		w.resume(r, reply)
		return
	case err == nil:
		w.answer(outcome{r: r, reply: reply})
		return
	}
	w.c.Logger.Warn("cannot recall the outcome of a repeated command", "realm", w.c.Realm, "sequence", at.Sequence, "error", err)
	w.abandon(r)
}

// resume queues a request to continue after the parts that the log has. reply is the reply
// to these parts.
func (w *Writer) resume(r *Request, reply proto.Message) {
	work, ok := r.Work.(Partial)
	if !ok {
		w.answer(outcome{r: r, err: lifecycle.ErrBadRequest("the command id is that of another command, which is not finished")})
		return
	}
	if err := work.Resume(reply); err != nil {
		w.answer(outcome{r: r, err: err})
		return
	}
	result, removed := w.queue.put(r)
	w.refuseRemoved(removed)
	if result != queued {
		w.abandon(r)
	}
}

// errAnother is returned for a commit that does not have the command.
var errAnother = errors.New("the commit does not have the command")

// readParts adds the outcomes of a command to a reply, from its first part to the part in
// the commit at a sequence.
func (w *Writer) readParts(ctx context.Context, sequence uint64, r *Request, reply proto.Message) error {
	type part struct {
		commit  *eventlog.Decoded
		command int
	}
	var parts []part
	for sequence != 0 {
		message, err := w.c.Log.Get(ctx, sequence)
		if err != nil {
			return err
		}
		c, err := eventlog.Decode(message)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(c.Commands, func(k eventlog.CommandRef) bool { return k.ID == r.ID && k.Actor == r.Actor })
		if i < 0 {
			return errAnother
		}
		previous := c.Commands[i].PreviousPart
		if previous >= sequence {
			return fmt.Errorf("sequence %d names sequence %d as the part before", sequence, previous)
		}
		parts = append(parts, part{c, i})
		sequence = previous
	}
	for _, p := range slices.Backward(parts) {
		if err := readPart(p.commit, p.command, r.Work, reply); err != nil {
			return err
		}
	}
	return nil
}
