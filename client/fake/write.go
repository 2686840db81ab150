package fake

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/kept"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// command is a request that writes objects of one resource.
type command struct {
	count          int
	atomic, dryRun bool
	collection     bool // the refusal of the only object is its result
	decide         func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error)
	names          []string // of the objects, none of which may be empty; nil if they are not checked
	// check is called first, if it is not nil.
	check func() error
	// after is called after the objects were decided, before the collector runs.
	after func()
}

// result is the result of one object of a command.
type result struct {
	code     uint32
	object   *client.Object
	err      error
	warnings []string
}

// commit carries out a command, runs the collector, and returns the results and the
// revision between the two. As in the real realm, the error of a command with one object
// is the error of the call.
func (r *resourceClient) commit(ctx context.Context, q command) (results []result, revision uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.begin()
	switch {
	case q.count == 0 && q.after == nil:
		return nil, 0, lifecycle.ErrBadRequest("the request names no objects")
	case q.count > bus.MaxObjects:
		return nil, 0, &client.Error{Reason: client.ErrRequestEntityTooLarge, Message: bus.TooManyObjects}
	}
	if err := checkNames(q.names...); err != nil {
		return nil, 0, err
	}
	at, err := r.key(r.c.realm)
	if err != nil {
		return nil, 0, err
	}
	if q.check != nil {
		if err := q.check(); err != nil {
			return nil, 0, err
		}
	}
	realm := r.c.realm
	if q.atomic || q.dryRun {
		realm = realm.Clone()
	}
	var all []lifecycle.Event
	for i := range q.count {
		out, refusal := q.decide(rules(realm), at, i)
		if refusal != nil {
			refusal.Index = i
			if q.count == 1 && !q.collection || q.atomic {
				return nil, 0, refusal
			}
			results = append(results, result{code: refusal.Reason.Code(), err: refusal})
			continue
		}
		realm.Apply(out.Events)
		all = append(all, out.Events...)
		results = append(results, q.result(out, realm.Node))
	}
	all = append(all, q.removeKept(realm, at, results)...)
	if q.atomic && !q.dryRun {
		r.c.realm.Apply(all)
	}
	if q.after != nil && !q.dryRun {
		q.after()
	}
	revision = r.c.realm.Revision
	r.c.newest = max(r.c.newest, revision)
	r.c.settle()
	return results, revision, nil
}

// result returns the result of an outcome that was applied to a realm with these nodes.
func (q *command) result(out *lifecycle.Outcome, node func(uid.UID) *lifecycle.Node) result {
	object := out.Object
	var after *lifecycle.Node
	if n := len(out.Events); n > 0 {
		after = node(out.Events[n-1].UID)
	}
	if after != nil {
		object.Node = after
	}
	x := result{code: out.Code, warnings: out.Warnings}
	if q.count > 1 {
		x.object = object.Brief()
	} else {
		x.object = object.API()
	}
	x.object = proto.CloneOf(x.object)
	if q.dryRun && q.count == 1 {
		x.object.Metadata.Applied = bytes.Clone(object.Body.GetApplied())
	}
	if q.dryRun && after != nil {
		x.object.Metadata.ResourceVersion = 0
		if out.Object.Node != nil {
			x.object.Metadata.ResourceVersion = out.Object.Revision // from before
		}
	}
	return x
}

// removeKept removes the external finalizers that objects have kept although the command has left
// them out, as the SDK does: the fake has no permissions. It returns the events.
func (q *command) removeKept(realm *memrealm.Realm, at lifecycle.Key, results []result) (events []lifecycle.Event) {
	last := map[string]int{} // by uid: a batch may write an object several times, and the last write decides
	for i, x := range results {
		if x.err == nil {
			last[x.object.GetMetadata().GetUid()] = i
		}
	}
	for i := range results {
		x := &results[i]
		names, others := kept.Finalizers(x.warnings)
		x.warnings = others
		m := x.object.GetMetadata()
		if last[m.GetUid()] > i {
			continue
		}
		for _, f := range names {
			at.Name = m.GetName()
			m.Finalizers = slices.DeleteFunc(m.Finalizers, func(other string) bool { return other == f })
			out, err := lifecycle.RemoveFinalizer(rules(realm), at, f, preconditions(m.GetUid(), 0))
			if err != nil { // the object is gone
				continue
			}
			realm.Apply(out.Events)
			events = append(events, out.Events...)
			if n := realm.Node(out.Object.UID); n != nil && !q.dryRun {
				m.ResourceVersion = n.Revision
			}
		}
	}
	return events
}

