package writer

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Request is a command for the writer.
type Request struct {
	// ID identifies the command of the Actor, so that its repetition gets the same
	// outcome; zero for none.
	ID    state.CommandID
	Actor string
	Verb  string
	Note  string
	// Size is the size of the request in the queue, in bytes.
	Size int
	// Callers is the number of callers that wait for the outcome; zero means one.
	Callers int
	// Expires is when the client stops waiting for the reply; zero for never. A request that
	// was not decided until then is dropped.
	Expires time.Time
	Work    Work
	// Span is the span of the request that has the command; nil if it has none.
	Span trace.Span
	// Done is called with the outcome, at most once, from any goroutine. If it is not
	// called, the outcome is unknown. It is kept also for a request that repeats a pending
	// command, while the rest of that request is not: it should not refer to the request's body.
	Done func(proto.Message, *lifecycle.Error)

	answered   atomic.Bool   // Done was called
	lastPart   uint64        // sequence of the commit with the last part of the command; zero if no commit has one
	begun      bool          // Work.Do was called
	class      *class        // the requests whose time to decide is estimated together; set by the queue
	decideTook time.Duration // time to decide the parts of the command so far, and the estimated time to append them
}

// key returns the key by which a repetition of the request is recognised.
func (r *Request) key() state.CommandKey { return state.CommandKey{Actor: r.Actor, ID: r.ID} }

// callers returns the number of callers that wait for the outcome.
func (r *Request) callers() int { return max(r.Callers, 1) }

func (r *Request) done(reply proto.Message, err *lifecycle.Error) {
	if r.answered.CompareAndSwap(false, true) {
		r.Done(reply, err)
	}
}

// Work is what a command does. It is not safe for concurrent use.
type Work interface {
	// Do decides the command on d, and reports whether it is finished. If not, Do is called
	// again for the next commit. An error ends the command; before Do returns it, it must
	// roll back what it has added.
	Do(d *OpenCommit) (finished bool, err *lifecycle.Error)

	// Reply returns the reply after Do has finished. It is called when the command is
	// decided; the reply is sent when the commit is in the log.
	Reply(d *OpenCommit) proto.Message

	// ReplyInLog reports whether the reply follows from the command's events, so that it
	// need not be stored for repetitions of the command: see recall. For a Partial with
	// recorded parts it concerns what Part would return.
	ReplyInLog() bool

	// NewReply returns an empty message of the type of the reply.
	NewReply() proto.Message
}

// ObjectsWork is a Work whose reply is a coppice.v1.ObjectsReply.
type ObjectsWork interface {
	Work

	// Brief reports whether the reply has only the identifying fields of objects.
	Brief() bool
}

// PausedWork is a Work that is decided also while the realm is paused.
type PausedWork interface {
	Work

	// WhilePaused does nothing.
	WhilePaused()
}

// Partial is a Work whose parts in several commits have outcomes of their own, so that
// another writer can continue it after any commit.
type Partial interface {
	Work

	// Part returns the reply to what was decided since the last call of Part or Resume.
	Part(d *OpenCommit) proto.Message

	// Resume continues after the parts that the log has. reply is the reply to these parts.
	// Resume is called before Do. It returns an error if the reply does not belong to this
	// command.
	Resume(reply proto.Message) *lifecycle.Error
}
