// Package command implements the commands of the object API and of the internal operations,
// as work for the writer. Package lifecycle has the rules by which they decide. This
// package has the batching of objects, atomicity, and the replies.
package command

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/kept"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Objects is a command on objects of one resource, in one namespace: a batch of one or
// more. Each object has its own outcome, unless Atomic is set. The reply is a
// coppice.v1.ObjectsReply. It has all fields of the object for a batch of one, and only
// identifying fields for larger batches, unless ReturnObjects is set.
type Objects struct {
	Resource  string
	Namespace string
	// Count is the number of objects.
	Count int
	// Decide decides for the i-th object.
	Decide func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error)
	// Name returns the name of the i-th object, so that many are looked up at once. It is
	// nil if that is not worth it.
	Name func(i int) string
	// Check, unless nil, is called before anything is decided, in an empty commit on top of
	// a state that has all earlier commits. If it returns an error, the command is refused.
	Check func(*writer.OpenCommit) *lifecycle.Error
	// Atomic: if one object is refused, nothing is changed.
	Atomic bool
	// DryRun: reply as if the command were executed, and change nothing.
	DryRun bool
	// Collection: the objects are those that matched a selector: the refusal of one is its
	// result, also if there is no other.
	Collection bool
	// ReturnObjects: the reply has all fields of the objects, also of more than one.
	ReturnObjects bool
	// Session is the import session of the objects. Close ends it with this command.
	Session string
	Close   bool

	results    []*coppicev1.Result
	size       int  // of the results, in bytes
	recorded   int  // number of results, from the first on, that are in the log
	logged     int  // their size, in bytes
	replyInLog bool // the events in the log give the other results
	added      bool // events were added to this commit
}

var (
	_ writer.ObjectsWork = (*Objects)(nil)
	_ writer.Partial     = (*Objects)(nil)
)

// Do implements writer.Work.
func (o *Objects) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	kind := d.Ctx.Kinds().Resource(o.Resource)
	if kind == nil {
		return true, lifecycle.ErrUnknownKind(o.Resource)
	}
	if o.Check != nil {
		if !d.Alone() {
			return false, nil
		}
		if err := o.Check(d); err != nil {
			return true, err
		}
	}
	at := lifecycle.Key{Kind: kind, Namespace: o.Namespace}
	if o.Count*smallestResult > o.largest(d) {
		return true, o.tooLarge(at)
	}
	whole := o.Atomic || o.DryRun
	alone := d.Empty()
	if whole {
		o.results, o.size = nil, 0
		d.Savepoint()
	}
	if len(o.results) == o.recorded {
		o.replyInLog = !o.DryRun
	}
	o.added = false
	// The results that no earlier part has recorded are stored with this one.
	if finished = d.Reserve(o.size - o.logged); finished {
		finished, err = o.each(d, at)
	}
	switch {
	case whole && (err != nil || !finished || o.DryRun):
		d.Rollback()
		if err == nil && !finished && alone {
			return true, o.tooLarge(at)
		}
	case whole:
		d.Release()
	}
	// The session is open from the first part on: until a later part is committed, its owners
	// are unknown, and not absent.
	if err == nil && o.Session != "" && !o.DryRun && (finished || o.added) {
		d.Session(o.Session, finished && o.Close)
	}
	return finished, err
}

