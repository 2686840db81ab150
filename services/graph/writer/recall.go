package writer

import (
	"context"
	"crypto/rand"
	"fmt"
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
// of the first.
func (w *Writer) repeated(ctx context.Context, r *Request) bool {
	if r.ID == (state.CommandID{}) {
		return false
	}
	if again, pending := w.repeats(r); pending {
		return again
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

// repeats reports whether the command of a request is pending, and whether the
// request is a repetition of it, which then gets its outcome.
func (w *Writer) repeats(r *Request) (again, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.pending[r.ID]
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
	if w.pending[r.ID] == nil {
		w.pending[r.ID] = &inFlight{first: r}
	}
}

// answer answers a request, and its repetitions.
func (w *Writer) answer(o outcome) {
	o.r.done(o.reply, o.err)
	if o.r.ID == (state.CommandID{}) {
		return
	}
	w.mu.Lock()
	f := w.pending[o.r.ID]
	if f != nil && f.first == o.r {
		delete(w.pending, o.r.ID)
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
				return recall(c, i, r.Work, reply)
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

// recall fills in the reply that a command of a commit had: the one that was
// kept with it, or the one that its events tell.
func recall(c *eventlog.Decoded, command int, work Work, reply proto.Message) error {
	kept, err := c.Reply(command)
	if err != nil {
		return err
	}
	if kept != nil {
		return proto.Unmarshal(kept, reply)
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