// batch returns the results of a command as those of a batch, and fills into.
func batch(results []result, revision uint64, err error, into *client.Reply) ([]client.Result, error) {
	if err != nil {
		return nil, err
	}
	if into != nil {
		*into = client.Reply{Revision: revision}
	}
	list := make([]client.Result, len(results))
	for i, x := range results {
		list[i] = client.Result{Object: x.object, Created: x.code == 201, Err: x.err, Warnings: x.warnings, Revision: revision}
		if into != nil {
			into.Warnings = append(into.Warnings, x.warnings...)
			into.Created = len(results) == 1 && list[i].Created
		}
	}
	return list, nil
}

// one is batch for a command with one object.
func one(results []result, revision uint64, err error, into *client.Reply) (*client.Object, error) {
	list, err := batch(results, revision, err, into)
	if err != nil {
		return nil, err
	}
	return list[0].Object, nil
}

// rule is a rule for an object that the client sends.
type rule func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)

// write writes objects by a rule.
func (r *resourceClient) write(ctx context.Context, by rule, objects []*client.Object, o *client.WriteOptions) ([]result, uint64, error) {
	return r.commit(ctx, command{
		count: len(objects), atomic: o.Atomic, dryRun: o.DryRun,
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			ctx.StrictOwners = o.StrictOwners
			return by(ctx, at, proto.CloneOf(objects[i]))
		},
	})
}

func (r *resourceClient) writeOne(ctx context.Context, by rule, object *client.Object, opts []client.WriteOption) (*client.Object, error) {
	o := collect(opts, client.WriteOption.ApplyToWrite)
	results, revision, err := r.write(ctx, by, []*client.Object{object}, &o)
	return one(results, revision, err, o.Reply)
}

func (r *resourceClient) writeBatch(ctx context.Context, by rule, objects []*client.Object, opts []client.WriteOption) ([]client.Result, error) {
	o := collect(opts, client.WriteOption.ApplyToWrite)
	results, revision, err := r.write(ctx, by, objects, &o)
	return batch(results, revision, err, o.Reply)
}

func (r *resourceClient) Create(ctx context.Context, object *client.Object, opts ...client.WriteOption) (*client.Object, error) {
	return r.writeOne(ctx, lifecycle.Create, object, opts)
}

func (r *resourceClient) CreateBatch(ctx context.Context, objects []*client.Object, opts ...client.WriteOption) ([]client.Result, error) {
	return r.writeBatch(ctx, lifecycle.Create, objects, opts)
}

func (r *resourceClient) Update(ctx context.Context, object *client.Object, opts ...client.WriteOption) (*client.Object, error) {
	return r.writeOne(ctx, lifecycle.Update, object, opts)
}

func (r *resourceClient) UpdateBatch(ctx context.Context, objects []*client.Object, opts ...client.WriteOption) ([]client.Result, error) {
	return r.writeBatch(ctx, lifecycle.Update, objects, opts)
}

func (r *resourceClient) UpdateStatus(ctx context.Context, object *client.Object, opts ...client.WriteOption) (*client.Object, error) {
	return r.writeOne(ctx, lifecycle.UpdateStatus, object, opts)
}

func (r *resourceClient) Apply(ctx context.Context, object *client.Object, opts ...client.WriteOption) (*client.Object, error) {
	return r.writeOne(ctx, lifecycle.Apply, object, opts)
}

