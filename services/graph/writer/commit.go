package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

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
