package writer

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// time returns the time of a commit that begins now. It is never before that of the last
// commit.
func (w *Writer) time() lifecycle.Time { return max(lifecycle.TimeOf(w.c.Now()), w.chain.Time) }

// Now returns the time of the writer's clock. It is safe for concurrent use.
func (w *Writer) Now() time.Time { return w.c.Now() }

// checkID returns an error for a request whose command is not stored, if its id does not
// prove that the command is new. If the time in the id is too old, the command may have
// been executed and its record deleted. If the time is too far ahead, the command would not
// be recorded (state.CommandAhead), and a repetition would execute it again.
//
// This is also safe if another writer has taken over unnoticed: that writer refuses the id
// as well, since its newest commit is not older.
func (w *Writer) checkID(r *Request) *lifecycle.Error {
	if r.ID == (state.CommandID{}) || r.lastPart != 0 {
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

// ahead reports whether the time in a request's id is too late for the open commit, whose
// time is that of its beginning. The next commit can have the request.
func (w *Writer) ahead(r *Request) bool {
	if r.ID == (state.CommandID{}) {
		return false
	}
	t, _ := r.ID.Time()
	return t > w.open.d.Ctx.Now.Add(state.CommandAhead)
}

// ErrCommandID returns the error for a command whose id cannot be accepted at a time.
func ErrCommandID(now lifecycle.Time, format string, args ...any) *lifecycle.Error {
	what := fmt.Sprintf(format, args...)
	return &lifecycle.Error{
		Reason:     api.ErrInvalid,
		Message:    what + "; send the command with a UUIDv7 of the server's time, " + now.Time().Format(time.RFC3339Nano),
		Causes:     []lifecycle.Cause{{Reason: "FieldValueInvalid", Field: "Coppice-Command", Message: what}},
		ServerTime: now.Time(),
	}
}

// unknown returns the error for a command that may have been executed already.
func unknown(r *Request, now lifecycle.Time) *lifecycle.Error {
	t, _ := r.ID.Time()
	return &lifecycle.Error{
		Reason: api.ErrOutcomeUnknown,
		Message: fmt.Sprintf("the command was not carried out now, and may have been before: its id is of %s, and commands are recognised for %s; "+
			"if this is the first attempt, send it with a new id; otherwise read the objects to see its outcome",
			t.Time().Format(time.RFC3339Nano), state.KeepCommands),
		ServerTime: now.Time(),
	}
}

// notInLog returns the error for a command that was begun or carried out by a commit which the
// stream does not have. To try again cannot help.
func (w *Writer) notInLog(sequence uint64) *lifecycle.Error {
	return &lifecycle.Error{
		Reason: api.ErrOutcomeUnknown,
		Message: fmt.Sprintf("the command was begun or carried out before, and its outcome is not known: commit %d, which has it, is not in the log of realm %s, "+
			"which was restored or truncated; read the objects to see its outcome", sequence, w.c.Realm),
	}
}

func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// suffixLetters are the letters of Kubernetes' generated names: without vowels, so that
// they form no words, and without letters and digits that look alike.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

func newSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:])
	for i := range b {
		b[i] = suffixLetters[int(b[i])%len(suffixLetters)]
	}
	return string(b[:])
}