func (r *resourceClient) ApplyBatch(ctx context.Context, objects []*client.Object, opts ...client.WriteOption) ([]client.Result, error) {
	return r.writeBatch(ctx, lifecycle.Apply, objects, opts)
}

func (r *resourceClient) ApplyAcross(ctx context.Context, object *client.Object, opts ...client.WriteOption) (*client.Object, error) {
	return r.writeOne(ctx, lifecycle.ApplyAcross, object, opts)
}

func (r *resourceClient) ApplyAcrossBatch(ctx context.Context, objects []*client.Object, opts ...client.WriteOption) ([]client.Result, error) {
	return r.writeBatch(ctx, lifecycle.ApplyAcross, objects, opts)
}

func (r *resourceClient) Patch(ctx context.Context, name string, patch []byte, opts ...client.PatchOption) (*client.Object, error) {
	o := collect(opts, client.PatchOption.ApplyToPatch)
	results, revision, err := r.commit(ctx, command{
		count: 1, dryRun: o.DryRun,
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			ctx.StrictOwners = o.StrictOwners
			return lifecycle.Patch(ctx, at, &coppicev1.Patch{Name: name, Patch: patch, Preconditions: preconditions(o.UID, o.ResourceVersion)})
		},
	})
	return one(results, revision, err, o.Reply)
}

// preconditions returns nil if there are none.
func preconditions(u string, resourceVersion uint64) *coppicev1.Preconditions {
	if u == "" && resourceVersion == 0 {
		return nil
	}
	return &coppicev1.Preconditions{Uid: u, ResourceVersion: resourceVersion}
}

func (r *resourceClient) RemoveFinalizer(ctx context.Context, name, finalizer string, opts ...client.RemoveFinalizerOption) (*client.Object, error) {
	o := collect(opts, client.RemoveFinalizerOption.ApplyToRemoveFinalizer)
	results, revision, err := r.commit(ctx, command{
		count: 1, names: []string{name},
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = name
			return lifecycle.RemoveFinalizer(ctx, at, finalizer, preconditions(o.UID, o.ResourceVersion))
		},
	})
	return one(results, revision, err, o.Reply)
}

// sessionPattern is that of the names of import sessions.
var sessionPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)

func (r *resourceClient) ImportBatch(ctx context.Context, session string, objects []*client.Object, opts ...client.ImportOption) ([]client.Result, error) {
	o := collect(opts, client.ImportOption.ApplyToImport)
	q := r.inSession(session, len(objects), o.DryRun, o.CloseSession, func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Import(ctx, at, session, proto.CloneOf(objects[i]))
	})
	results, revision, err := r.commit(ctx, q)
	return batch(results, revision, err, o.Reply)
}

func (r *resourceClient) RestoreBatch(ctx context.Context, session string, objects []*client.Restored, opts ...client.RestoreOption) ([]client.Result, error) {
	o := collect(opts, client.RestoreOption.ApplyToRestore)
	q := r.inSession(session, len(objects), o.DryRun, o.CloseSession, func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Restore(ctx, at, session, proto.CloneOf(objects[i].GetObject()), objects[i].GetDeletion())
	})
	results, revision, err := r.commit(ctx, q)
	return batch(results, revision, err, o.Reply)
}

// inSession returns the command on objects of an import session.
func (r *resourceClient) inSession(
	session string, objects int, dry, closes bool, decide func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error),
) command {
	q := command{
		count: objects, dryRun: dry,
		check: func() error {
			if !sessionPattern.MatchString(session) {
				return lifecycle.ErrBadRequest("session: %q is not the name of an import session: 1 to 63 letters, digits and hyphens, such as a UUID", session)
			}
			return nil
		},
		decide: decide,
	}
	if objects > 0 || closes {
		q.after = func() { r.c.realm.TouchSession(session, closes) }
	}
	return q
}

// unsupported is the error of what the fake does not have.
func unsupported(what string) error {
	return &client.Error{Reason: client.ErrMethodNotAllowed, Message: fmt.Sprintf("the fake has no %s; use coppicetest.Start", what)}
}
