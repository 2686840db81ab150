package writer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// inFlight is a command whose outcome is not known yet.
type inFlight struct {
	first       *Request
	repetitions []*Request
}

// repeated takes care of a request whose command is known: it gets the outcome
// of the first, or goes on where the log has the first parts of it.
func (w *Writer) repeated(ctx context.Context, r *Request) (bool, error) {
	if r.ID == (state.CommandID{}) {
		return false, nil
	}
	if again, pending := w.repeats(r); pending {
		return again, nil
	}
	at, ok, err := w.c.State.Command(r.key())
	if err != nil {
		return false, fmt.Errorf("writer: %w", err)
	}
	if !ok || at.Unfinished && at.Sequence == r.recorded {
		return false, nil
	}
	r.recorded = at.Sequence
	select {
	case w.recalls <- struct{}{}:
		w.recalling.Go(func() {
			defer func() { <-w.recalls }()
			w.recall(ctx, at, r)
		})
	default:
		w.abandon(r)
	}
	return true, nil
}

// repeats reports whether the command of a request is pending, and whether the
// request is a repetition of it, which then gets its outcome.
func (w *Writer) repeats(r *Request) (again, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.pending[r.key()]
	if f == nil {
		return false, false
	}
	if f.first != r {
		f.repetitions = append(f.repetitions, r)
	}
	return f.first != r, true
}

// expect says that the outcome of a command is to come.
func (w *Writer) expect(r *Request) {
	if r.ID == (state.CommandID{}) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[r.key()] == nil {
		w.pending[r.key()] = &inFlight{first: r}
	}
}

// answer answers a request, and its repetitions.
func (w *Writer) answer(o outcome) {
	o.r.done(o.reply, o.err)
	if o.r.ID == (state.CommandID{}) {
		return
	}
	w.mu.Lock()
	f := w.pending[o.r.key()]
	if f != nil && f.first == o.r {
		delete(w.pending, o.r.key())
	} else {
		f = nil
	}
	w.mu.Unlock()
	if f == nil {
		return
	}
	for _, r := range f.repetitions {
		r.done(o.reply, o.err)
	}
}

// abandon answers a request, and its repetitions, of which a part is in the log, or
// may be: with its id it can be repeated. Without one it is not answered.
func (w *Writer) abandon(r *Request) {
	if r.ID == (state.CommandID{}) {
		return
	}
	w.answer(outcome{r: r, err: &lifecycle.Error{
		Reason: lifecycle.ReasonTimeout,
		Message: fmt.Sprintf("realm %s: the command was begun or carried out, and its outcome cannot be told now; "+
			"repeat it with the same command id", w.c.Realm),
		RetryAfter: 250 * time.Millisecond,
	}})
}

// recall answers a repeated command from the log, or has it go on if the log does not
// have the end of it.
func (w *Writer) recall(ctx context.Context, at state.Recorded, r *Request) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply := r.Work.NewReply()
	err := w.readParts(ctx, at.Sequence, r, reply)
	switch {
	case errors.Is(err, errAnother):
		r.done(nil, unknown(r, lifecycle.TimeOf(w.c.Now())))
		return
	case err == nil && at.Unfinished:
		w.resume(r, reply)
		return
	case err == nil:
		r.done(reply, nil)
		return
	}
	w.c.Logger.Warn("cannot recall the outcome of a repeated command", "realm", w.c.Realm, "sequence", at.Sequence, "error", err)
	w.abandon(r)
}

// resume has a request go on behind the parts that the log has, with their reply.
func (w *Writer) resume(r *Request, reply proto.Message) {
	work, ok := r.Work.(Partial)
	if !ok {
		r.done(nil, lifecycle.ErrBadRequest("the command id is that of another command, which is not finished"))
		return
	}
	if err := work.Resume(reply); err != nil {
		r.done(nil, err)
		return
	}
	w.Submit(r)
}

// errAnother is returned for a commit that does not have the command.
var errAnother = errors.New("the commit does not have the command")

// readParts adds the outcomes of a command to a reply, from its first part until the
// one in the commit of a sequence.
func (w *Writer) readParts(ctx context.Context, sequence uint64, r *Request, reply proto.Message) error {
	type part struct {
		commit  *eventlog.Decoded
		command int
	}
	var parts []part
	for sequence != 0 {
		message, err := w.c.Log.Get(ctx, sequence)
		if err != nil {
			return err
		}
		c, err := eventlog.Decode(message)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(c.Commands, func(k eventlog.CommandRef) bool { return k.ID == r.ID && k.Actor == r.Actor })
		if i < 0 {
			return errAnother
		}
		previous := c.Commands[i].PreviousPart
		if previous >= sequence {
			return fmt.Errorf("sequence %d names sequence %d as the part before", sequence, previous)
		}
		parts = append(parts, part{c, i})
		sequence = previous
	}
	for _, p := range slices.Backward(parts) {
		if err := readPart(p.commit, p.command, r.Work, reply); err != nil {
			return err
		}
	}
	return nil
}

// readPart adds to a reply that of a command of a commit: what was kept with the
// command, or what its events tell.
func readPart(c *eventlog.Decoded, command int, work Work, reply proto.Message) error {
	kept, err := c.Reply(command)
	if err != nil {
		return err
	}
	if kept != nil {
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(kept, reply)
	}
	on, ok := work.(ObjectsWork)
	if !ok {
		return fmt.Errorf("no reply was kept with the command")
	}
	objects := reply.(*coppicev1.ObjectsReply)
	return c.Each(func(e *eventlog.Entry) error {
		if e.Command != command {
			return nil
		}
		o := lifecycle.Object{Node: e.After(nil, e.Revision), Body: &coppicev1.Body{}}
		if err := proto.Unmarshal(e.Body, o.Body); err != nil {
			return err
		}
		r := &coppicev1.Result{Code: CodeOf(e.Type)}
		if on.Brief() {
			r.Object = o.Brief()
		} else {
			r.Object = o.API()
		}
		objects.Results = append(objects.Results, r)
		objects.Revision = e.Revision
		return nil
	})
}

// CommandsOf are the commands of a commit that can be repeated, as the state keeps them.
func CommandsOf(refs []eventlog.CommandRef) []state.Command {
	list := make([]state.Command, 0, len(refs))
	for i := range refs {
		if id := state.CommandID(refs[i].ID); id != (state.CommandID{}) {
			list = append(list, state.Command{CommandKey: state.CommandKey{Actor: refs[i].Actor, ID: id}, Unfinished: refs[i].Unfinished})
		}
	}
	return list
}

// CodeOf is the code of a result that an event tells.
func CodeOf(t lifecycle.EventType) uint32 {
	if t == lifecycle.ObjectCreated {
		return 201
	}
	return 200
}

// registration is the object that registers a kind.
func registration(spec lifecycle.KindSpec) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: lifecycle.APIVersion,
		Kind:       "Kind",
		Metadata:   &coppicev1.ObjectMeta{Name: lifecycle.ResourceName(spec.Group, spec.Plural)},
		Spec:       spec.JSON(),
	}
}

func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// suffixLetters are those of Kubernetes' generated names: no vowels, so that
// no words come about, and nothing that looks like something else.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

func newSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:])
	for i := range b {
		b[i] = suffixLetters[int(b[i])%len(suffixLetters)]
	}
	return string(b[:])
}
