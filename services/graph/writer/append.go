package writer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// inFlightCommit is a commit that is being appended to the log or written to the state.
type inFlightCommit struct {
	*commit
	size      int            // in bytes
	chain     eventlog.Chain // with it
	events    uint64         // that it has
	sent      time.Time
	settle    func(context.Context) (position uint64, err error) // waits for the log
	expected  uint64                                             // the position of the last known message before it
	position  uint64                                             // in the stream; once it is in the log
	appended  chan struct{}                                      // closed when it is in the log
	took      time.Duration                                      // to append; once completed is closed
	arrived   int                                                // callers that had arrived before it was answered
	completed chan struct{}                                      // closed when it is in the state, or has failed
	err       error                                              // why it has failed; once completed is closed
}

// largeCommit is the size in bytes from which on a commit does not wait until the one
// before is in the state, because writing that takes long. Smaller ones wait: they grow
// meanwhile, and cost less together.
const largeCommit = 32 << 10

// canAppend reports whether the open commit can be appended. If it is large, the commit before it
// must be in the log, and the one before that in the state. Otherwise the commit before it must be
// in the state, and the commit delay must be over unless the open commit is full or empty.
func (w *Writer) canAppend() bool {
	switch len(w.inFlight) {
	case 0:
		return w.open.full || w.open.d.Empty() || w.large() || !w.delay.waits(time.Now(), w.queue.arrived())
	case 1:
		select {
		case <-w.inFlight[0].appended:
			return w.large()
		default:
		}
	}
	return false
}

// mostPerByte bounds what an append counts for the estimate of how long a byte takes, in nanoseconds: 20 MB/s.
const mostPerByte = 50

func (w *Writer) large() bool { return w.open != nil && w.open.d.b.Size() >= largeCommit }

// errNotWritten is the error of a commit that is in the log and cannot be applied, because
// the one before it was not applied.
var errNotWritten = errors.New("writer: the commit before cannot be written into the state")

// append seals a commit and sends it to the log. It is completed in the background, while
// the next is decided.
func (w *Writer) append(c *commit) error {
	d := c.d
	chain := w.chain
	chain.Sequence++
	chain.Revision = d.Revision()
	chain.Time = d.Ctx.Now
	d.sealBrakes()
	d.sealNotices()
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
	var before *inFlightCommit
	if len(w.inFlight) > 0 {
		before = w.inFlight[len(w.inFlight)-1]
	}
	f := &inFlightCommit{
		commit: c, size: len(message), chain: chain, events: chain.Revision - w.chain.Revision, sent: time.Now(),
		appended: make(chan struct{}), completed: make(chan struct{}),
	}
	w.c.Failpoint(FailDecided)
	if before != nil { // the commit before is in the log
		w.end = before.position
	}
	f.expected = w.end
	f.settle = w.c.Log.Send(w.end, d.id, message)
	// Let the goroutine that writes to the connection run first.
	runtime.Gosched()
	w.inFlight = append(w.inFlight, f)
	w.chain = chain
	go func() {
		defer close(f.completed)
		f.err = w.complete(f, before)
		d.b.Free()
	}()
	return nil
}

// complete waits until a commit is in the log and the one before is completed, then sends
// the replies and applies the commit to the state.
func (w *Writer) complete(f, before *inFlightCommit) error {
	d := f.d
	prepared := make(chan error, 1)
	prepare := func() { prepared <- d.Tx.Prepare() }
	if f.size < largeCommit {
		prepare()
	} else {
		go prepare() // the next commit may be sent before this returns
	}
	position, err := f.settle(w.settling)
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
		<-before.completed
		if before.err != nil {
			return errNotWritten
		}
	}
	d.Tx.Place(f.position)
	var apply time.Time
	pending, err := d.Tx.FlushNotify(func() {
		f.arrived = w.queue.arrived()
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
		Sequence: f.chain.Sequence, Position: f.position, Skipped: f.position - f.expected - 1, Revision: f.chain.Revision, Events: f.events, Time: f.chain.Time, Bytes: f.size, Requests: len(f.outcomes),
		Changes: d.changes, Pending: pending, SessionClosed: d.sessionClosed, Tripped: d.tripped, BrakeReleased: d.ended,
		Decide: f.commit.took, Append: f.took, Apply: time.Since(apply),
	})
	return nil
}

// completed removes the oldest commit in flight, which is completed, and returns why it
// has failed. It starts the commit delay.
func (w *Writer) completed() error {
	f := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
	if f.err == nil {
		w.end = f.position
	}
	if f.err == nil && f.size >= largeCommit {
		// An append may have waited for a disk or a server that stalled.
		w.perByte += (min(float64(f.took)/float64(f.size), mostPerByte) - w.perByte) / 8
	}
	if f.err == nil && f.size < largeCommit {
		callers := 0
		for _, o := range f.outcomes {
			callers += o.r.callers()
		}
		w.delay.answered(time.Now(), f.took, f.arrived, callers)
	}
	return f.err
}
