package writer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// commit is a commit that is being decided.
type commit struct {
	d        *Decision
	outcomes []outcome
	size     int           // of the requests, in bytes
	took     time.Duration // to decide
	full     bool          // nothing more fits
}

// begin starts a commit on top of those in flight. It fails while the clock is not
// reliable.
func (w *Writer) begin() (*commit, error) {
	now := w.time()
	if w.c.CheckClock != nil {
		if err := w.c.CheckClock(); err != nil {
			w.skew.Store(&err)
			return nil, err
		}
	}
	var tx *state.Tx
	if n := len(w.flights); n > 0 {
		tx = w.flights[n-1].d.Tx.Next()
	} else {
		tx = w.c.State.Begin()
	}
	id := newID()
	return &commit{d: &Decision{
		Tx:      tx,
		id:      id,
		limit:   w.limit,
		above:   len(w.flights) > 0,
		watched: w.c.Begin(),
		Ctx: &lifecycle.Context{
			View: tx, Now: now, NewUID: uid.New, NewSuffix: newSuffix, MaxObject: w.maxObject,
		},
		b: eventlog.NewBuilder(eventlog.Header{
			RealmID: w.chain.RealmID, ID: id, Previous: w.chain.Checksum, Epoch: w.chain.Epoch,
			Time: now, FirstRevision: w.chain.Revision + 1,
			Sequence: w.chain.Sequence + 1, Key: w.chain.Key.Number,
		}),
	}}, nil
}

// outcome is the result of a request, which is sent once the commit is in the log.
type outcome struct {
	r     *Request
	reply proto.Message
	err   *lifecycle.Error
}

// decideAll decides requests in the open commit, as many as fit.
func (w *Writer) decideAll(ctx context.Context, requests []*Request) error {
	start := time.Now()
	for i, r := range requests {
		again, err := w.repeated(ctx, r)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if w.open == nil {
			if w.open, err = w.begin(); err != nil {
				w.rest = append(w.rest, requests[i:]...)
				return err
			}
		}
		c := w.open
		refusal := w.checkID(r)
		if refusal == nil && w.ahead(r) {
			c.full = true
		}
		// It may take long until the commit can be sent, so that waiting requests are
		// bounded also if they are decided and change nothing.
		if len(c.outcomes) >= w.c.QueueLength || len(c.outcomes) > 0 && c.size+r.Size > w.c.QueueBytes {
			c.full = true
		}
		if c.full {
			w.rest = append(w.rest, requests[i:]...)
			break
		}
		c.size += r.Size
		if refusal != nil {
			c.outcomes = append(c.outcomes, outcome{r: r, err: refusal})
			continue
		}
		o, finished := w.do(c.d, r)
		if c.d.fatal != nil {
			return c.d.fatal
		}
		if !finished {
			c.full = true
			w.rest = append(w.rest, requests[i:]...)
			break
		}
		c.outcomes = append(c.outcomes, o)
	}
	if w.open != nil {
		w.open.took += time.Since(start)
	}
	return nil
}

