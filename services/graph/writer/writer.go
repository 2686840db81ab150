package writer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Writer decides, appends, answers and applies: see the package comment. Submit is safe for
// concurrent use.
type Writer struct {
	c         Config
	queue     *queue
	limit     int              // maximum size of a commit, in bytes
	maxObject int              // maximum size of an object, in bytes
	now       func() time.Time // the clock of Request.Expires

	// Only the goroutine of Run uses these.
	chain     eventlog.Chain    // the end of the log once all commits in flight are appended
	logEnd    uint64            // position in the stream of the last known message
	open      *commit           // the commit that is being decided, nil for none
	inFlight  []*inFlightCommit // the commits that were sent to the log and are not applied yet, the oldest first: at most two
	delay     commitDelay       // delays the append of the open commit when no commit is in flight
	perByte   float64           // estimate of how long it takes to append a byte, in nanoseconds
	appendCtx context.Context   // ends when Run no longer waits for appends

	recalls   chan struct{}         // has a token for each running recall, which bounds their number
	recalling sync.WaitGroup        // the running recalls, for which Run waits
	skew      atomic.Pointer[error] // the error of Config.CheckClock that ended Run

	mu          sync.Mutex // locked while the fields below are used
	unanswered  map[state.CommandKey]*unansweredCommand
	repetitions int  // number of repetitions of all unanswered commands
	ended       bool // the queue is closed
}

// New returns a writer that continues after the last commit of the state. The caller must
// make sure that the state has all commits of the log.
func New(c Config) *Writer {
	if c.QueueBytes == 0 {
		c.QueueBytes = defaultQueueMem
	}
	if c.QueueLength == 0 {
		c.QueueLength = defaultQueue
	}
	if c.QueueTime == 0 {
		c.QueueTime = defaultQueueTime
	}
	if c.Counted == nil {
		c.Counted = func(Count) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Begin == nil {
		c.Begin = func() func(string) bool { return nil }
	}
	if c.Abort == nil {
		c.Abort = func() {}
	}
	if c.Applied == nil {
		c.Applied = func(Applied) {}
	}
	if c.Tracer == nil {
		c.Tracer = tracing.Tracer(nil)
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.NewestKey == nil {
		c.NewestKey = func([16]byte) eventlog.KeyID { return eventlog.KeyID{Number: 1} }
	}
	limit := c.MaxPayload - payloadMargin
	chain := eventlog.ChainOf(c.State.Checkpoint())
	return &Writer{
		c:          c,
		queue:      newQueue(c.QueueLength, c.QueueBytes, c.QueueTime, c.Budget),
		chain:      chain,
		logEnd:     max(chain.Position, c.LogEnd),
		limit:      limit,
		maxObject:  min(largestObject, limit/2),
		unanswered: map[state.CommandKey]*unansweredCommand{},
		recalls:    make(chan struct{}, 64),
		now:        time.Now,
		delay:      newCommitDelay(),
	}
}

// MaxObject returns the maximum size of an object, in bytes.
func (w *Writer) MaxObject() int { return w.maxObject }

// ErrLeaseLost is returned by Run when the lease was lost.
var ErrLeaseLost = errors.New("the lease was lost")

// appendGrace is how long Run, when ctx has ended, waits for commits that were sent to the
// log. A client whose command is in one of them would otherwise wait until its request times
// out, before it asks the next writer.
const appendGrace = time.Second

// Run begins an epoch and decides submitted requests until ctx ends or this process is no
// longer the writer. The package comment describes how commits are pipelined. At the end Run
// waits until the log has acknowledged the commits that were sent to it, at most a second after
// ctx has ended, and then refuses queued requests as retryable. Requests whose outcome is unknown
// are not answered.
//
// When ctx has ended, Run returns nil, or an error that wraps eventlog.ErrOutcomeUnknown if it is
// unknown whether a commit is in the log.
func (w *Writer) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	appendCtx, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(appendGrace, abandon) })()
	w.appendCtx = appendCtx
	err := w.run(running)
	for len(w.inFlight) > 0 {
		<-w.inFlight[0].ended
		err = errors.Join(err, w.removeEnded())
	}
	if w.open != nil {
		w.refuse(w.open.outcomes)
		w.open.d.Tx.Drop()
	}
	w.c.Abort()
	w.mu.Lock()
	w.ended = true // from now on no command gets the outcome of an unanswered one
	w.mu.Unlock()
	for _, r := range w.queue.close() {
		w.refuse([]outcome{{r: r}})
	}
	stop()
	w.recalling.Wait() // recalls read the log and the state, which may be closed when Run has returned
	if err != nil && ctx.Err() != nil && !errors.Is(err, eventlog.ErrOutcomeUnknown) {
		return nil
	}
	return err
}

// run is Run until the writer ends. It leaves the commits in flight and the open commit as they are.
func (w *Writer) run(ctx context.Context) error {
	if err := w.beginEpoch(); err != nil {
		return err
	}
	if w.c.Ready != nil {
		w.c.Ready()
	}
	for {
		var ready <-chan struct{}
		if w.open == nil || !w.open.full {
			ready = w.queue.ready()
		}
		var applied, appended <-chan struct{}
		if len(w.inFlight) > 0 {
			applied = w.inFlight[0].ended
		}
		if len(w.inFlight) == 1 && w.large() {
			appended = w.inFlight[0].appended
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.c.Lease.Lost():
			return ErrLeaseLost
		case <-applied:
			if err := w.removeEnded(); err != nil {
				return err
			}
		case <-appended:
		case <-w.delay.timer.C:
		case <-ready:
			if err := w.decideQueued(ctx); err != nil {
				return err
			}
		}
		if w.open != nil && w.canAppend() {
			if err := w.appendOpen(); err != nil {
				return err
			}
		}
	}
}
