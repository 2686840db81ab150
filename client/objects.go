package client

import (
	"context"
	"iter"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// WriteOptions are options of writing requests; the zero value is none.
type WriteOptions struct {
	// DryRun answers as if, and changes nothing.
	DryRun bool
	// Atomic, of a batch: all or none.
	Atomic bool
}

func (o *Objects) write(ctx context.Context, verb string, opts WriteOptions, objects ...*coppicev1.Object) (*coppicev1.ObjectsReply, error) {
	var reply coppicev1.ObjectsReply
	err := o.c.call(ctx, o.api(verb), true, &coppicev1.ObjectsRequest{Objects: objects, Atomic: opts.Atomic, DryRun: opts.DryRun}, &reply)
	return &reply, err
}

// Create creates an object.
func (o *Objects) Create(ctx context.Context, object *coppicev1.Object, opts WriteOptions) (Result, error) {
	return o.create(ctx, opts, object)
}

// CreateAll creates objects in one request. Without Atomic each has an outcome
// of its own, in the results. Results of a batch have of the objects what
// identifies them.
func (o *Objects) CreateAll(ctx context.Context, objects []*coppicev1.Object, opts WriteOptions) ([]Result, error) {
	reply, err := o.write(ctx, bus.VerbCreate, opts, objects...)
	return results(reply), err
}

// Update replaces an object, apart from its status. With a resourceVersion it
// fails with Conflict if the object has changed since.
func (o *Objects) Update(ctx context.Context, object *coppicev1.Object, opts WriteOptions) (Result, error) {
	return one(o.write(ctx, bus.VerbUpdate, opts, object))
}

// UpdateAll is Update for many, as CreateAll is for Create.
func (o *Objects) UpdateAll(ctx context.Context, objects []*coppicev1.Object, opts WriteOptions) ([]Result, error) {
	reply, err := o.write(ctx, bus.VerbUpdate, opts, objects...)
	return results(reply), err
}

// UpdateStatus replaces an object's status.
func (o *Objects) UpdateStatus(ctx context.Context, object *coppicev1.Object, opts WriteOptions) (Result, error) {
	return one(o.write(ctx, bus.VerbUpdateStatus, opts, object))
}

// Apply creates an object, or merges it into the one that is there.
func (o *Objects) Apply(ctx context.Context, object *coppicev1.Object, opts WriteOptions) (Result, error) {
	return one(o.write(ctx, bus.VerbApply, opts, object))
}

// Patch merges a JSON merge patch (RFC 7386) into an object's manifest.
func (o *Objects) Patch(ctx context.Context, name string, patch []byte, pre *coppicev1.Preconditions, opts WriteOptions) (Result, error) {
	var reply coppicev1.ObjectsReply
	return one(&reply, o.c.call(ctx, o.api(bus.VerbPatch), true, &coppicev1.PatchRequest{
		Patches: []*coppicev1.Patch{{Name: name, Patch: patch, Preconditions: pre}}, DryRun: opts.DryRun,
	}, &reply))
}

// Get returns an object, as it is now: not older than anything that was
// answered to anybody before.
func (o *Objects) Get(ctx context.Context, name string) (*coppicev1.Object, error) {
	var reply coppicev1.ObjectsReply
	r, err := one(&reply, o.c.call(ctx, o.api(bus.VerbGet), false, &coppicev1.GetRequest{
		Names: []string{name}, IncludeUninitialized: o.uninitialized,
	}, &reply))
	return r.Object, err
}

// ListOptions are options of List; the zero value lists all.
type ListOptions struct {
	// LabelSelector is as in kubectl: "app=web,tier!=db,env in (a,b),!legacy".
	LabelSelector string
	// Limit is how many objects are fetched at once; as many as fit if zero.
	Limit int
}

// List iterates over the objects, ordered by namespace and name. They are
// fetched page by page; Page tells at which revision each page was read.
func (o *Objects) List(ctx context.Context, opts ListOptions) iter.Seq2[*coppicev1.Object, error] {
	return func(yield func(*coppicev1.Object, error) bool) {
		next := ""
		for {
			page, err := o.Page(ctx, opts, next)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, object := range page.Objects {
				if !yield(object, nil) {
					return
				}
			}
			if next = page.Continue; next == "" {
				return
			}
		}
	}
}

// Page is one page of a list.
type Page struct {
	Objects []*coppicev1.Object
	// Revision is when the page was read.
	Revision uint64
	// Continue is what the next page is asked with, empty behind the last.
	Continue string
}

// Page returns the page behind next, the first if it is empty.
func (o *Objects) Page(ctx context.Context, opts ListOptions, next string) (Page, error) {
	var reply coppicev1.ListReply
	err := o.c.call(ctx, o.api(bus.VerbList), false, &coppicev1.ListRequest{
		LabelSelector: opts.LabelSelector, Limit: uint32(opts.Limit), Continue: next, IncludeUninitialized: o.uninitialized,
	}, &reply)
	return Page{Objects: reply.GetObjects(), Revision: reply.GetRevision(), Continue: reply.GetContinue()}, err
}

// DeleteOptions are Kubernetes' options of a deletion; nil is none.
type DeleteOptions = coppicev1.DeleteOptions

// Delete deletes an object. The result's Code is 200 when it is gone, and 202
// when it is there until its finalizers are.
func (o *Objects) Delete(ctx context.Context, name string, opts *DeleteOptions) (Result, error) {
	var reply coppicev1.ObjectsReply
	return one(&reply, o.c.call(ctx, o.api(bus.VerbDelete), true, &coppicev1.DeleteRequest{Names: []string{name}, Options: opts}, &reply))
}

// DeletePlanned deletes objects, all or none, if that does what a plan says:
// name is its PlanReply's Plan. Otherwise it fails with Conflict, and with what
// has changed.
func (o *Objects) DeletePlanned(ctx context.Context, names []string, opts *DeleteOptions, name string) ([]Result, error) {
	var reply coppicev1.ObjectsReply
	err := o.c.call(ctx, o.api(bus.VerbDelete), true, &coppicev1.DeleteRequest{Names: names, Options: opts, Plan: name}, &reply)
	return results(&reply), err
}

// DeleteAll deletes objects by name in one request, each with its own outcome.
func (o *Objects) DeleteAll(ctx context.Context, names []string, opts *DeleteOptions) ([]Result, error) {
	var reply coppicev1.ObjectsReply
	err := o.c.call(ctx, o.api(bus.VerbDelete), true, &coppicev1.DeleteRequest{Names: names, Options: opts}, &reply)
	return results(&reply), err
}

// DeleteCollection deletes the objects that match, each as the one that was
// listed: one that was made anew meanwhile stays.
func (o *Objects) DeleteCollection(ctx context.Context, selector string, opts *DeleteOptions) ([]Result, error) {
	return o.deleteCollection(ctx, &coppicev1.DeleteCollectionRequest{LabelSelector: selector, Options: opts})
}

// DeleteWholeCollection deletes all objects of the resource, in the namespace, as
// DeleteCollection does those that match a selector.
func (o *Objects) DeleteWholeCollection(ctx context.Context, opts *DeleteOptions) ([]Result, error) {
	return o.deleteCollection(ctx, &coppicev1.DeleteCollectionRequest{All: true, Options: opts})
}

func (o *Objects) deleteCollection(ctx context.Context, request *coppicev1.DeleteCollectionRequest) ([]Result, error) {
	var all []Result
	for {
		var reply coppicev1.DeleteCollectionReply
		err := o.c.call(ctx, o.api(bus.VerbDeleteCollection), false, request, &reply)
		all = append(all, results(&coppicev1.ObjectsReply{Results: reply.GetResults(), Revision: reply.GetRevision()})...)
		if err != nil {
			return all, err
		}
		if request.Continue = reply.GetContinue(); request.Continue == "" {
			return all, nil
		}
	}
}

// RemoveFinalizer removes a finalizer from an object. The reason is for the
// log: wanted where a person removes what a controller has set. The last
// finalizer of an object that is being deleted takes the object with it; a
// finalizer that is not there is no error.
func (o *Objects) RemoveFinalizer(ctx context.Context, name, finalizer, reason string, pre *coppicev1.Preconditions) (Result, error) {
	a := o.api(bus.VerbRemoveFinalizer)
	a.Finalizer = finalizer
	var reply coppicev1.ObjectsReply
	return one(&reply, o.c.call(ctx, a, true, &coppicev1.RemoveFinalizerRequest{
		Objects: []*coppicev1.FinalizerHolder{{Name: name, Preconditions: pre}}, Reason: reason,
	}, &reply))
}

// ImportAll brings objects with their uids, timestamps and deletion state. All
// of one import name the same session; until the last closes it, owners that
// were not seen yet are unknown, and nothing is deleted for them.
func (o *Objects) ImportAll(ctx context.Context, session string, objects []*coppicev1.Object, closing bool, opts WriteOptions) ([]Result, error) {
	var reply coppicev1.ObjectsReply
	err := o.c.call(ctx, o.api(bus.VerbImport), true, &coppicev1.ImportRequest{
		Session: session, Objects: objects, Close: closing, DryRun: opts.DryRun,
	}, &reply)
	return results(&reply), err
}

// GraphOptions says how far Resolve goes.
type GraphOptions struct {
	// Owners and Dependents follow references upwards and downwards.
	Owners, Dependents bool
	Limit              int
	// MinRevision is how old the answer may be.
	MinRevision uint64
}

// Resolve returns an object with the classes of its owners and, if asked for,
// what is above and below it in the namespace. What is elsewhere, cluster-scoped
// owners among that, Objects without a namespace return: see ResolveUIDs.
func (o *Objects) Resolve(ctx context.Context, names []string, opts GraphOptions) (*coppicev1.ResolveObjectsReply, error) {
	return o.resolve(ctx, &coppicev1.ResolveObjectsRequest{Names: names}, opts)
}

// ResolveUIDs is Resolve for uids, of objects of any resource. Those that are
// not there, or not in the namespace, are left out.
func (o *Objects) ResolveUIDs(ctx context.Context, uids []string, opts GraphOptions) (*coppicev1.ResolveObjectsReply, error) {
	return o.resolve(ctx, &coppicev1.ResolveObjectsRequest{Uids: uids}, opts)
}

func (o *Objects) resolve(ctx context.Context, r *coppicev1.ResolveObjectsRequest, opts GraphOptions) (*coppicev1.ResolveObjectsReply, error) {
	r.Owners, r.Dependents, r.Limit, r.MinRevision = opts.Owners, opts.Dependents, uint32(opts.Limit), opts.MinRevision
	var reply coppicev1.ResolveObjectsReply
	err := o.c.call(ctx, o.api(bus.VerbResolve), false, r, &reply)
	return &reply, err
}
