package client

import (
	"context"
	"iter"
)

// Interface is what a Client does. Programs that accept it can be tested with
// client/fake. Later versions may add methods: embed Interface in other
// implementations.
//
// All methods are safe for concurrent use.
type Interface interface {
	// Realm returns the realm that the client uses.
	Realm() string
	// Actor returns the actor that the log records for the client's commands.
	Actor() string
	// Revision returns the newest revision that a reply to this client has named.
	// With it as MinRevision, a read from any replica includes everything that
	// this client has read and written.
	Revision() uint64

	// Resource returns a client for the objects of a resource in a namespace. The
	// namespace is empty for cluster-scoped resources; List, ListPage, Watch and
	// Resolve then use all namespaces.
	Resource(r Resource, namespace string) ResourceClient
	// Log returns a client for the realm's event log.
	Log() LogClient
	// Operations returns a client for consumers, parked work and verification.
	Operations() OperationsClient

	// Kinds lists the kinds that are registered in the realm.
	Kinds(ctx context.Context, opts ...CallOption) (*Kinds, error)
	// Status returns the pending work of the realm, after everything that was
	// acknowledged before the call.
	Status(ctx context.Context, opts ...CallOption) (*Status, error)
	// Warnings returns the warnings about the object with a uid, or about all objects
	// if it is empty, the oldest first. The actor needs the verb readwarnings.
	Warnings(ctx context.Context, uid string) ([]Warning, error)
	// FollowWarnings iterates over new warnings until ctx ends. It continues without
	// a gap after a lost connection or a change of servers.
	FollowWarnings(ctx context.Context) iter.Seq2[Warning, error]

	// RunFinalizer calls finalize for every object that is being deleted and has the
	// finalizer, and removes the finalizer when finalize returns nil. It returns when
	// ctx ends. See Client.RunFinalizer.
	RunFinalizer(ctx context.Context, finalizer string, finalize func(context.Context, *Call) error, opts ...WorkerOption) error
	// RunAgent calls terminate for every object of a resource that is being deleted with
	// a grace period, and confirms the end of the object when terminate returns nil. It
	// returns when ctx ends. See Client.RunAgent.
	RunAgent(ctx context.Context, of Resource, terminate func(context.Context, *Termination) error, opts ...WorkerOption) error
}

