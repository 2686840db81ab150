package client

import (
	"context"
	"iter"
	"time"
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

	// PlanDeletions computes what several deletions would do, all in one commit, and changes
	// nothing. Their objects may have several resources and namespaces: the actor needs the
	// verb plan for each.
	PlanDeletions(ctx context.Context, deletions []Deletion, opts ...PlanDeletionsOption) (*Plan, error)
	// DeletePlanned carries out the plan of several deletions, all in one commit. It fails with
	// ErrConflict, and changes nothing, if they would do something else by now, and with
	// ErrBadRequest if the plan was made with other options. The results are
	// in the order of the deletions and their names. The actor needs the verb delete for each
	// resource and namespace; without one of them it fails with ErrForbidden and changes nothing.
	DeletePlanned(ctx context.Context, plan string, deletions []Deletion, opts ...DeletePlannedOption) ([]DeleteResult, error)

	// Kinds lists the kinds that are registered in the realm.
	Kinds(ctx context.Context, opts ...CallOption) (*Kinds, error)
	// Status returns the pending work of the realm, after everything that was
	// acknowledged before the call.
	Status(ctx context.Context, opts ...CallOption) (*Status, error)
	// Warnings returns the warnings about the object with a uid, the oldest first; with an
	// empty uid those about all objects. The actor needs the verb readwarnings.
	Warnings(ctx context.Context, uid string, opts ...WarningsOption) ([]Warning, error)
	// FollowWarnings iterates over new warnings until ctx ends, and then ends without an
	// error. It continues without a gap after a lost connection or a change of servers.
	FollowWarnings(ctx context.Context, opts ...FollowWarningsOption) iter.Seq2[Warning, error]

	// WatchGraph iterates over the objects of all kinds that the actor may get, without their
	// contents, and then over their changes, until ctx ends. The actor needs the verb
	// watchgraph. See Client.WatchGraph.
	WatchGraph(ctx context.Context, opts ...WatchGraphOption) iter.Seq2[GraphEvent, error]

	// RunFinalizer calls finalize for every object that is being deleted and has the
	// finalizer, and removes the finalizer when finalize returns nil. It returns when
	// ctx ends. See Client.RunFinalizer.
	RunFinalizer(ctx context.Context, finalizer string, finalize func(context.Context, *Call) error, opts ...WorkerOption) error
	// RunAgent calls terminate for every object of a resource that is being deleted with
	// a grace period, and confirms the end of the object when terminate returns nil. It
	// returns when ctx ends. See Client.RunAgent.
	RunAgent(ctx context.Context, of Resource, terminate func(context.Context, *Termination) error, opts ...WorkerOption) error
	// RunExpiry calls decide for every notice of the expiry policies whose spec.call is
	// name, and sends the answer that decide returns. It returns when ctx ends. See
	// Client.RunExpiry.
	RunExpiry(ctx context.Context, name string, decide func(context.Context, *ExpiryCall) (ExpiryAnswer, error), opts ...WorkerOption) error
	// RunLeader calls lead while this process has a lease: at most one process of the actor at a
	// time. It returns when lead returns, or when ctx ends. See Client.RunLeader.
	RunLeader(ctx context.Context, lease string, lead func(context.Context) error, opts ...LeaderOption) error
}