// each decides the remaining objects, until their events do not fit into the commit.
func (o *Objects) each(d *writer.OpenCommit, at lifecycle.Key) (finished bool, err *lifecycle.Error) {
	begin := len(o.results)
	ahead := begin
	for len(o.results) < o.Count {
		if d.Crowded() && !o.Atomic && !o.DryRun {
			return false, nil
		}
		i := len(o.results)
		if i == ahead {
			ahead = o.readAhead(d, at, i)
		}
		out, err := o.Decide(d.Ctx, at, i)
		if unreadable := d.Tx.TakeUnreadable(); unreadable != nil { // B8.1
			if err != nil || !out.BodyOptional {
				err = unreadable.Refusal(d.Ctx.Kinds())
			} else {
				out.Object.Body = nil
				out.Warnings = append(out.Warnings, fmt.Sprintf("%s is unreadable: its body cannot be decoded, and is not in the reply", lifecycle.KeyOf(d.Tx, out.Object.Node)))
			}
		}
		if err != nil {
			if o.Count == 1 && !o.Collection || o.Atomic {
				return true, indexed(err, i, o.Count)
			}
			r, size := o.fit(d, &coppicev1.Result{Code: err.Reason.Code(), Error: status(err, i)})
			if !d.Reserve(size) {
				return false, nil
			}
			o.add(r, size)
			o.replyInLog = false
			continue
		}
		replyInLog := inLog(out)
		replySize := 0
		if len(out.Events) == 0 { // the result is known; estimates of many may add up to more than a commit has
			_, replySize = o.fit(d, o.result(out, state.Change{}))
		} else {
			if o.Count > 1 || !replyInLog {
				replySize = o.resultSize(out)
			}
			if o.Count > 1 {
				replySize = min(replySize, o.room(d))
			}
			for _, w := range out.Warnings {
				replySize += len(w) + 16
			}
		}
		change, ok := d.Add(out.Events, replySize)
		if !ok {
			if !o.Atomic && !o.DryRun && d.Empty() && len(o.results) == begin {
				return true, o.tooLarge(at)
			}
			return false, nil
		}
		o.added = o.added || len(out.Events) > 0
		result := o.result(out, change)
		r, size := o.fit(d, result)
		o.add(r, size)
		o.replyInLog = o.replyInLog && replyInLog && r == result
	}
	return true, nil
}

// readAhead looks up the names of objects from the i-th on, and returns the index behind
// the last.
func (o *Objects) readAhead(d *writer.OpenCommit, at lifecycle.Key, i int) int {
	behind := min(o.Count, i+readAhead)
	if o.Name != nil && o.Count > 1 {
		names := make([]string, 0, behind-i)
		for k := i; k < behind; k++ {
			names = append(names, o.Name(k))
		}
		d.Tx.PrefetchNames(at.Kind, at.Namespace, names)
	}
	return behind
}

// resultSize returns an upper bound of the size of a result in bytes, without its warnings.
func (o *Objects) resultSize(out *lifecycle.Outcome) int {
	const fixed = 256 // numbers, times, a UUID
	size := fixed
	of := func(n *lifecycle.Node) {
		if n == nil {
			return
		}
		size += len(n.UID) + len(n.APIVersion) + len(n.Kind) + len(n.Namespace) + len(n.Name)
		for _, f := range n.Finalizers {
			size += len(f) + 4
		}
		if o.Brief() {
			return
		}
		for i := range n.Owners {
			r := &n.Owners[i]
			size += len(r.APIVersion) + len(r.Kind) + len(r.Name) + max(len(r.UID), uuidLength) + 24
		}
		for i := range n.Uses {
			u := &n.Uses[i]
			size += len(u.Group) + len(u.Kind) + len(u.Name) + len(u.Namespace) + max(len(u.UID), uuidLength) + 24
		}
		for _, name := range n.Initializers {
			size += len(name) + 8
		}
	}
	of(out.Object.Node)
	for i := range out.Events {
		of(out.Events[i].Object.Node)
		for _, f := range out.Events[i].Mark.Finalizers {
			size += len(f) + 4
		}
	}
	if !o.Brief() {
		size += proto.Size(out.Object.Body)
	}
	return size
}

// uuidLength is the length of a UUID as text, which a uid.UID may pack.
const uuidLength = 36

// smallestResult is the maximum size in bytes of a result that fit has shortened.
const smallestResult = 128

// largest returns the maximum size of the reply to a batch, in bytes. The reply must fit
// into one message, and into one commit with the last object.
func (o *Objects) largest(d *writer.OpenCommit) int { return d.Limit() / 2 }

// room returns the maximum size of the next result, in bytes.
func (o *Objects) room(d *writer.OpenCommit) int {
	rest := o.Count - len(o.results) - 1
	return max(smallestResult, o.largest(d)-o.size-rest*smallestResult)
}

