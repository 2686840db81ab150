package writer

import (
	"context"
	"log/slog"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Log is what the writer needs of a log.
type Log interface {
	// Send begins to append a commit, and settle, which is called once, waits until
	// it is known what became of it, and where in the stream it is. Until then the
	// commit must not be changed, and no other is sent. expected is the position of
	// the last message before.
	Send(expected uint64, id [16]byte, commit []byte) (settle func(context.Context) (position uint64, err error))
	// Get reads the commit of a sequence.
	Get(ctx context.Context, sequence uint64) ([]byte, error)
	Created() int64
}

// Lease is what the writer needs of a lease.
type Lease interface {
	Holds() bool
	Lost() <-chan struct{}
}

// Config is how to write.
type Config struct {
	Realm string
	State *state.State
	Log   Log
	Lease Lease
	// LogEnd is the position of the log's last message that is known, where that is
	// not the last commit of the state: messages that are no commits follow it.
	LogEnd uint64
	// NewestKey is the newest key of the realm with an id. The writer's first commit
	// changes to it. Key 1 if nil.
	NewestKey func(realmID [16]byte) eventlog.KeyID
	// MaxPayload is the largest message that the bus takes, in bytes.
	MaxPayload int
	// QueueBytes and QueueLength bound the queue: 64 MiB and 16384 if zero.
	QueueBytes  int
	QueueLength int
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// CheckClock returns an error while Now is not to be relied on: then nothing is
	// decided, and Run ends with this error; nil for never.
	CheckClock func() error
	// Begin is called before a commit is decided. The function that it returns reports
	// whether Committed needs the changes of a resource; nil if it needs none. Abort is
	// called if the commit has failed.
	Begin func() (watched func(resource string) bool)
	Abort func()
	// Committed is called after each commit, in order.
	Committed func(Committed)
	// Ready is called once, when this is the writer: answers that are given
	// from now on are no older than any that was given before.
	Ready  func()
	Logger *slog.Logger
	// Failpoint is called at the named steps; for tests that end the process there.
	Failpoint func(step string)
}

// Committed is a commit that is in the log and in the state.
type Committed struct {
	Sequence uint64
	// Position is where the commit is in the stream, Skipped how many messages stand
	// right before it that are no commits, and were not known.
	Position, Skipped uint64
	Revision          uint64
	Time              lifecycle.Time
	Bytes             int
	Requests          int
	Changes           []state.Change // those that are watched
	Pending           []state.WorkChange
	// SessionClosed: an import session was closed, whose objects wait no
	// longer for owners that it might have brought.
	SessionClosed bool
	// How long it took to decide, to append and to apply.
	Decide, Append, Apply time.Duration
}

// The steps at which Config.Failpoint is called.
const (
	FailDecided  = "decided"
	FailAppended = "appended" // sent, whatever became of it
	FailAcked    = "acked"
	FailApplied  = "applied"
)

// Limits of what is in a commit, and of objects.
const (
	payloadMargin   = 8 << 10 // for subject and headers
	largestObject   = 3 << 19 // 1.5 MiB
	defaultQueue    = 16384
	defaultQueueMem = 64 << 20
)