// ResourceClient reads and writes the objects of one resource in one namespace.
// All methods are safe for concurrent use.
//
// Errors of type *Error match their Reason with errors.Is. In addition to those that a method
// names, each can fail with ErrForbidden if the actor lacks the permission, with
// ErrUnknownKind if the resource is not registered, and with ErrInvalid or ErrBadRequest if
// an object or an option is wrong. ErrServiceUnavailable, ErrTooManyRequests and ErrTimeout
// come when the context or the retry timeout ends before a retry has succeeded. After one of
// these, ErrOutcomeUnknown or an error of the context, it is unknown whether a write was
// carried out; after any other error it has changed nothing. The methods do not keep or change
// the objects that they are given.
type ResourceClient interface {
	// Create creates an object and returns it as stored. It fails with ErrAlreadyExists if
	// the name is taken, and with ErrForbidden or ErrMethodNotAllowed if the namespace or the
	// kind is being deleted.
	Create(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// CreateBatch creates objects in one request, at most 10,000. Each has its own
	// result, in order. The objects in the results have only what identifies them and
	// the state of their deletion.
	CreateBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// Update replaces an object except its status. If the object has a
	// resourceVersion or a uid, Update fails with ErrConflict if that has changed. It fails
	// with ErrNotFound if there is no such object. External finalizers that the object leaves out
	// are removed by requests that follow, with the permission for the verb removefinalizer. Those
	// that the actor may not remove stay, with a warning in Reply; so it is with Patch, Apply and
	// ImportBatch. If such a request fails, the error says that the object was written: with
	// ErrConflict, if the write named a resourceVersion and the object has changed since. So does the
	// error ErrRequestEntityTooLarge of an object of a batch whose reply has no room for the names.
	Update(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// UpdateBatch updates objects in one request. Limits and results are those of CreateBatch.
	UpdateBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// UpdateStatus replaces an object's status. It fails as Update does.
	UpdateStatus(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// Apply creates an object, or merges it into the existing one: it sets what object has, removes what the
	// last Apply has set and object does not have, and keeps what others have set. What the server sets, such
	// as uid and resourceVersion, is ignored.
	Apply(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// ApplyBatch applies objects in one request. Limits and results are those of CreateBatch.
	ApplyBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// ApplyAcross is Apply for an object that uses objects in other namespaces: see
	// AddUseAcross. The realm settings must share those namespaces. The actor needs the verb
	// applyacross, which includes the permission to apply.
	ApplyAcross(ctx context.Context, object *Object, opts ...WriteOption) (*Object, error)
	// ApplyAcrossBatch is ApplyBatch for objects that use objects in other namespaces.
	ApplyAcrossBatch(ctx context.Context, objects []*Object, opts ...WriteOption) ([]Result, error)
	// Patch merges a JSON merge patch (RFC 7386) into an object's manifest. It fails with
	// ErrNotFound if there is no such object, and with ErrConflict if a precondition failed.
	Patch(ctx context.Context, name string, patch []byte, opts ...PatchOption) (*Object, error)

	// Get returns an object. The result includes every write that was acknowledged
	// to any client before the call. It fails with ErrNotFound if there is no such object.
	Get(ctx context.Context, name string, opts ...GetOption) (*Object, error)
	// List iterates over the objects, ordered by namespace and name. It reads them
	// page by page; an error ends the iteration. Each page includes every write that was
	// acknowledged before the page was requested.
	List(ctx context.Context, opts ...ListOption) iter.Seq2[*Object, error]
	// ListPage returns one page of a list; Continue(page.Continue) gets the next one. A page
	// can be empty although others follow.
	ListPage(ctx context.Context, opts ...ListOption) (*Page, error)
	// Watch iterates over the objects and then over their changes until ctx ends. It
	// reconnects by itself. Events of type Bookmark have no object. It ends without an error
	// when ctx ends: check ctx.Err. After ErrExpired watch again without FromRevision, and remove
	// from a cache what is not delivered before the next event with Synced.
	Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[WatchEvent, error]

	// Delete deletes an object. The state of the result is Removed if the object is gone,
	// and Pending while finalizers, dependents, users or an agent block its removal. It fails
	// with ErrNotFound if there is no such object, with ErrConflict if a precondition failed
	// or the plan of ByPlan has changed, with ErrBadRequest if that plan was made with other
	// options, and with ErrForbidden if the object is protected.
	Delete(ctx context.Context, name string, opts ...DeleteOption) (*DeleteResult, error)
	// DeleteBatch deletes objects in one request. Each has its own result, in order.
	DeleteBatch(ctx context.Context, names []string, opts ...DeleteOption) ([]DeleteResult, error)
	// DeleteCollection deletes the objects that match a label selector, which must not
	// be empty. An object that is created during the call is not deleted, even if it
	// has the name of one that was. It sends several requests, without command ids. After an error
	// it returns the results so far. If a reply was lost, the results lack objects that were removed then.
	DeleteCollection(ctx context.Context, selector string, opts ...DeleteOption) ([]DeleteResult, error)
	// DeleteEverything deletes all objects of the resource in the namespace, as
	// DeleteCollection does.
	DeleteEverything(ctx context.Context, opts ...DeleteOption) ([]DeleteResult, error)
	// RemoveFinalizer removes a finalizer from an object. An object that is being deleted
	// is removed with its last finalizer. It is no error if the object does not have
	// the finalizer. It fails with ErrNotFound if there is no such object, and with
	// ErrConflict if a precondition failed or the finalizer waits for other objects.
	RemoveFinalizer(ctx context.Context, name, finalizer string, opts ...RemoveFinalizerOption) (*Object, error)
	// ForceFinalizer removes an external finalizer in place of its controller, for a reason that
	// the log keeps. It fails with ErrConflict while a program works on the call for this
	// object, unless IfCall names the call. The actor needs the verb forcefinalizer.
	ForceFinalizer(ctx context.Context, name, finalizer, reason string, opts ...ForceOption) (*Object, error)
	// DeleteUnreadable removes an object whose body cannot be decoded, neither in the state nor in
	// the log, for a reason that the log keeps. It calls none of its finalizers. It fails with
	// ErrConflict if the body can be decoded, and names what to do. The actor needs the verb
	// deleteunreadable.
	DeleteUnreadable(ctx context.Context, name, reason string, opts ...DeleteUnreadableOption) (*Object, error)
	// Protect protects objects from deletion, for a reason, until Unprotect removes the
	// protection: a DELETE of them fails with ErrForbidden, and the collector leaves them.
	// Each has its own result, in order. The actor needs the verb protect.
	Protect(ctx context.Context, names []string, reason string, opts ...ProtectOption) ([]Result, error)
	// Veto postpones the deletion of an object of which an expiry policy has given notice, for a
	// reason. It fails with ErrConflict if there is no notice. The actor needs the verb veto.
	Veto(ctx context.Context, name string, until time.Time, reason string, opts ...VetoOption) error
	// Agree agrees to the deletion of an object of which an expiry policy has given notice: it ends a
	// veto, and policies that keep objects on silence delete it. The actor needs the verb veto.
	Agree(ctx context.Context, name, reason string, opts ...VetoOption) error
	// Unprotect removes the protection of objects. The collector then deletes those that no
	// owner keeps, as Plan with PlanUnprotect shows. The actor needs the verb unprotect.
	Unprotect(ctx context.Context, names []string, reason string, opts ...ProtectOption) ([]Result, error)
	// ImportBatch creates objects with their uids, timestamps and deletion state. All
	// batches of one import name the same session, a UUID. Until the session is closed
	// by CloseSession(true), owners that were not imported yet are unknown, and the
	// collector does not delete their dependents.
	ImportBatch(ctx context.Context, session string, objects []*Object, opts ...ImportOption) ([]Result, error)
	// RestoreBatch creates deleted objects again, each with a uid that was never used, and
	// replaces the owner references of existing objects. The log names the deletion of each
	// object as the cause. Sessions work as in ImportBatch. Package client/restore computes
	// the objects to send. The actor needs the verb restore.
	RestoreBatch(ctx context.Context, session string, objects []*Restored, opts ...RestoreOption) ([]Result, error)

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
	// connection or a change of servers. Without FromSequence and FromRevision it begins
	// after the last commit, and delivers commits only with Follow. If ctx ends, the
	// iteration ends without an error: check ctx.Err. ErrExpired says that the beginning can
	// no longer be read.
	// At most 8 MiB of commits are in memory at the same time.
	Read(ctx context.Context, opts ...LogOption) iter.Seq2[LogCommit, error]
	// Commit reads the commit with a sequence. It fails with ErrNotFound if the log has no
	// such commit, and with ErrExpired if the commit can no longer be read.
	Commit(ctx context.Context, sequence uint64, opts ...CommitOption) (*Commit, error)
	// Last returns the sequence of the last commit, zero for an empty log.
	Last(ctx context.Context, opts ...CommitOption) (uint64, error)
}

// OperationsClient is for operators: consumers, parked work, verification and the list of
// realms.
// All methods are safe for concurrent use.
type OperationsClient interface {
	// Consumers returns the consumers that ForFinalizers and ForAgents name, in this order.
	// Without these options it returns all consumers, including those of Coppice's own
	// services. The reply also has the number of queued messages. The actor needs the verb
	// listconsumers.
	Consumers(ctx context.Context, opts ...ConsumersOption) (*Consumers, error)
	// Finalizers returns the external finalizers that objects have, ordered by name, with the
	// number of objects, and the time at which the first of those that are being deleted was
	// marked. It reads all objects, in several requests: changes in between may be counted or not.
	// The actor needs the verb listfinalizers.
	Finalizers(ctx context.Context, opts ...CallOption) ([]*FinalizerInUse, error)
	// Storage returns what the realm takes on disks, as the graph service that writes it sees it: its log, its
	// state and its archive, and when the log is cut.
	Storage(ctx context.Context, opts ...CallOption) (*Storage, error)
	// Leaders returns the leases by which the processes of controllers elect a leader, ordered by actor and
	// name. The actor needs the verb status.
	Leaders(ctx context.Context, opts ...CallOption) ([]*ControllerLease, error)
	// ExpiryPolicies returns what the last evaluation of each expiry policy has found, ordered by
	// name. The writer keeps these results in memory: after a change of the writer they begin
	// empty. The actor needs the verb status.
	ExpiryPolicies(ctx context.Context, opts ...CallOption) ([]*ExpiryStatus, error)
	// ListParked returns a page of parked work. The actor needs the verb listparked.
	ListParked(ctx context.Context, opts ...ParkedOption) (*ParkedPage, error)
	// RetryParked publishes parked work again to its queue. The errors are in the order of
	// the ids, nil for each success. The actor needs the verb retryparked.
	RetryParked(ctx context.Context, ids []uint64, opts ...ChangeParkedOption) ([]error, error)
	// DropParked deletes parked work. The pending work that it stood for remains, and is
	// published again after some time. The actor needs the verb dropparked.
	DropParked(ctx context.Context, ids []uint64, opts ...ChangeParkedOption) ([]error, error)
	// ListRealms returns the realms, ordered by name. The actor needs the verb listrealms.
	ListRealms(ctx context.Context, opts ...RealmsOption) ([]*Realm, error)
	// CreateRealm creates a realm. It returns when the realm is in the list of realms; a
	// client of the realm gets replies when its writer has started, within seconds. The
	// actor needs the verb createrealm in the realm.
	CreateRealm(ctx context.Context, name string, opts ...CreateRealmOption) (*Realm, error)
	// DeleteRealm deletes a realm, its log and all that is derived from it. It returns when
	// the deletion is recorded. Graph services then carry it out, also after a crash, and
	// the realm is in the list until that is done. The actor needs the verb deleterealm in
	// the realm.
	DeleteRealm(ctx context.Context, name string, opts ...DeleteRealmOption) (*Realm, error)
	// Verify compares the state of a replica with a fold of the log since the newest verified
	// snapshot of the archive or, with FromFirstCommit or without a snapshot, of the whole
	// log. That can take as long as a rebuild of the state. If the replica is verifying for
	// another client, Verify shares that run, and waits for a second one if the first began
	// before a revision that this client has seen. The actor needs the verb verify.
	Verify(ctx context.Context, opts ...VerifyOption) (*VerifyResult, error)
	// Archive puts what was committed before the call into the archive, and returns when it is there: which
	// archive it is, and up to which commit it has the log. That can take long; OnProgress is called
	// every few seconds. If archiving fails, the error says why. The actor needs the verb archive.
	Archive(ctx context.Context, opts ...ArchiveOption) (*Archived, error)
	// Resume ends the pause of a realm that was restored from an archive or replayed from a
	// file: from then on its collector, finalizers and clients act. It reports whether the
	// realm was paused. The actor needs the verb resume.
	Resume(ctx context.Context, opts ...CallOption) (resumed bool, err error)
	// Brakes returns the brakes of the kinds that have one, ordered by resource. The actor
	// needs the verb brakes.
	Brakes(ctx context.Context, opts ...CallOption) ([]*BrakeStatus, error)
	// ReleaseBrake releases the brake of a kind: it lets through the deletions that the brake
	// pauses at one revision, which the result names, and those that follow from them by the plan
	// at that revision. If more are pending than one release lets through, GetMore of the result
	// is true, and the brake stays tripped. The actor needs the verb releasebrake for the kind.
	ReleaseBrake(ctx context.Context, kind Resource, opts ...ReleaseBrakeOption) (*BrakeRelease, error)
}

var (
	_ Interface        = (*Client)(nil)
	_ ResourceClient   = (*resourceClient)(nil)
	_ LogClient        = (*logClient)(nil)
	_ OperationsClient = (*operationsClient)(nil)
)
