package writer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Writer decides and appends. Submit is safe for concurrent use.
type Writer struct {
	c         Config
	queue     *queue
	chain     eventlog.Chain // the position after the last sealed commit
	end       uint64         // the position of the last known message of the log
	limit     int
	maxObject int
	recalls   chan struct{} // bounds the concurrent recalls
	perByte   float64       // estimate of how long it takes to append a byte, in nanoseconds

	now func() time.Time // the clock of Request.Expires

	recalling sync.WaitGroup // the running recalls, for which Run waits

	settling context.Context   // ends when Run no longer waits for the log
	open     *commit           // the commit that is being decided, nil for none
	inFlight []*inFlightCommit // commits that are being appended or written to the state, the oldest first
	delay    commitDelay       // of the open commit, when no commit is in flight

	skew atomic.Pointer[error] // of Config.CheckClock, which ended Run

	mu          sync.Mutex
	pending     map[state.CommandKey]*pendingCommand
	repetitions int  // of all pending commands
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
	if c.Committed == nil {
		c.Committed = func(Committed) {}
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
		c:         c,
		queue:     newQueue(c.QueueLength, c.QueueBytes, c.QueueTime, c.Budget),
		chain:     chain,
		end:       max(chain.Position, c.LogEnd),
		limit:     limit,
		maxObject: min(largestObject, limit/2),
		pending:   map[state.CommandKey]*pendingCommand{},
		recalls:   make(chan struct{}, 64),
		now:       time.Now,
		delay:     newCommitDelay(),
	}
}

// MaxObject returns the maximum size of an object, in bytes.
func (w *Writer) MaxObject() int { return w.maxObject }

// ErrLeaseLost is returned by Run when the lease was lost.
var ErrLeaseLost = errors.New("the lease was lost")

// settleGrace is how long Run, when ctx has ended, waits for commits that were sent to the
// log. A client whose command is in one of them would otherwise wait until its request times
// out, before it asks the next writer.
const settleGrace = time.Second

// Run begins an epoch and decides submitted requests until ctx ends or this process is no
// longer the writer. The package comment describes how commits are pipelined. At the end Run
// waits until the log has acknowledged the commits that were sent to it, at most a second after
// ctx has ended, and then refuses queued requests as retryable. Requests whose outcome is unknown
// are not answered.
//
// When ctx has ended, Run returns nil, or an error that wraps eventlog.ErrUnsettled if it is
// unknown whether a commit is in the log.
func (w *Writer) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	settling, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(settleGrace, abandon) })()
	w.settling = settling
	err := w.run(running)
	for len(w.inFlight) > 0 {
		<-w.inFlight[0].completed
		err = errors.Join(err, w.completed())
	}
	if w.open != nil {
		w.refuse(w.open.outcomes)
		w.open.d.Tx.Drop()
	}
	w.c.Abort()
	w.mu.Lock()
	w.ended = true // from now on no command gets the outcome of a pending one
	w.mu.Unlock()
	for _, r := range w.queue.close() {
		w.refuse([]outcome{{r: r}})
	}
	stop()
	w.recalling.Wait() // recalls read the log and the state, which may be closed when Run has returned
	if err != nil && ctx.Err() != nil && !errors.Is(err, eventlog.ErrUnsettled) {
		return nil
	}
	return err
}

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
		var completed, appended <-chan struct{}
		if len(w.inFlight) > 0 {
			completed = w.inFlight[0].completed
		}
		if len(w.inFlight) == 1 && w.large() {
			appended = w.inFlight[0].appended
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.c.Lease.Lost():
			return ErrLeaseLost
		case <-completed:
			if err := w.completed(); err != nil {
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
			if err := w.close(); err != nil {
				return err
			}
		}
	}
}
