package writer

import (
	"sync/atomic"

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
	// Size is what the request takes in the queue, in bytes.
	Size int
	// Callers is how many wait for its outcome; zero for one.
	Callers int
	Work    Work
	// Done gets the outcome. It may be called from any goroutine, and is
	// called at most once.
	Done func(proto.Message, *lifecycle.Error)

	answered atomic.Bool
	// recorded is the sequence of the commit with its last part so far; zero if no
	// commit has a part.
	recorded uint64
}

// key is what a repetition of the request is recognised by.
func (r *Request) key() state.CommandKey { return state.CommandKey{Actor: r.Actor, ID: r.ID} }

// callers is how many wait for its outcome.
func (r *Request) callers() int { return max(r.Callers, 1) }

func (r *Request) done(reply proto.Message, err *lifecycle.Error) {
	if r.answered.CompareAndSwap(false, true) {
		r.Done(reply, err)
	}
}

// Work is what a command does. A Work is for one goroutine.
type Work interface {
	// Do decides on d, and reports whether the command has come to its end. A
	// command that has not goes on in the next commit with another call of
	// Do. An error ends the command; Do must then not have applied anything
	// that it did not roll back.
	Do(d *Decision) (finished bool, err *lifecycle.Error)

	// Reply is the reply after Do has finished. It is asked for when the
	// command is decided, and sent when it is in the log.
	Reply(d *Decision) proto.Message

	// Told reports whether the command's events tell its reply, so that it
	// need not be kept for a repetition of the command: see recall. Of a Partial
	// that has recorded parts it is about what Part would return.
	ReplyInLog() bool

	// NewReply is an empty message of the type of the reply.
	NewReply() proto.Message
}

// ObjectsWork is a Work whose reply is a coppice.v1.ObjectsReply.
type ObjectsWork interface {
	Work

	// Brief reports whether the reply has of objects only what identifies them.
	Brief() bool
}

// Partial is a Work that has outcomes of its own in each commit, so that another
// writer can go on with it where a commit has ended.
type Partial interface {
	Work

	// Part is the reply to what was decided since the last call, or since what
	// Resume was called with.
	Part(d *Decision) proto.Message

	// Resume goes on behind the parts that the log has. reply is that to all of them.
	// It is called before Do. It fails if the reply is not to a part of this command.
	Resume(reply proto.Message) *lifecycle.Error
}
