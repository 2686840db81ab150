package writer

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// commit is a commit with the requests that it answers.
type commit struct {
	d          *OpenCommit
	outcomes   []outcome     // the outcomes of the decided requests, in the order of the decisions
	size       int           // size of these requests and of their replies, in bytes; Config.QueueBytes bounds it
	decideTook time.Duration // time in which requests were decided, without the time between them
	full       bool          // no further request is decided in this commit
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
	if n := len(w.inFlight); n > 0 {
		tx = w.inFlight[n-1].d.Tx.Next()
	} else {
		tx = w.c.State.Begin()
	}
	id := newID()
	c := &commit{d: &OpenCommit{
		Tx:      tx,
		id:      id,
		limit:   w.limit,
		above:   len(w.inFlight) > 0,
		watched: w.c.Begin(),
		Ctx: &lifecycle.Context{
			View: tx, Now: now, NewUID: uid.New, NewSuffix: newSuffix, MaxObject: w.maxObject,
		},
		b: eventlog.NewBuilder(eventlog.Header{
			RealmID: w.chain.RealmID, ID: id, Previous: w.chain.Checksum, Epoch: w.chain.Epoch,
			Time: now, FirstRevision: w.chain.Revision + 1,
			Sequence: w.chain.Sequence + 1, Key: w.chain.Key.Number,
		}),
	}}
	c.d.Ctx.Trip = c.d.trip
	return c, nil
}

// decideTime is how long requests are decided before the writer looks whether the commit can be
// appended: a commit whose requests take long is appended without waiting for all that are queued.
const decideTime = 10 * time.Millisecond

// decideQueued decides queued requests in the open commit, as many as fit.
func (w *Writer) decideQueued(ctx context.Context) error {
	start := time.Now()
	now := start
	for range w.queue.load().requests {
		if now.Sub(start) > decideTime {
			break
		}
		r := w.queue.next()
		if r == nil {
			break
		}
		expired, err := w.dropExpired(r)
		if err != nil {
			w.queue.putBack(r) // it is refused with the others
			return err
		}
		if expired {
			now = time.Now()
			continue
		}
		again, err := w.repeated(ctx, r)
		if err != nil {
			w.queue.putBack(r)
			return err
		}
		if again {
			now = time.Now()
			continue
		}
		if w.open == nil {
			if w.open, err = w.begin(); err != nil {
				w.queue.putBack(r)
				return err
			}
		}
		c := w.open
		refusal := w.checkID(r)
		if refusal == nil {
			refusal = w.checkPaused(c.d, r)
		}
		if refusal == nil && w.ahead(r) {
			c.full = true
		}
		// It may take long until the commit can be appended. So the number of decided
		// requests that wait for their replies is bounded, even if they change nothing.
		if len(c.outcomes) >= w.c.QueueLength || len(c.outcomes) > 0 && c.size+r.Size > w.c.QueueBytes {
			c.full = true
		}
		c.full = c.full || c.d.Crowded()
		if c.full {
			w.queue.putBack(r)
			break
		}
		if refusal != nil {
			c.size += r.Size
			c.outcomes = append(c.outcomes, outcome{r: r, err: refusal})
			now = time.Now()
			continue
		}
		before := c.d.b.Size()
		o, finished := w.do(c.d, r)
		if c.d.fatal != nil {
			return c.d.fatal
		}
		decided := time.Now()
		r.decideTook += decided.Sub(now) + time.Duration(w.perByte*float64(c.d.b.Size()-before))
		now = decided
		if !finished {
			c.full = true
			if c.d.commandAdded {
				w.queue.putBackPart(r)
			} else { // it may need a commit of its own
				w.queue.putBack(r)
			}
			break
		}
		w.queue.updateEstimate(r, r.decideTook)
		c.size += r.Size + sizeOf(o.reply)
		c.outcomes = append(c.outcomes, o)
	}
	if w.open != nil {
		w.open.decideTook += time.Since(start)
	}
	return nil
}

// do lets one request decide, and reports whether it is finished.
func (w *Writer) do(d *OpenCommit, r *Request) (o outcome, finished bool) {
	r.begun = true
	d.Ctx.Actor = r.Actor
	d.traced.begin(r)
	d.startCommand(eventlog.Command{Actor: r.Actor, Verb: r.Verb, Note: r.Note})
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
	part, ref := reply, eventlog.CommandRef{ID: r.ID}
	if r.lastPart != 0 {
		d.addCommand() // also if its last part has no events
		if p, ok := r.Work.(Partial); ok {
			part, ref.PreviousPart = p.Part(d), r.lastPart
		}
	}
	if d.commandAdded {
		d.b.End(ref, replyToStore(d, r, part))
	}
	return outcome{r: r, reply: reply}, true
}

// endPart ends a part of a request that goes on in the next commit. If the part has
// events, and the command an id, it is recorded, so that another writer can go on.
func (w *Writer) endPart(d *OpenCommit, r *Request) {
	if !d.commandAdded {
		return
	}
	if p, ok := r.Work.(Partial); ok && r.ID != (state.CommandID{}) {
		d.b.End(eventlog.CommandRef{ID: r.ID, PreviousPart: r.lastPart, Unfinished: true}, replyToStore(d, r, p.Part(d)))
	}
	r.lastPart = w.chain.Sequence + 1 // the sequence of the open commit
}

// endCommit is the last step of deciding: it records the brakes and notices that the commit has
// changed, and ends the commit in the Tx. It returns the chain after the commit, and the message for the log.
func (w *Writer) endCommit(c *commit) (chain eventlog.Chain, message []byte, err error) {
	d := c.d
	chain = w.chain
	chain.Sequence++
	chain.Revision = d.Revision()
	chain.Time = d.Ctx.Now
	d.recordBrakes()
	d.recordNotices()
	message = d.b.Bytes()
	chain.Checksum = eventlog.Checksum(message)
	d.Tx.EndCommit(state.Commit{
		Sequence: chain.Sequence, Epoch: chain.Epoch, Time: chain.Time, Checksum: chain.Checksum,
		RealmID: chain.RealmID[:], Commands: CommandsOf(d.b.Commands()), StreamCreated: w.c.Log.Created(),
		Key: chain.Key.Number, KeyFingerprint: chain.Key.Fingerprint[:],
	})
	if err := d.Tx.Err(); err != nil {
		return chain, nil, fmt.Errorf("writer: %w", err)
	}
	return chain, message, nil
}

// sizeOf returns about how many bytes of objects a reply has.
func sizeOf(reply proto.Message) (bytes int) {
	r, ok := reply.(*coppicev1.ObjectsReply)
	if !ok {
		return 0
	}
	for _, r := range r.GetResults() {
		o := r.GetObject()
		bytes += len(o.GetSpec()) + len(o.GetStatus()) + len(o.GetExtra())
	}
	return bytes
}
