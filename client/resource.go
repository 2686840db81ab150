package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// resourceClient is the ResourceClient of a Client.
type resourceClient struct {
	c         *Client
	resource  Resource
	namespace string
}

func (r *resourceClient) api(verb string) bus.API {
	return bus.API{
		Realm: r.c.realm, Actor: r.c.actor, Verb: verb,
		Group: r.resource.Group, Plural: r.resource.Plural, Namespace: r.namespace,
	}
}

// results returns the results of a batch.
func results(reply *coppicev1.ObjectsReply) []Result {
	list := make([]Result, len(reply.GetResults()))
	for i, r := range reply.GetResults() {
		list[i] = Result{Object: r.GetObject(), Created: r.GetCode() == 201, Warnings: r.GetWarnings(), Revision: reply.GetRevision()}
		if r.GetError() != nil {
			list[i].Err = api.ErrorOf(r.GetError())
		}
	}
	return list
}

// one returns the result of a request with one object, and fills into if it is not nil.
func one(reply *coppicev1.ObjectsReply, into *Reply, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	list := results(reply)
	if len(list) != 1 {
		return Result{}, errResults(len(list), 1)
	}
	r := list[0]
	if into != nil {
		*into = Reply{Revision: r.Revision, Warnings: r.Warnings, Created: r.Created}
	}
	return r, r.Err
}

func errResults(got, want int) error {
	return &Error{Reason: ErrInternalError, Message: fmt.Sprintf("the reply has %d results, want %d", got, want)}
}

// object is one for methods that return an object.
func object(reply *coppicev1.ObjectsReply, into *Reply, err error) (*Object, error) {
	r, err := one(reply, into, err)
	if err != nil {
		return nil, err
	}
	return r.Object, nil
}

func (r *resourceClient) write(ctx context.Context, verb string, o WriteOptions, objects ...*Object) (*coppicev1.ObjectsReply, error) {
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, r.api(verb), &coppicev1.ObjectsRequest{Objects: objects, Atomic: o.Atomic, DryRun: o.DryRun, StrictOwners: o.StrictOwners}, &reply)
	if err == nil {
		err = r.removeKept(ctx, &reply, o.DryRun, func(i int) bool { return objects[i].GetMetadata().GetResourceVersion() != 0 })
	}
	return &reply, err
}

func (r *resourceClient) writeOne(ctx context.Context, verb string, o *Object, opts []WriteOption) (*Object, error) {
	w := collect(opts, WriteOption.ApplyToWrite)
	reply, err := r.write(ctx, verb, w, o)
	return object(reply, w.Reply, err)
}

func (r *resourceClient) writeBatch(ctx context.Context, verb string, objects []*Object, opts []WriteOption) ([]Result, error) {
	w := collect(opts, WriteOption.ApplyToWrite)
	reply, err := r.write(ctx, verb, w, objects...)
	return batch(reply, w.Reply, err)
}

// batch returns the results of a batch, and fills into if it is not nil.
func batch(reply *coppicev1.ObjectsReply, into *Reply, err error) ([]Result, error) {
	if err != nil {
		return nil, err
	}
	list := results(reply)
	if into != nil {
		*into = Reply{Revision: reply.GetRevision()}
		for _, r := range list {
			into.Warnings = append(into.Warnings, r.Warnings...)
		}
	}
	return list, nil
}

func (r *resourceClient) Create(ctx context.Context, o *Object, opts ...WriteOption) (*Object, error) {
	w := collect(opts, WriteOption.ApplyToWrite)
	if r.c.batches != nil && !w.DryRun && !w.Atomic && !w.StrictOwners {
		return r.createBatched(ctx, o, w.Reply)
	}
	reply, err := r.write(ctx, bus.VerbCreate, w, o)
	return object(reply, w.Reply, err)
}

func (r *resourceClient) CreateBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error) {
	return r.writeBatch(ctx, bus.VerbCreate, objects, opts)
}

func (r *resourceClient) Update(ctx context.Context, o *Object, opts ...WriteOption) (*Object, error) {
	return r.writeOne(ctx, bus.VerbUpdate, o, opts)
}

func (r *resourceClient) UpdateBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error) {
	return r.writeBatch(ctx, bus.VerbUpdate, objects, opts)
}

func (r *resourceClient) UpdateStatus(ctx context.Context, o *Object, opts ...WriteOption) (*Object, error) {
	return r.writeOne(ctx, bus.VerbUpdateStatus, o, opts)
}

func (r *resourceClient) Apply(ctx context.Context, o *Object, opts ...WriteOption) (*Object, error) {
	return r.writeOne(ctx, bus.VerbApply, o, opts)
}

func (r *resourceClient) ApplyBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error) {
	return r.writeBatch(ctx, bus.VerbApply, objects, opts)
}

func (r *resourceClient) ApplyAcross(ctx context.Context, o *Object, opts ...WriteOption) (*Object, error) {
	return r.writeOne(ctx, bus.VerbApplyAcross, o, opts)
}

func (r *resourceClient) ApplyAcrossBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error) {
	return r.writeBatch(ctx, bus.VerbApplyAcross, objects, opts)
}

