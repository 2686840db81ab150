package writer

import (
	"fmt"
	"runtime"
	"time"

	"github.com/coppice-gc/coppice/internal/tracing"
)

// largeCommit is the size in bytes from which on a commit is appended before the one
// before it is applied, because to apply that one takes long. Smaller ones wait: they grow
// meanwhile, and cost less together.
const largeCommit = 32 << 10

// canAppend reports whether the open commit can be appended. If it is large, the commit before it
// must be appended, and the one before that applied. Otherwise the commit before it must be
// applied, and the commit delay must be over unless the open commit is full or empty.
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

// large reports whether there is an open commit that is large.
func (w *Writer) large() bool { return w.open != nil && w.open.d.b.Size() >= largeCommit }

// appendOpen starts to append the open commit. If it has no events, it is only answered.
func (w *Writer) appendOpen() error {
	c := w.open
	if err := c.d.Tx.Err(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	if !c.d.Empty() {
		if err := w.startAppend(c); err != nil {
			return err
		}
		w.open = nil
		return nil
	}
	// All outcomes are reads of the state. They are current if this process still has the
	// lease.
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

// startAppend ends a commit and sends it to the log. A goroutine answers and applies it,
// while the next commit is decided.
func (w *Writer) startAppend(c *commit) error {
	chain, message, err := w.endCommit(c)
	if err != nil {
		return err
	}
	var before *inFlightCommit
	if len(w.inFlight) > 0 {
		before = w.inFlight[len(w.inFlight)-1]
	}
	f := &inFlightCommit{
		commit: c, size: len(message), chain: chain, events: chain.Revision - w.chain.Revision, sent: time.Now(),
		appended: make(chan struct{}), ended: make(chan struct{}),
	}
	f.span = w.startSpan(f)
	w.c.Failpoint(FailDecided)
	if before != nil { // it is appended: see canAppend
		w.logEnd = before.position
	}
	f.expected = w.logEnd
	f.wait = w.c.Log.Send(w.logEnd, c.d.id, message)
	// Let the goroutine that writes to the connection run first.
	runtime.Gosched()
	w.inFlight = append(w.inFlight, f)
	w.chain = chain
	go func() {
		defer close(f.ended)
		f.err = w.answerAndApply(f, before)
		tracing.End(f.span, f.err)
		c.d.b.Free()
	}()
	return nil
}
