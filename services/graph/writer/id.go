package writer

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// time is the time of a commit that began now: commits do not go back in time.
func (w *Writer) time() lifecycle.Time { return max(lifecycle.TimeOf(w.c.Now()), w.chain.Time) }

// Now is the time of the writer's clock. It is safe for concurrent use.
func (w *Writer) Now() time.Time { return w.c.Now() }

// checkID refuses a request whose command is not known, and by its id cannot be known
// to be new: if it is that old, its commit may be forgotten, and if its time is ahead,
// it would be forgotten too early.
//
// It is as safe where another writer has taken over without this one having noticed:
// that one refuses as well, since its newest commit is no older.
func (w *Writer) checkID(r *Request) *lifecycle.Error {
	if r.ID == (state.CommandID{}) || r.recorded != 0 {
		return nil
	}
	t, ok := r.ID.Time()
	now := w.time()
	switch {
	case !ok:
		return ErrCommandID(now, "the command id is not a UUIDv7")
	case t > now.Add(state.CommandAhead):
		return ErrCommandID(now, "the time in the command id is more than %s after the server's time", state.CommandAhead)
	case t < w.chain.Time.Add(-state.KeepCommands):
		return unknown(r, now)
	}
	return nil
}

// ahead reports whether the time in a request's id is too late for the open commit,
// which has its time from when it was begun. The next one can have the request.
func (w *Writer) ahead(r *Request) bool {
	if r.ID == (state.CommandID{}) {
		return false
	}
	t, _ := r.ID.Time()
	return t > w.open.d.Ctx.Now.Add(state.CommandAhead)
}

// ErrCommandID is the refusal of a command whose id cannot be accepted at a time.
func ErrCommandID(now lifecycle.Time, format string, args ...any) *lifecycle.Error {
	what := fmt.Sprintf(format, args...)
	return &lifecycle.Error{
		Reason:     lifecycle.ReasonInvalid,
		Message:    what + "; send the command with a UUIDv7 of the server's time, " + now.Time().Format(time.RFC3339Nano),
		Causes:     []lifecycle.Cause{{Reason: "FieldValueInvalid", Field: "Coppice-Command", Message: what}},
		ServerTime: now.Time(),
	}
}

// unknown is the refusal, at a time, of a command that may have been carried out.
func unknown(r *Request, now lifecycle.Time) *lifecycle.Error {
	t, _ := r.ID.Time()
	return &lifecycle.Error{
		Reason: lifecycle.ReasonOutcomeUnknown,
		Message: fmt.Sprintf("the command was not carried out now, and may have been before: its id is of %s, and commands are recognised for %s; "+
			"if it was sent for the first time, send it with a new id, otherwise read what became of it",
			t.Time().Format(time.RFC3339Nano), state.KeepCommands),
		ServerTime: now.Time(),
	}
}

func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// suffixLetters are those of Kubernetes' generated names: no vowels, so that
// no words come about, and nothing that looks like something else.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

func newSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:])
	for i := range b {
		b[i] = suffixLetters[int(b[i])%len(suffixLetters)]
	}
	return string(b[:])
}