// fit returns the next result and its size. It shortens the result if the reply would
// otherwise have no room for the smallest form of the remaining results.
func (o *Objects) fit(d *writer.OpenCommit, r *coppicev1.Result) (*coppicev1.Result, int) {
	size := sizeOf(r)
	if o.Count == 1 || size <= o.room(d) {
		return r, size
	}
	small := &coppicev1.Result{Code: r.GetCode()}
	if names, _ := kept.Finalizers(r.GetWarnings()); names != nil {
		small.Warnings = []string{kept.Unnamed} // the client must not take them for removed
	}
	if slices.ContainsFunc(r.GetWarnings(), lifecycle.OwnersWarned) {
		small.Warnings = append(small.Warnings, lifecycle.OwnersUnnamed)
	}
	if m := r.GetObject().GetMetadata(); m != nil {
		small.Object = &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Uid: m.GetUid(), ResourceVersion: m.GetResourceVersion()}}
	}
	if e := r.GetError(); e != nil {
		small.Error = &coppicev1.Status{
			Code: e.GetCode(), Reason: e.GetReason(), Message: "refused; the full message does not fit into the reply: send fewer objects at once to read it",
			Details: &coppicev1.StatusDetails{Index: e.GetDetails().GetIndex()},
		}
	}
	return small, sizeOf(small)
}

func (o *Objects) add(r *coppicev1.Result, size int) {
	o.results = append(o.results, r)
	o.size += size
}

// sizeOf returns the size of a result in its reply, in bytes.
func sizeOf(r *coppicev1.Result) int { return objectcodec.ResultSize(r) + 6 }

// inLog reports whether the result for one object follows from the events in the log.
func inLog(out *lifecycle.Outcome) bool {
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
	r := &coppicev1.Result{Code: out.Code, Warnings: out.Warnings}
	if o.Brief() {
		r.Object = object.Brief()
	} else {
		r.Object = object.API()
	}
	if o.DryRun && change.After != nil {
		r.Object.Metadata.ResourceVersion = 0
		if out.Object.Node != nil {
			r.Object.Metadata.ResourceVersion = out.Object.Revision // of the existing object
		}
	}
	if o.DryRun && !o.Brief() {
		r.Object.Metadata.Applied = object.Body.GetApplied() // it may be all that would change
	}
	return r
}

func (o *Objects) tooLarge(at lifecycle.Key) *lifecycle.Error {
	e := &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Resource: at.Kind.Resource(), Namespace: at.Namespace,
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
func (o *Objects) Reply(d *writer.OpenCommit) proto.Message {
	return &coppicev1.ObjectsReply{Results: o.results, Revision: d.Revision()}
}

// Part implements writer.Partial.
func (o *Objects) Part(d *writer.OpenCommit) proto.Message {
	part := &coppicev1.ObjectsReply{Results: o.results[o.recorded:], Revision: d.Revision()}
	o.recorded, o.logged = len(o.results), o.size
	return part
}

// Resume implements writer.Partial.
func (o *Objects) Resume(reply proto.Message) *lifecycle.Error {
	results := reply.(*coppicev1.ObjectsReply).GetResults()
	if o.Atomic || o.DryRun || len(results) >= o.Count {
		return lifecycle.ErrBadRequest("the command id belongs to a command with more objects, of which %d are done; this request has %d in all: send it with another command id", len(results), o.Count)
	}
	o.results, o.size = results, 0
	for _, r := range results {
		o.size += sizeOf(r)
	}
	o.recorded, o.logged = len(results), o.size
	return nil
}

// ReplyInLog implements writer.Work.
func (o *Objects) ReplyInLog() bool { return o.replyInLog }

// Brief implements writer.ObjectsWork.
func (o *Objects) Brief() bool { return o.Count > 1 && !o.ReturnObjects }

// NewReply implements writer.Work.
func (o *Objects) NewReply() proto.Message { return &coppicev1.ObjectsReply{} }