// close ends the open commit, and sends it if it has events.
func (w *Writer) close(ctx context.Context) error {
	c := w.open
	if err := c.d.Tx.Err(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	if !c.d.Empty() {
		if err := w.launch(ctx, c); err != nil {
			return err
		}
		w.open = nil
		return nil
	}
	// All answers are reads of the state. They hold if nobody else was the
	// writer until after they were read.
	if !w.c.Lease.Holds() {
		return ErrLeaseLost
	}
	w.open = nil
	c.d.Tx.Drop()
	c.d.b.Free()
	w.c.Abort()
	for _, o := range c.outcomes {
		w.answer(o)
	}
	return nil
}

// refuse answers requests whose commit is not in the log.
func (w *Writer) refuse(outcomes []outcome) {
	for _, o := range outcomes {
		if o.r.recorded == 0 {
			w.answer(outcome{r: o.r, err: w.notWriter()})
		} else {
			w.abandon(o.r)
		}
	}
}

// do lets one request decide, and reports whether it came to its end.
func (w *Writer) do(d *Decision, r *Request) (o outcome, finished bool) {
	w.expect(r)
	d.begin(eventlog.Command{Actor: r.Actor, Verb: r.Verb, Note: r.Note})
	finished, err := r.Work.Do(d)
	if err != nil {
		return outcome{r: r, err: err}, true
	}
	if !finished {
		w.endPart(d, r)
		return outcome{}, false
	}
	reply := r.Work.Reply(d)
	if r.ID == (state.CommandID{}) {
		return outcome{r: r, reply: reply}, true
	}
	part := reply
	if r.recorded != 0 {
		d.beginCommand() // also if its last part has no events
		if p, ok := r.Work.(Partial); ok {
			part = p.Part(d)
		}
	}
	if d.begun {
		d.b.End(eventlog.CommandRef{ID: r.ID, PreviousPart: r.recorded}, kept(d, r, part))
	}
	return outcome{r: r, reply: reply}, true
}

// endPart ends a part of a request that goes on in the next commit. If the part has
// events, and the command an id, it is recorded, so that another writer can go on.
func (w *Writer) endPart(d *Decision, r *Request) {
	if !d.begun {
		return
	}
	if p, ok := r.Work.(Partial); ok && r.ID != (state.CommandID{}) {
		d.b.End(eventlog.CommandRef{ID: r.ID, PreviousPart: r.recorded, Unfinished: true}, kept(d, r, p.Part(d)))
	}
	r.recorded = w.chain.Sequence + 1 // that of the open commit
}

// kept is the encoding of the reply, or of a part of it, as it is kept for a repetition
// of the command, nil if its events tell it.
func kept(d *Decision, r *Request, reply proto.Message) []byte {
	if r.Work.Told() {
		return nil
	}
	enc, err := proto.Marshal(reply)
	if err != nil {
		d.fail(err)
	}
	return enc
}

// flight is a commit that is being appended to the log or written to the state.
type flight struct {
	*commit
	size     int            // in bytes
	chain    eventlog.Chain // with it
	sent     time.Time
	settle   func(context.Context) (position uint64, err error) // waits for the log
	expected uint64                                             // the position of the last message before that was known
	position uint64                                             // in the stream; once it is in the log
	appended chan struct{}                                      // closed when it is in the log
	took     time.Duration                                      // to append; once landed is closed
	queued   int                                                // number of commands that had arrived before it was answered
	landed   chan struct{}                                      // closed when it is in the state, or has failed
	err      error                                              // why it has failed; once landed is closed
}

// largeCommit is from which size on, in bytes, a commit does not wait until the one
// before is in the state: to write that takes a while. Smaller ones wait, as they
// grow meanwhile, and cost less together.
const largeCommit = 32 << 10

// clear reports whether the open commit can be sent: the commit before it is in the log
// and, unless this one is large, in the state, and the commit delay is over.
func (w *Writer) clear() bool {
	switch len(w.flights) {
	case 0:
		return w.open.full || w.open.d.Empty() || w.large() || !w.gather.waits(time.Now(), w.queue.ever())
	case 1:
		select {
		case <-w.flights[0].appended:
			return w.large()
		default:
		}
	}
	return false
}

func (w *Writer) large() bool { return w.open != nil && w.open.d.b.Size() >= largeCommit }

// errNotWritten is why a commit that is in the log does not get into the state.
var errNotWritten = errors.New("writer: the commit before cannot be written into the state")

// launch seals a commit and sends it to the log. It is answered and applied in the
// background, while the next is decided.
func (w *Writer) launch(ctx context.Context, c *commit) error {
	d := c.d
	chain := w.chain
	chain.Sequence++
	chain.Revision = d.Revision()
	chain.Time = d.Ctx.Now
	message := d.b.Bytes()
	chain.Checksum = eventlog.Checksum(message)
	d.Tx.EndCommit(state.Commit{
		Sequence: chain.Sequence, Epoch: chain.Epoch, Time: chain.Time, Checksum: chain.Checksum,
		RealmID: chain.RealmID[:], Commands: CommandsOf(d.b.Commands()), StreamCreated: w.c.Log.Created(),
		Key: chain.Key.Number, KeyFingerprint: chain.Key.Fingerprint[:],
	})
	if err := d.Tx.Err(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	var before *flight
	if len(w.flights) > 0 {
		before = w.flights[len(w.flights)-1]
	}
	f := &flight{
		commit: c, size: len(message), chain: chain, sent: time.Now(),
		appended: make(chan struct{}), landed: make(chan struct{}),
	}
	w.c.Failpoint(FailDecided)
	if before != nil { // which is in the log
		w.end = before.position
	}
	f.expected = w.end
	f.settle = w.c.Log.Send(w.end, d.id, message)
	// Let the goroutine that writes to the connection run first.
	runtime.Gosched()
	w.flights = append(w.flights, f)
	w.chain = chain
	w.crew.Go(func() {
		defer close(f.landed)
		f.err = w.fly(ctx, f, before)
		d.b.Free()
	})
	return nil
}

// fly waits until a commit is in the log, and for the one before to land, and
// answers and applies it.
func (w *Writer) fly(ctx context.Context, f, before *flight) error {
	d := f.d
	prepared := make(chan error, 1)
	prepare := func() { prepared <- d.Tx.Prepare() }
	if f.size < largeCommit {
		prepare()
	} else {
		w.crew.Go(prepare) // the next may be sent before it is done
	}
	position, err := f.settle(ctx)
	if err == nil {
		f.position = position
		close(f.appended)
	}
	fail := <-prepared
	w.c.Failpoint(FailAppended)
	if err != nil {
		if errors.Is(err, eventlog.ErrFenced) {
			w.refuse(f.outcomes)
		}
		return err
	}
	w.c.Failpoint(FailAcked)
	if fail != nil {
		return fail
	}
	f.took = time.Since(f.sent)
	if before != nil {
		<-before.landed
		if before.err != nil {
			return errNotWritten
		}
	}
	d.Tx.Place(f.position)
	var apply time.Time
	owed, err := d.Tx.FlushTelling(func() {
		f.queued = w.queue.ever()
		for _, o := range f.outcomes {
			w.answer(o)
		}
		apply = time.Now()
		if f.size < largeCommit {
			runtime.Gosched() // let the goroutine that writes the replies run first
		}
	})
	if err != nil {
		return err
	}
	w.c.Failpoint(FailApplied)
	w.c.Committed(Committed{
		Sequence: f.chain.Sequence, Position: f.position, Skipped: f.position - f.expected - 1, Revision: f.chain.Revision, Time: f.chain.Time, Bytes: f.size, Requests: len(f.outcomes),
		Changes: d.changes, Owed: owed, SessionClosed: d.sessionClosed,
		Decide: f.commit.took, Append: f.took, Apply: time.Since(apply),
	})
	return nil
}

// land removes the oldest commit, which has ended, and returns why it has failed.
func (w *Writer) land() error {
	f := w.flights[0]
	w.flights = w.flights[1:]
	if f.err == nil {
		w.end = f.position
	}
	if f.err == nil && f.size < largeCommit {
		callers := 0
		for _, o := range f.outcomes {
			callers += o.r.callers()
		}
		w.gather.answered(time.Now(), f.took, f.queued, callers)
	}
	return f.err
}