// ResourceClient reads and writes the objects of one resource in one namespace.
// All methods are safe for concurrent use.
//
// Errors of type *Error match their Reason with errors.Is. The methods do not keep
// or change the objects that they are given.
type ResourceClient interface {
	// Create creates an object and returns it as stored.
	Create(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// CreateBatch creates objects in one request, at most 10,000. Each has its own
	// result, in order. The objects in the results have only what identifies them and
	// the state of their deletion.
	CreateBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// Update replaces an object except its status. If the object has a
	// resourceVersion, Update fails with ErrConflict if the object has changed since.
	Update(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// UpdateBatch updates objects in one request, as CreateBatch creates them.
	UpdateBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// UpdateStatus replaces an object's status.
	UpdateStatus(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// Apply creates an object, or merges it into the existing one.
	Apply(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// ApplyBatch applies objects in one request, as CreateBatch creates them.
	ApplyBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// Patch merges a JSON merge patch (RFC 7386) into an object's manifest.
	Patch(ctx context.Context, name string, patch []byte, opts ...PatchOption) (*Object, error)

	// Get returns an object. The result includes every write that was acknowledged
	// to any client before the call.
	Get(ctx context.Context, name string, opts ...GetOption) (*Object, error)
	// List iterates over the objects, ordered by namespace and name. It reads them
	// page by page; an error ends the iteration.
	List(ctx context.Context, opts ...ListOption) iter.Seq2[*Object, error]
	// ListPage returns one page of a list; Continue(page.Continue) gets the next one.
	ListPage(ctx context.Context, opts ...ListOption) (*Page, error)
	// Watch iterates over the objects and then over their changes until ctx ends. It
	// reconnects by itself. Events of type Bookmark have no object.
	Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[WatchEvent, error]

	// Delete deletes an object. The result is Removed if the object is gone, and
	// Pending if it exists until its finalizers, dependents or agent
	// release it.
	Delete(ctx context.Context, name string, opts ...DeleteOption) (*DeleteResult, error)
	// DeleteBatch deletes objects in one request. Each has its own result, in order.
	DeleteBatch(ctx context.Context, names []string, opts ...DeleteOption) ([]DeleteResult, error)
	// DeleteCollection deletes the objects that match a label selector, which must not
	// be empty. An object that is created during the call is not deleted, even if it
	// has the name of one that was.
	DeleteCollection(ctx context.Context, selector string, opts ...DeleteOption) ([]DeleteResult, error)
	// DeleteEverything deletes all objects of the resource in the namespace, as
	// DeleteCollection does.
	DeleteEverything(ctx context.Context, opts ...DeleteOption) ([]DeleteResult, error)
	// RemoveFinalizer removes a finalizer from an object. An object that is being deleted
	// is removed with its last finalizer. It is no error if the object does not have
	// the finalizer.
	RemoveFinalizer(ctx context.Context, name, finalizer string, opts ...RemoveFinalizerOption) (*Object, error)
	// ImportBatch creates objects with their uids, timestamps and deletion state. All
	// batches of one import name the same session, a UUID. Until the session is closed
	// by CloseSession(true), owners that were not imported yet are unknown, and the
	// collector does not delete their dependents.
	ImportBatch(ctx context.Context, session string, objects []*Object, opts ...ImportOption) ([]Result, error)

	// Plan computes what the deletion of objects would do, all in one commit, and
	// changes nothing. ByPlan makes a later deletion conditional on the plan.
	Plan(ctx context.Context, names []string, opts ...PlanOption) (*Plan, error)
	// Resolve returns objects with the classes of their owners, and with FollowOwners
	// and FollowDependents what is above and below them in the namespace. A client
	// without a namespace also returns objects in other namespaces and cluster-scoped ones.
	Resolve(ctx context.Context, names []string, opts ...GraphOption) (*Graph, error)
	// ResolveUIDs is Resolve for uids, of objects of any resource. Objects that do not
	// exist, or not in the namespace, are left out.
	ResolveUIDs(ctx context.Context, uids []string, opts ...GraphOption) (*Graph, error)
}

// LogClient reads a realm's event log. The actor needs the verb readlog.
// All methods are safe for concurrent use.
type LogClient interface {
	// Read iterates over commits in order. It continues without a gap after a lost
	// connection or a change of servers. By default it reads what is appended after the
	// call; ErrExpired says that the log does not go back to where Read should begin.
	// At most 8 MiB of commits are in memory at the same time.
	Read(ctx context.Context, opts ...LogOption) iter.Seq2[LogCommit, error]
	// Commit reads one commit.
	Commit(ctx context.Context, sequence uint64) (*Commit, error)
	// Last returns the sequence of the last commit, zero for an empty log.
	Last(ctx context.Context) (uint64, error)
}

// OperationsClient is for operators: consumers, parked work, verification and the list of
// realms.
// All methods are safe for concurrent use.
type OperationsClient interface {
	// Consumers returns the consumers that OfFinalizers and OfAgents name, in this order. If
	// they name none, it returns all consumers, those of Coppice's own services too. It
	// also returns the number of queued messages. The actor needs the verb listconsumers.
	Consumers(ctx context.Context, opts ...ConsumersOption) (*Consumers, error)
	// ListParked returns a page of parked work. The actor needs the verb listparked.
	ListParked(ctx context.Context, opts ...ParkedOption) (*ParkedPage, error)
	// RetryParked publishes parked work again to its queue. The errors are in the order of
	// the ids, nil for each success. The actor needs the verb retryparked.
	RetryParked(ctx context.Context, ids []uint64) ([]error, error)
	// DropParked deletes parked work. The pending work that it stood for remains, and is
	// published again after some time. The actor needs the verb dropparked.
	DropParked(ctx context.Context, ids []uint64) ([]error, error)
	// ListRealms returns the realms, ordered by name. The actor needs the verb listrealms.
	ListRealms(ctx context.Context, opts ...RealmsOption) ([]*Realm, error)
	// CreateRealm creates a realm. It returns when the realm is in the list of realms; a
	// client of the realm gets replies when its writer has started, within seconds. The
	// actor needs the verb createrealm in the realm.
	CreateRealm(ctx context.Context, name string) (*Realm, error)
	// DeleteRealm deletes a realm, its log and all that is derived from it. It returns when
	// the deletion is recorded. Graph services then carry it out, also after a crash, and
	// the realm is in the list until that is done. The actor needs the verb deleterealm in
	// the realm.
	DeleteRealm(ctx context.Context, name string, opts ...DeleteRealmOption) (*Realm, error)
	// Verify compares the state of a replica with a fold of the whole log. It takes as
	// long as a rebuild of the state, and shares the run of another client that the replica
	// is carrying out; if that began before a revision that this client has seen, it waits
	// for another run. The actor needs the verb verify.
	Verify(ctx context.Context, opts ...VerifyOption) (*VerifyResult, error)
	// Resume ends the pause of a realm that was restored from an archive or replayed from a
	// file: from then on its collector, finalizers and clients act. It reports whether the
	// realm was paused. The actor needs the verb resume.
	Resume(ctx context.Context) (resumed bool, err error)
}

var (
	_ Interface        = (*Client)(nil)
	_ ResourceClient   = (*resourceClient)(nil)
	_ LogClient        = (*logClient)(nil)
	_ OperationsClient = (*operationsClient)(nil)
)
