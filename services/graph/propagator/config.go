package propagator

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Config has what a propagator needs. Realm, State, JS, Queued, Parked and Unblock
// are required; the callbacks must be safe for concurrent use.
type Config struct {
	Realm string
	State *state.State
	JS    Publisher
	// Queued returns how many messages of a work queue are waiting or with a worker.
	Queued func(ctx context.Context, queue string) (uint64, error)
	// Parked reports whether the call of an external finalizer or agent on this
	// subject is parked: then it waits for a person, and is not published.
	Parked func(ctx context.Context, subject string) (bool, error)
	// Unblock proposes to the writer that objects wait for each other in a cycle,
	// and reports whether it has unblocked one of them.
	// note names the cycle if a use in it is to be released.
	Unblock func(ctx context.Context, cycle []uid.UID, note string) (bool, error)
	// Released is called with an object that has lost a use because of a cycle, and the
	// cycle; nil for no warning.
	Released func(snap *state.Snapshot, n *lifecycle.Node, cycle string)
	// Calls is the stream of calls; nil in tests that need none of it.
	Calls Calls
	// Limits bound the calls that wait in the stream; DefaultLimits if zero.
	Limits Limits
	// Unpublished is called with an object of which a call cannot be published; nil
	// for no warning. The row is tried again later.
	Unpublished func(snap *state.Snapshot, n *lifecycle.Node, err error)
	// Stuck is called with an object that external finalizers or its agent have
	// blocked for longer than StuckAfter; nil for no warning.
	Stuck func(ctx context.Context, snap *state.Snapshot, n *lifecycle.Node, since lifecycle.Time)
	// StuckAfter is 10 minutes if zero.
	StuckAfter time.Duration
	// Crowded is called with an owner that waits because so many of its dependents,
	// more than lifecycle.MaxExamined, are kept by unknown owners alone; nil for no
	// warning. It is called once this has lasted for CrowdedAfter, and repeatedly
	// while it lasts.
	Crowded func(snap *state.Snapshot, n *lifecycle.Node, dependents uint64, since lifecycle.Time)
	// CrowdedAfter is 1 minute if zero.
	CrowdedAfter time.Duration
	// Protected is called with an object that stays only because it is protected, or whose
	// deletion waits for protected dependents or contents; nil for no warning. It is
	// called repeatedly while this lasts.
	Protected func(snap *state.Snapshot, n *lifecycle.Node)
	// PodsLate is called with a namespace that is being deleted and still has Pods, when its
	// other contents do not wait for these any more; nil for no warning. It is called
	// repeatedly while it has Pods.
	PodsLate func(snap *state.Snapshot, n *lifecycle.Node)
	// ChunkSize is how many uids a chunk of work has at most; 1000 if zero. Long
	// walks publish larger chunks: see longWalk.
	ChunkSize int
	// MaxCounted is how many dependents Count and Status read at most to distinguish
	// work that processors can do from dependents that only unknown owners keep; 1,000,000 if
	// zero. What is beyond it counts as work.
	MaxCounted int
	// Now is the realm's time, which decides what is due; time.Now if nil.
	Now func() time.Time
	// Clock is the clock of the process, which measures pauses; time.Now if nil.
	Clock func() time.Time
	Log   *slog.Logger
	// Tracer starts the spans of messages; nil for none.
	Tracer trace.Tracer
	// Failpoint is called at the named steps; for tests that end the process there.
	Failpoint func(step string)
}

// The steps at which Config.Failpoint is called.
const (
	FailPublished = "published" // work was published
	FailScan      = "scan"      // between two pages of a walk of dependents or contents
)

func (c *Config) setDefaults() {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tracer == nil {
		c.Tracer = tracing.Tracer(nil)
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	if c.ChunkSize == 0 {
		c.ChunkSize = 1000
	}
	if c.MaxCounted == 0 {
		c.MaxCounted = defaultMaxCounted
	}
	if c.StuckAfter == 0 {
		c.StuckAfter = 10 * time.Minute
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.CrowdedAfter == 0 {
		c.CrowdedAfter = time.Minute
	}
}
