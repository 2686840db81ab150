// Package command has the commands of the object API and of the internal
// operations, as work for the writer. What they decide is package lifecycle's;
// here is how many objects at once, all or none, and what is answered.
package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Objects is a command on objects of one resource, in one namespace: a batch
// of one or more. Each object has its own outcome, unless Atomic. The reply is
// a coppice.v1.ObjectsReply; it has whole objects for a batch of one, and what
// identifies them for larger ones.
type Objects struct {
	Resource  string
	Namespace string
	// Count is how many objects there are.
	Count int
	// Decide decides the i-th.
	Decide func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error)
	// Atomic: all or none.
	Atomic bool
	// DryRun: answer as if, and change nothing.
	DryRun bool
	// Session is the import session that the objects come in, and Close
	// whether it ends with them.
	Session string
	Close   bool

	results []*coppicev1.Result
	told    bool // by the events
}

var _ writer.Work = (*Objects)(nil)

// Do implements writer.Work.
func (o *Objects) Do(d *writer.Decision) (finished bool, err *lifecycle.Error) {
	kind := d.Ctx.Kinds().Resource(o.Resource)
	if kind == nil {
		return true, lifecycle.ErrUnknownKind(o.Resource)
	}
	at := lifecycle.Key{Kind: kind, Namespace: o.Namespace}
	whole := o.Atomic || o.DryRun
	alone := d.Empty()
	if whole {
		o.results = nil
		d.Savepoint()
	}
	if len(o.results) == 0 {
		o.told = !o.DryRun
	}
	finished, err = o.each(d, at)
	switch {
	case whole && (err != nil || !finished || o.DryRun):
		d.Rollback()
		if err == nil && !finished && alone {
			return true, o.tooLarge(at)
		}
	case whole:
		d.Release()
	}
	if err == nil && finished && o.Session != "" && !o.DryRun {
		d.Session(o.Session, o.Close)
	}
	return finished, err
}

// each decides the objects that are still to be decided, as far as they fit.
func (o *Objects) each(d *writer.Decision, at lifecycle.Key) (finished bool, err *lifecycle.Error) {
	for len(o.results) < o.Count {
		i := len(o.results)
		out, err := o.Decide(d.Ctx, at, i)
		if err != nil {
			if o.Count == 1 || o.Atomic {
				return true, indexed(err, i, o.Count)
			}
			o.results = append(o.results, &coppicev1.Result{Code: err.Reason.Code(), Error: status(err, i)})
			o.told = false
			continue
		}
		told := tells(out)
		kept := 0
		if o.Count > 1 {
			kept = briefSize
		} else if !told {
			kept = proto.Size(out.Object.Body) + wholeSize
		}
		for _, w := range out.Warnings {
			kept += len(w) + 16
		}
		change, ok := d.Apply(out.Events, kept)
		if !ok {
			if !o.Atomic && !o.DryRun && d.Empty() {
				return true, o.tooLarge(at)
			}
			return false, nil
		}
		o.told = o.told && told
		o.results = append(o.results, o.result(out, change))
	}
	return true, nil
}

// What a result takes at the most, in bytes: of a batch, and beside its body.
const (
	briefSize = 1 << 10
	wholeSize = 4 << 10
)

// tells reports whether the log tells the outcome of a command for one object.
func tells(out *lifecycle.Outcome) bool {
	if len(out.Events) != 1 || len(out.Warnings) > 0 {
		return false
	}
	e := &out.Events[0]
	return (e.Type == lifecycle.ObjectCreated || e.Type == lifecycle.ObjectUpdated) &&
		e.Object.Body != nil && out.Code == writer.CodeOf(e.Type)
}

func (o *Objects) result(out *lifecycle.Outcome, change state.Change) *coppicev1.Result {
	object := out.Object
	if change.After != nil {
		object.Node = change.After
	}
	r := &coppicev1.Result{Code: out.Code, Object: object.API(), Warnings: out.Warnings}
	if o.DryRun && change.After != nil {
		r.Object.Metadata.ResourceVersion = 0
		if change.Before != nil {
			r.Object.Metadata.ResourceVersion = change.Before.Revision
		}
	}
	if o.Count > 1 {
		r.Object = writer.Brief(r.Object)
	}
	return r
}

func (o *Objects) tooLarge(at lifecycle.Key) *lifecycle.Error {
	e := &lifecycle.Error{Reason: lifecycle.ReasonTooLarge, Resource: at.Kind.Resource(), Namespace: at.Namespace,
		Message: "the request does not fit into one commit; send fewer objects at once"}
	if o.Count == 1 {
		e.Message = "the object does not fit into one commit"
	}
	return e
}

func indexed(err *lifecycle.Error, i, count int) *lifecycle.Error {
	if count > 1 {
		err.Index = i
	}
	return err
}

func status(err *lifecycle.Error, i int) *coppicev1.Status {
	err.Index = i
	return err.Status()
}

// Reply implements writer.Work.
func (o *Objects) Reply(d *writer.Decision) proto.Message {
	return &coppicev1.ObjectsReply{Results: o.results, Revision: d.Revision()}
}

// Told implements writer.Work.
func (o *Objects) Told() bool { return o.told }

// NewReply implements writer.Work.
func (o *Objects) NewReply() proto.Message { return &coppicev1.ObjectsReply{} }
