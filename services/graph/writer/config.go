package writer

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Log is what the writer needs of a log.
type Log interface {
	// Send begins to append a commit. wait, which is called once, waits for the outcome
	// and returns the position in the stream. Until then the commit must not be changed,
	// and no other commit is sent. expected is the position of the last message before the
	// commit.
	Send(expected uint64, id [16]byte, commit []byte) (wait func(context.Context) (position uint64, err error))
	// Get returns the commit of a sequence. The error wraps eventlog.ErrCut if it is known
	// that the log never had it or has it no more.
	Get(ctx context.Context, sequence uint64) ([]byte, error)
	Created() int64
}

// Lease is what the writer needs of a lease.
type Lease interface {
	Holds() bool
	Lost() <-chan struct{}
}

// Config configures a Writer.
type Config struct {
	Realm string
	State *state.State
	Log   Log
	Lease Lease
	// LogEnd is the position of the last known message of the log, if messages that are no
	// commits follow the last commit of the state; otherwise zero.
	LogEnd uint64
	// NewestKey returns the newest key of the realm. The writer's first commit changes to
	// this key if it is newer than the key of the log. If NewestKey is nil, the key has
	// number 1.
	NewestKey func(realmID [16]byte) eventlog.KeyID
	// Loss is set if commits of the log are lost, and an operator has accepted that. The
	// writer's first commit records it. May be nil.
	Loss *Loss
	// Origin is set to begin a realm that continues the log of another one, whose state is
	// State. The writer's first commit is then the first of a realm with a new id: it records
	// the origin, and pauses the realm. May be nil.
	Origin *lifecycle.Origin
	// MaxPayload is the maximum size of a message of the NATS server, in bytes.
	MaxPayload int
	// QueueBytes, QueueLength and QueueTime bound the requests that wait to be decided: 64 MiB,
	// 16384 and 10 s if zero. QueueTime bounds the time that the writer is estimated to
	// take for all of them. Budget bounds the bytes of all writers that share it; it may be nil.
	QueueBytes  int
	QueueLength int
	QueueTime   time.Duration
	Budget      *Budget
	// Counted is called for each request that is not decided, from any goroutine; it must not
	// block. It may be nil.
	Counted func(Count)
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// CheckClock returns an error while Now is not reliable. Then nothing is decided, and
	// Run ends with this error. It may be nil.
	CheckClock func() error
	// Begin is called before a commit is decided. The function that it returns reports
	// whether Applied needs the changes of a resource; nil if it needs none. Abort is
	// called when a commit has no events, and when Run ends: Applied will not be called
	// for the commits that have begun.
	Begin func() (watched func(resource string) bool)
	Abort func()
	// Ahead is the number of revisions that the first commit leaves out; see RestoredAhead.
	Ahead uint64
	// Applied is called for each commit after it was applied, in order.
	Applied func(Applied)
	// Ready is called once, when the first commit of the epoch is in the log. From then on
	// this writer's replies include every command that was acknowledged before.
	Ready  func()
	Logger *slog.Logger
	// Tracer starts the spans of commits; nil for none.
	Tracer trace.Tracer
	// Failpoint is called at the named steps, for tests that kill the process there.
	Failpoint func(step string)
}

// LostAhead is the minimum number of revisions that a realm leaves out when it continues a log that lacks commits:
// clients may know their revisions, which must not name other changes. It is what 200,000 changes a second need in two
// months.
const LostAhead = 1 << 40

// RestoredAhead returns the number of revisions that a realm leaves out when it continues, at a time, a log that was
// restored from an archive or a backup. last is the time of the last commit of it. The number grows by one each
// microsecond, and revisions do not grow as fast: if the same archive or backup is restored again, the realm continues
// behind what clients may know of the first restore.
func RestoredAhead(last, now lifecycle.Time) uint64 { return LostAhead + uint64(max(0, now-last)) }

// Loss says which commits a log has lost.
type Loss struct {
	// Note describes the loss. It is stored with the command bus.VerbAcceptLoss.
	Note string
	// Revision is greater than the revision of any lost event. The log continues after it,
	// so that no revision that a client knows names another event.
	Revision uint64
}

// Applied is a commit that was applied: it is in the log and in the state.
type Applied struct {
	Sequence uint64
	// Position is the position of the commit in the stream. Skipped is the number of
	// messages directly before it that are no commits and were not known.
	Position, Skipped uint64
	Revision          uint64
	Events            uint64 // number of events with a revision
	Time              lifecycle.Time
	Bytes             int
	Requests          int
	Changes           []state.Change // those that are watched
	Pending           []state.WorkChange
	Traces            Traces
	// SessionClosed: an import session was closed. Its objects no longer wait for owners
	// that the session might still have created.
	SessionClosed bool
	// Tripped are the brakes that the commit has tripped. BrakeReleased: it has released one.
	Tripped       []Tripped
	BrakeReleased bool
	// Decide is the time in which requests were decided, Append that from the start of the append
	// to its acknowledgement, and Apply that from the last answer to the end of the write to the state.
	Decide, Append, Apply time.Duration
}

// The steps at which Config.Failpoint is called.
const (
	FailDecided  = "decided"  // the commit has ended, and was not sent to the log
	FailOutcome  = "outcome"  // the commit was appended or refused, and the writer has not acted on that yet
	FailAppended = "appended" // the commit was appended, and not answered yet
	FailApplied  = "applied"  // the commit was answered and applied
)

// Count says why a request was not decided.
type Count string

// The reasons of Config.Counted.
const (
	CountRefused  Count = "refused"  // beyond a bound
	CountExpired  Count = "expired"  // its client no longer waits
	CountRepeated Count = "repeated" // it shares the outcome of an unanswered command
)

// Counts has all reasons.
var Counts = []Count{CountRefused, CountExpired, CountRepeated}

// Limits of commits and of objects, in bytes, and of the queue.
const (
	payloadMargin   = 8 << 10 // what the subject and the headers of a message take at most
	largestObject   = 3 << 19 // 1.5 MiB
	defaultQueue    = 16384
	defaultQueueMem = 64 << 20

	defaultQueueTime = 10 * time.Second
)
