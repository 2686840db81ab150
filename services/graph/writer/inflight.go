package writer

import (
	"context"
	"errors"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// inFlightCommit is a commit that was sent to the log and is not yet removed from
// Writer.inFlight. The goroutine of Run may read everything above appended at any time, and
// what follows when the named channel is closed.
type inFlightCommit struct {
	*commit
	size     int                                                // size of the message in bytes, before it is compressed
	chain    eventlog.Chain                                     // the end of the log once this commit is appended
	events   uint64                                             // number of the commit's events with a revision
	expected uint64                                             // position in the stream of the last known message before the commit
	sent     time.Time                                          // when the append began
	span     trace.Span                                         // of the commit
	wait     func(context.Context) (position uint64, err error) // waits until the append ends: see Log.Send

	appended chan struct{} // closed when the commit is in the log; stays open if the append fails
	position uint64        // position in the stream; may be read once appended is closed

	ended      chan struct{} // closed when the commit is applied, or has failed
	appendTook time.Duration // time from sent to the acknowledgement; may be read once ended is closed
	arrived    int           // queue.arrived, just before the commit was answered; may be read once ended is closed
	err        error         // why the commit is not in the state, nil if it is; may be read once ended is closed
}

// errNotApplied is the error of a commit that is in the log and cannot be applied, because
// the one before it was not applied.
var errNotApplied = errors.New("writer: the commit before cannot be applied to the state")

// answerAndApply waits until a commit is appended and the one before it is applied. Then it
// answers the requests of the commit and applies the commit to the state.
func (w *Writer) answerAndApply(f, before *inFlightCommit) error {
	d := f.d
	encoded := make(chan error, 1)
	encode := func() { encoded <- d.Tx.Encode() }
	if f.size < largeCommit {
		encode()
	} else {
		go encode() // the next commit may be sent before this returns
	}
	position, err := f.wait(w.appendCtx)
	if err == nil {
		f.position = position
		close(f.appended)
	}
	encodeErr := <-encoded
	w.c.Failpoint(FailOutcome)
	if err != nil {
		if errors.Is(err, eventlog.ErrFenced) {
			w.refuse(f.outcomes)
		}
		return err
	}
	w.c.Failpoint(FailAppended)
	if encodeErr != nil {
		return encodeErr
	}
	f.appendTook = time.Since(f.sent)
	f.span.AddEvent("appended")
	if before != nil {
		<-before.ended
		if before.err != nil {
			return errNotApplied
		}
	}
	d.Tx.Place(f.position)
	var answered time.Time
	pending, err := d.Tx.AnswerAndApply(func() {
		f.arrived = w.queue.arrived()
		for _, o := range f.outcomes {
			w.answer(o)
		}
		answered = time.Now()
		if f.size < largeCommit {
			runtime.Gosched() // let the goroutine that writes the replies run first
		}
	})
	if err != nil {
		return err
	}
	w.c.Failpoint(FailApplied)
	w.c.Applied(Applied{
		Sequence: f.chain.Sequence, Position: f.position, Skipped: f.position - f.expected - 1, Revision: f.chain.Revision, Events: f.events, Time: f.chain.Time, Bytes: f.size, Requests: len(f.outcomes),
		Changes: d.changes, Pending: pending, Traces: d.traced.of, SessionClosed: d.sessionClosed, Tripped: d.tripped, BrakeReleased: d.brakeReleased,
		Decide: f.decideTook, Append: f.appendTook, Apply: time.Since(answered),
	})
	return nil
}

// mostPerByte bounds what an append counts for the estimate of how long a byte takes, in nanoseconds: 20 MB/s.
const mostPerByte = 50

// removeEnded removes the oldest commit in flight, whose channel ended is closed, and
// returns its error. It starts the commit delay.
func (w *Writer) removeEnded() error {
	f := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
	if f.err != nil {
		return f.err
	}
	w.logEnd = f.position
	if f.size >= largeCommit {
		// An append may have waited for a disk or a server that stalled.
		w.perByte += (min(float64(f.appendTook)/float64(f.size), mostPerByte) - w.perByte) / 8
		return nil
	}
	callers := 0
	for _, o := range f.outcomes {
		callers += o.r.callers()
	}
	w.delay.start(time.Now(), f.appendTook, f.arrived, callers)
	return nil
}
