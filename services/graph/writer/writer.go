package writer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Log is what the writer needs of a log.
type Log interface {
	Append(ctx context.Context, expected uint64, id [16]byte, commit []byte) error
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
	// MaxPayload is the largest message that the bus takes, in bytes.
	MaxPayload int
	// QueueBytes and QueueLength bound the queue: 64 MiB and 16384 if zero.
	QueueBytes  int
	QueueLength int
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Begin is called before a commit is decided, and tells of which
	// resources Committed wants to know the changes; nil if of none. Abort is
	// called if the commit came to nothing.
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
	Revision uint64
	Time     lifecycle.Time
	Bytes    int
	Requests int
	Changes  []state.Change // those that are watched
	Owed     []state.OwedChange
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
	chain     eventlog.Chain
	limit     int
	maxObject int
	pending   map[state.CommandID]*inFlight
	rest      []*Request    // what did not fit into the last commit
	recalls   chan struct{} // bounds the recalls under way
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
	limit := c.MaxPayload - payloadMargin
	return &Writer{
		c:         c,
		queue:     newQueue(c.QueueLength, c.QueueBytes),
		chain:     eventlog.ChainOf(c.State.Checkpoint()),
		limit:     limit,
		maxObject: min(largestObject, limit/2),
		pending:   map[state.CommandID]*inFlight{},
		recalls:   make(chan struct{}, 64),
	}
}

// MaxObject is the size of the largest object, in bytes.
func (w *Writer) MaxObject() int { return w.maxObject }

// Submit queues a request. It is refused if the queue is full.
func (w *Writer) Submit(r *Request) {
	switch w.queue.put(r) {
	case queueFull:
		r.done(nil, w.overloaded())
	case queueClosed:
		r.done(nil, w.notWriter())
	}
}

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
		Reason:     lifecycle.ReasonOverloaded,
		Message:    fmt.Sprintf("realm %s: too many commands are queued; try again later", w.c.Realm),
		RetryAfter: 50 * time.Millisecond,
	}
}

func (w *Writer) notWriter() *lifecycle.Error {
	return &lifecycle.Error{
		Reason:     lifecycle.ReasonNotReady,
		Message:    fmt.Sprintf("realm %s: this is not the writer any more; another takes over; try again", w.c.Realm),
		RetryAfter: 250 * time.Millisecond,
	}
}

// ErrLeaseLost is returned by Run when the lease was lost.
var ErrLeaseLost = errors.New("the lease was lost")

// Run begins an epoch and then decides what is submitted, until ctx ends or it
// is not the writer any more. What is queued then is refused as retryable;
// what is in doubt is not answered. It returns nil when ctx ended.
func (w *Writer) Run(ctx context.Context) error {
	err := w.run(ctx)
	w.c.Abort()
	for _, r := range append(w.rest, w.queue.close()...) {
		if r.parts == 0 { // otherwise a part of it may be in the log
			r.done(nil, w.notWriter())
		}
	}
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.c.Lease.Lost():
			return ErrLeaseLost
		case <-w.queue.ready(len(w.rest) > 0):
		}
		requests := slices.Concat(w.rest, w.queue.take())
		w.rest = nil
		if len(requests) == 0 {
			continue
		}
		if err := w.commit(ctx, requests); err != nil {
			return err
		}
	}
}

// beginEpoch appends the commit that makes this the writer. In a new realm it
// is the first, and registers the kinds that are known from the start.
func (w *Writer) beginEpoch(ctx context.Context) error {
	w.chain.Epoch++
	verb := "epoch"
	if w.chain.RealmID == ([16]byte{}) {
		verb = "genesis"
		if _, err := rand.Read(w.chain.RealmID[:]); err != nil {
			return err
		}
	}
	d := w.decide()
	d.begin(eventlog.Command{Actor: "graph", Verb: verb})
	d.beginCommand()
	if verb == "genesis" {
		kind := d.Ctx.Kinds().Of(lifecycle.Group, "Kind")
		for _, spec := range lifecycle.BuiltinKinds() {
			out, err := lifecycle.Create(d.Ctx, lifecycle.Key{Kind: kind}, registration(spec))
			if err != nil {
				return fmt.Errorf("writer: genesis: %w", err)
			}
			if _, ok := d.Apply(out.Events, 0); !ok {
				return fmt.Errorf("writer: the bus takes messages of %d bytes, which is too little for a realm's first commit", w.c.MaxPayload)
			}
		}
	}
	d.b.End([16]byte{}, nil)
	return w.write(ctx, d, 0, 0)
}

