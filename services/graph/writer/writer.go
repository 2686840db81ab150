package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/workerpool"
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

// Writer decides and appends. Submit is safe for concurrent use.
type Writer struct {
	c         Config
	queue     *queue
	chain     eventlog.Chain // where the last commit that was sealed leads
	end       uint64         // the position of the last message of the log that is known
	limit     int
	maxObject int
	rest      []*Request    // what did not fit into the last commit
	recalls   chan struct{} // bounds the recalls under way

	recalling sync.WaitGroup // the recalls under way, for which Run waits

	open     *commit           // that is being decided, nil for none
	inFlight []*inFlightCommit // commits that are being appended or written to the state, the oldest first
	delay    commitDelay       // of the open commit, when no commit is in flight
	pool     *workerpool.Pool  // what they run in

	skew atomic.Pointer[error] // of Config.CheckClock, which ended Run

	mu      sync.Mutex
	pending map[state.CommandKey]*pendingCommand
}

// New returns a writer that goes on where the state is. The caller has made
// sure that the state has all of the log.
func New(c Config) *Writer {
	if c.QueueBytes == 0 {
		c.QueueBytes = defaultQueueMem
	}
	if c.QueueLength == 0 {
		c.QueueLength = defaultQueue
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
		queue:     newQueue(c.QueueLength, c.QueueBytes),
		chain:     chain,
		end:       max(chain.Position, c.LogEnd),
		limit:     limit,
		maxObject: min(largestObject, limit/2),
		pending:   map[state.CommandKey]*pendingCommand{},
		recalls:   make(chan struct{}, 64),
		delay:     newCommitDelay(),
	}
}

// MaxObject is the size of the largest object, in bytes.
func (w *Writer) MaxObject() int { return w.maxObject }

// Submit queues a request. It is refused if the queue is full.
func (w *Writer) Submit(r *Request) {
	switch w.queue.put(r) {
	case queueFull:
		w.turnAway(r, w.overloaded())
	case queueClosed:
		w.turnAway(r, w.notWriter())
	}
}

// turnAway answers a request that is not queued.
func (w *Writer) turnAway(r *Request, err *lifecycle.Error) {
	if r.recorded != 0 {
		w.abandon(r)
		return
	}
	r.done(nil, err)
}

// Queued is how many requests wait to be decided, and how many bytes they have.
func (w *Writer) Queued() (requests, bytes int) { return w.queue.size() }

// Do submits a request, and waits for its outcome.
func (w *Writer) Do(ctx context.Context, r *Request) (proto.Message, error) {
	type outcome struct {
		reply proto.Message
		err   *lifecycle.Error
	}
	decided := make(chan outcome, 1)
	r.Done = func(reply proto.Message, err *lifecycle.Error) { decided <- outcome{reply, err} }
	w.Submit(r)
	select {
	case o := <-decided:
		if o.err != nil {
			return nil, o.err
		}
		return o.reply, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *Writer) overloaded() *lifecycle.Error {
	return &lifecycle.Error{
		Reason:     lifecycle.ReasonTooManyRequests,
		Message:    fmt.Sprintf("realm %s: too many commands are queued; try again later", w.c.Realm),
		RetryAfter: 50 * time.Millisecond,
	}
}

func (w *Writer) notWriter() *lifecycle.Error {
	why := "this is not the writer any more"
	if skew := w.skew.Load(); skew != nil {
		why = (*skew).Error()
	}
	return &lifecycle.Error{
		Reason:     lifecycle.ReasonServiceUnavailable,
		Message:    fmt.Sprintf("realm %s: %s; another takes over; try again", w.c.Realm, why),
		RetryAfter: 250 * time.Millisecond,
	}
}

// ErrLeaseLost is returned by Run when the lease was lost.
var ErrLeaseLost = errors.New("the lease was lost")

// Run begins an epoch and decides submitted requests until ctx ends or it is not the
// writer any more. While a commit is being appended and written to the state, the next is
// decided on top of it, and can be appended while the first is written to the state. If
// the disk is slow, the adaptive commit delay comes first. At the end queued requests are
// refused as retryable; requests whose outcome is unknown are not answered. Run returns
// nil when ctx has ended.
func (w *Writer) Run(ctx context.Context) error {
	w.pool = workerpool.New()
	defer w.pool.Dismiss()
	running, stop := context.WithCancel(ctx)
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
	for _, r := range append(w.rest, w.queue.close()...) {
		w.refuse([]outcome{{r: r}})
	}
	stop()
	w.recalling.Wait() // they read the log and the state, which may be closed after this
	if err != nil && ctx.Err() != nil && !errors.Is(err, eventlog.ErrUnsettled) {
		return nil
	}
	return err
}

func (w *Writer) run(ctx context.Context) error {
	if err := w.beginEpoch(ctx); err != nil {
		return err
	}
	if w.c.Ready != nil {
		w.c.Ready()
	}
	for {
		var ready <-chan struct{}
		if w.open == nil || !w.open.full {
			ready = w.queue.ready(len(w.rest) > 0)
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
			requests := slices.Concat(w.rest, w.queue.take())
			w.rest = nil
			if err := w.decideAll(ctx, requests); err != nil {
				return err
			}
		}
		if w.open != nil && w.canAppend() {
			if err := w.close(ctx); err != nil {
				return err
			}
		}
	}
}