func (r *resourceClient) Patch(ctx context.Context, name string, patch []byte, opts ...PatchOption) (*Object, error) {
	p := collect(opts, PatchOption.ApplyToPatch)
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, r.api(bus.VerbPatch), &coppicev1.PatchRequest{
		Patches: []*coppicev1.Patch{{Name: name, Patch: patch, Preconditions: preconditions(p.UID, p.ResourceVersion)}}, DryRun: p.DryRun, StrictOwners: p.StrictOwners,
	}, &reply)
	if err == nil {
		err = r.removeKept(ctx, &reply, p.DryRun, func(int) bool { return p.ResourceVersion != 0 })
	}
	return object(&reply, p.Reply, err)
}

// preconditions returns nil if there are none.
func preconditions(uid string, resourceVersion uint64) *coppicev1.Preconditions {
	if uid == "" && resourceVersion == 0 {
		return nil
	}
	return &coppicev1.Preconditions{Uid: uid, ResourceVersion: resourceVersion}
}

func (r *resourceClient) RemoveFinalizer(ctx context.Context, name, finalizer string, opts ...RemoveFinalizerOption) (*Object, error) {
	f := collect(opts, RemoveFinalizerOption.ApplyToRemoveFinalizer)
	at := r.api(bus.VerbRemoveFinalizer)
	at.Finalizer = finalizer
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, at, &coppicev1.RemoveFinalizerRequest{
		Objects: []*coppicev1.FinalizerTarget{{Name: name, Preconditions: preconditions(f.UID, f.ResourceVersion)}}, Reason: f.Note,
	}, &reply)
	return object(&reply, f.Reply, err)
}

func (r *resourceClient) ImportBatch(ctx context.Context, session string, objects []*Object, opts ...ImportOption) ([]Result, error) {
	o := collect(opts, ImportOption.ApplyToImport)
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, r.api(bus.VerbImport), &coppicev1.ImportRequest{
		Session: session, Objects: objects, Close: o.CloseSession, DryRun: o.DryRun,
	}, &reply)
	if err == nil {
		err = r.removeKept(ctx, &reply, o.DryRun, func(int) bool { return false })
	}
	return batch(&reply, o.Reply, err)
}

func (r *resourceClient) RestoreBatch(ctx context.Context, session string, objects []*Restored, opts ...RestoreOption) ([]Result, error) {
	o := collect(opts, RestoreOption.ApplyToRestore)
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, r.api(bus.VerbRestore), &coppicev1.RestoreRequest{
		Session: session, Objects: objects, Close: o.CloseSession, DryRun: o.DryRun, Note: o.Note,
	}, &reply)
	return batch(&reply, o.Reply, err)
}

func (r *resourceClient) Get(ctx context.Context, name string, opts ...GetOption) (*Object, error) {
	g := collect(opts, GetOption.ApplyToGet)
	var reply coppicev1.ObjectsReply
	err := r.c.read(ctx, r.api(bus.VerbGet), &coppicev1.GetRequest{
		Names: []string{name}, IncludeUninitialized: g.IncludeUninitialized, IncludeApplied: g.IncludeApplied,
	}, &reply)
	return object(&reply, g.Reply, err)
}

func (r *resourceClient) List(ctx context.Context, opts ...ListOption) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		l := collect(opts, ListOption.ApplyToList)
		for {
			page, err := r.page(ctx, l)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range page.Objects {
				if !yield(o, nil) {
					return
				}
			}
			if l.Continue = page.Continue; l.Continue == "" {
				return
			}
		}
	}
}

func (r *resourceClient) ListPage(ctx context.Context, opts ...ListOption) (*Page, error) {
	return r.page(ctx, collect(opts, ListOption.ApplyToList))
}

func (r *resourceClient) page(ctx context.Context, l ListOptions) (*Page, error) {
	var reply coppicev1.ListReply
	if err := r.c.read(ctx, r.api(bus.VerbList), &coppicev1.ListRequest{
		LabelSelector: l.LabelSelector, Limit: uint32(max(l.Limit, 0)), Continue: l.Continue, MinRevision: l.MinRevision,
		IncludeUninitialized: l.IncludeUninitialized, IncludeApplied: l.IncludeApplied,
	}, &reply); err != nil {
		return nil, err
	}
	if l.Reply != nil {
		*l.Reply = Reply{Revision: reply.GetRevision()}
	}
	return &Page{Objects: reply.GetObjects(), Revision: reply.GetRevision(), Continue: reply.GetContinue()}, nil
}

func (r *resourceClient) Resolve(ctx context.Context, names []string, opts ...GraphOption) (*Graph, error) {
	return r.resolve(ctx, &coppicev1.ResolveObjectsRequest{Names: names}, opts)
}

func (r *resourceClient) ResolveUIDs(ctx context.Context, uids []string, opts ...GraphOption) (*Graph, error) {
	return r.resolve(ctx, &coppicev1.ResolveObjectsRequest{Uids: uids}, opts)
}

func (r *resourceClient) resolve(ctx context.Context, q *coppicev1.ResolveObjectsRequest, opts []GraphOption) (*Graph, error) {
	g := collect(opts, GraphOption.ApplyToGraph)
	q.Owners, q.Dependents, q.Limit, q.MinRevision, q.CountTotal = g.Owners, g.Dependents, uint32(max(g.Limit, 0)), g.MinRevision, g.CountTotal
	var reply Graph
	if err := r.c.read(ctx, r.api(bus.VerbResolve), q, &reply); err != nil {
		return nil, err
	}
	if g.Reply != nil {
		*g.Reply = Reply{Revision: reply.GetRevision()}
	}
	return &reply, nil
}