// decide begins a commit.
func (w *Writer) decide() *Decision {
	tx := w.c.State.Begin()
	now := max(lifecycle.TimeOf(w.c.Now()), w.chain.Time)
	id := newID()
	return &Decision{
		Tx:      tx,
		id:      id,
		limit:   w.limit,
		watched: w.c.Begin(),
		Ctx: &lifecycle.Context{
			View: tx, Now: now, NewUID: uid.New, NewSuffix: newSuffix, MaxObject: w.maxObject,
		},
		b: eventlog.NewBuilder(eventlog.Header{
			RealmID: w.chain.RealmID, ID: id, Previous: w.chain.Checksum, Epoch: w.chain.Epoch,
			Time: now, FirstRevision: w.chain.Revision + 1,
		}),
	}
}

// outcome is what a request came to, which is told once the commit is in the log.
type outcome struct {
	r     *Request
	reply proto.Message
	err   *lifecycle.Error
}

// commit decides requests, as many as fit, and writes what they come to.
func (w *Writer) commit(ctx context.Context, requests []*Request) error {
	start := time.Now()
	d := w.decide()
	var outcomes []outcome
	for i, r := range requests {
		if w.repeated(ctx, r) {
			continue
		}
		o, finished := w.do(d, r)
		if d.fatal != nil {
			return d.fatal
		}
		if !finished {
			w.rest = append(w.rest, requests[i:]...)
			break
		}
		outcomes = append(outcomes, o)
	}
	if err := d.Tx.Err(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	if d.Empty() {
		// All answers are reads of the state. They hold if nobody else was
		// the writer until after they were read.
		w.c.Abort()
		if !w.c.Lease.Holds() {
			w.refuse(outcomes)
			return ErrLeaseLost
		}
	} else if err := w.write(ctx, d, len(outcomes), time.Since(start)); err != nil {
		if errors.Is(err, eventlog.ErrFenced) {
			w.refuse(outcomes)
		}
		return err
	}
	for _, o := range outcomes {
		w.answer(o)
	}
	return nil
}

// refuse answers requests that have come to nothing here. Of one that was in
// an earlier commit as well, a part is in the log.
func (w *Writer) refuse(outcomes []outcome) {
	for _, o := range outcomes {
		if o.r.parts == 1 {
			w.answer(outcome{r: o.r, err: w.notWriter()})
		}
	}
}

// do lets one request decide, and reports whether it came to its end.
func (w *Writer) do(d *Decision, r *Request) (o outcome, finished bool) {
	if r.ID != (state.CommandID{}) && w.pending[r.ID] == nil {
		w.pending[r.ID] = &inFlight{first: r}
	}
	d.begin(eventlog.Command{Actor: r.Actor, Verb: r.Verb, Note: r.Note})
	r.parts++
	finished, err := r.Work.Do(d)
	if err != nil {
		return outcome{r: r, err: err}, true
	}
	if !finished {
		return outcome{}, false
	}
	reply := r.Work.Reply(d)
	if r.parts > 1 {
		d.beginCommand() // also if its last part has no events
	}
	if d.begun {
		d.b.End(r.ID, w.kept(d, r, reply))
	}
	return outcome{r: r, reply: reply}, true
}

// kept is the encoding of the reply as it is kept for a repetition of the
// command, nil if nobody can repeat it or its events tell it.
func (w *Writer) kept(d *Decision, r *Request, reply proto.Message) []byte {
	if r.ID == (state.CommandID{}) || r.parts == 1 && r.Work.Told() {
		return nil
	}
	enc, err := proto.Marshal(reply)
	if err != nil {
		d.fail(err)
	}
	return enc
}

// write seals a commit, appends it, and applies it.
func (w *Writer) write(ctx context.Context, d *Decision, requests int, decided time.Duration) error {
	ids := make([]state.CommandID, len(d.b.Commands()))
	for i, id := range d.b.Commands() {
		ids[i] = id
	}
	chain := w.chain
	chain.Sequence++
	chain.Revision = d.Revision()
	chain.Time = d.Ctx.Now
	commit := d.b.Bytes()
	chain.Checksum = eventlog.Checksum(commit)
	d.Tx.EndCommit(state.Commit{
		Sequence: chain.Sequence, Epoch: chain.Epoch, Time: chain.Time, Checksum: chain.Checksum,
		RealmID: chain.RealmID[:], Commands: ids, StreamCreated: w.c.Log.Created(),
	})
	if err := d.Tx.Err(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	w.c.Failpoint(FailDecided)
	start := time.Now()
	err := w.c.Log.Append(ctx, w.chain.Sequence, d.id, commit)
	w.c.Failpoint(FailAppended)
	if err != nil {
		return err
	}
	w.c.Failpoint(FailAcked)
	appended := time.Now()
	owed, err := d.Tx.Flush()
	if err != nil {
		return err
	}
	w.c.Failpoint(FailApplied)
	w.chain = chain
	w.c.Committed(Committed{
		Sequence: chain.Sequence, Revision: chain.Revision, Time: chain.Time, Bytes: len(commit), Requests: requests,
		Changes: d.changes, Owed: owed, SessionClosed: d.sessionClosed,
		Decide: decided, Append: appended.Sub(start), Apply: time.Since(appended),
	})
	return nil
}

// inFlight is a command whose outcome is not known yet.
type inFlight struct {
	first       *Request
	repetitions []*Request
}

// repeated takes care of a request whose command is known: it gets the outcome
// of the first.
func (w *Writer) repeated(ctx context.Context, r *Request) bool {
	if r.ID == (state.CommandID{}) {
		return false
	}
	if f := w.pending[r.ID]; f != nil {
		if f.first == r {
			return false
		}
		f.repetitions = append(f.repetitions, r)
		return true
	}
	sequence, ok := w.c.State.Command(r.ID)
	if !ok {
		return false
	}
	select {
	case w.recalls <- struct{}{}:
		go func() {
			defer func() { <-w.recalls }()
			w.recall(ctx, sequence, r)
		}()
	default:
		r.done(nil, w.overloaded())
	}
	return true
}

func (w *Writer) answer(o outcome) {
	o.r.done(o.reply, o.err)
	if f := w.pending[o.r.ID]; f != nil && f.first == o.r {
		for _, r := range f.repetitions {
			r.done(o.reply, o.err)
		}
		delete(w.pending, o.r.ID)
	}
}

// recall answers a repeated command from the log.
func (w *Writer) recall(ctx context.Context, sequence uint64, r *Request) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply := r.Work.NewReply()
	err := func() error {
		message, err := w.c.Log.Get(ctx, sequence)
		if err != nil {
			return err
		}
		c, err := eventlog.Decode(message)
		if err != nil {
			return err
		}
		for i, id := range c.Commands {
			if id == r.ID {
				return recall(c, i, reply)
			}
		}
		return fmt.Errorf("sequence %d does not have the command", sequence)
	}()
	if err != nil {
		w.c.Logger.Warn("cannot recall the outcome of a repeated command", "realm", w.c.Realm, "error", err)
		r.done(nil, &lifecycle.Error{
			Reason:     lifecycle.ReasonNotReady,
			Message:    fmt.Sprintf("realm %s: the command was carried out before, at sequence %d of the log, which cannot be read now; try again", w.c.Realm, sequence),
			RetryAfter: time.Second,
		})
		return
	}
	r.done(reply, nil)
}
