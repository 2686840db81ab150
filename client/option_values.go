package client

import (
	"cmp"
	"log/slog"
	"time"
)

// DryRun evaluates the request and returns its result, and changes nothing.
type DryRun bool

// ApplyToWrite sets o.DryRun.
func (v DryRun) ApplyToWrite(o *WriteOptions) { o.DryRun = bool(v) }

// ApplyToReleaseBrake sets o.DryRun.
func (v DryRun) ApplyToReleaseBrake(o *ReleaseBrakeOptions) { o.DryRun = bool(v) }

// ApplyToPatch sets o.DryRun.
func (v DryRun) ApplyToPatch(o *PatchOptions) { o.DryRun = bool(v) }

// ApplyToImport sets o.DryRun.
func (v DryRun) ApplyToImport(o *ImportOptions) { o.DryRun = bool(v) }

// ApplyToRestore sets o.DryRun.
func (v DryRun) ApplyToRestore(o *RestoreOptions) { o.DryRun = bool(v) }

// ApplyToDeletePlanned sets o.DryRun.
func (v DryRun) ApplyToDeletePlanned(o *DeletePlannedOptions) { o.DryRun = bool(v) }

// ApplyToDelete sets o.DryRun.
func (v DryRun) ApplyToDelete(o *DeleteOptions) { o.DryRun = bool(v) }

// Atomic makes a batch succeed or fail as a unit: if one object is refused, none
// is written. By default each object of a batch has its own result.
type Atomic bool

// ApplyToWrite sets o.Atomic.
func (v Atomic) ApplyToWrite(o *WriteOptions) { o.Atomic = bool(v) }

// StrictOwners refuses an object with ErrInvalid if an owner that the call adds to it does not keep it: one that
// does not exist, that is not known to exist, or that is being deleted in the foreground. By default the object is written, and
// Reply.Warnings name such owners. Graph services that are older than this option ignore it.
type StrictOwners bool

// ApplyToWrite sets o.StrictOwners.
func (v StrictOwners) ApplyToWrite(o *WriteOptions) { o.StrictOwners = bool(v) }

// ApplyToPatch sets o.StrictOwners.
func (v StrictOwners) ApplyToPatch(o *PatchOptions) { o.StrictOwners = bool(v) }

// CloseSession ends an import session with this batch: owners that the session did
// not import then count as absent.
type CloseSession bool

// ApplyToImport sets o.CloseSession.
func (v CloseSession) ApplyToImport(o *ImportOptions) { o.CloseSession = bool(v) }

// ApplyToRestore sets o.CloseSession.
func (v CloseSession) ApplyToRestore(o *RestoreOptions) { o.CloseSession = bool(v) }

// IfUID refuses the request with ErrConflict if the object has another uid.
type IfUID string

// ApplyToPatch sets o.UID.
func (v IfUID) ApplyToPatch(o *PatchOptions) { o.UID = string(v) }

// ApplyToRemoveFinalizer sets o.UID.
func (v IfUID) ApplyToRemoveFinalizer(o *RemoveFinalizerOptions) { o.UID = string(v) }

// ApplyToDelete sets o.UID.
func (v IfUID) ApplyToDelete(o *DeleteOptions) { o.UID = string(v) }

// ApplyToPlan sets o.UID.
func (v IfUID) ApplyToPlan(o *PlanOptions) { o.UID = string(v) }

// IfResourceVersion refuses the request with ErrConflict if the object has another
// resourceVersion.
type IfResourceVersion uint64

// ApplyToPatch sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToPatch(o *PatchOptions) { o.ResourceVersion = uint64(v) }

// ApplyToRemoveFinalizer sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToRemoveFinalizer(o *RemoveFinalizerOptions) {
	o.ResourceVersion = uint64(v)
}

// ApplyToDelete sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToDelete(o *DeleteOptions) { o.ResourceVersion = uint64(v) }

// ApplyToPlan sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToPlan(o *PlanOptions) { o.ResourceVersion = uint64(v) }

// Note is a text that the log keeps with the removal of a finalizer or with a
// restoration. A person who removes a controller's finalizer should say why.
type Note string

// ApplyToRemoveFinalizer sets o.Note.
func (v Note) ApplyToRemoveFinalizer(o *RemoveFinalizerOptions) { o.Note = string(v) }

// ApplyToRestore sets o.Note.
func (v Note) ApplyToRestore(o *RestoreOptions) { o.Note = string(v) }

// PropagationPolicy says what a deletion does to dependents. Without one, the object's
// finalizers decide, and then its kind.
type PropagationPolicy string

// ApplyToDelete sets o.Propagation.
func (v PropagationPolicy) ApplyToDelete(o *DeleteOptions) { o.Propagation = v }

// ApplyToPlan sets o.Propagation.
func (v PropagationPolicy) ApplyToPlan(o *PlanOptions) { o.Propagation = v }

// The propagation policies.
const (
	// Background removes the object; the collector then removes its dependents.
	Background PropagationPolicy = "Background"
	// Foreground removes the dependents first.
	Foreground PropagationPolicy = "Foreground"
	// Orphan keeps the dependents, without their owner reference.
	Orphan PropagationPolicy = "Orphan"
)

// GracePeriod is the time that the agent of the object's kind has to end the object. It is
// rounded up to whole seconds; a negative value counts as 1 s. Zero removes the object
// without waiting for the agent. It has no effect on kinds without graceful deletion.
type GracePeriod time.Duration

// ApplyToDelete sets o.GracePeriod.
func (v GracePeriod) ApplyToDelete(o *DeleteOptions) { d := time.Duration(v); o.GracePeriod = &d }

// ApplyToPlan sets o.GracePeriod.
func (v GracePeriod) ApplyToPlan(o *PlanOptions) { d := time.Duration(v); o.GracePeriod = &d }

// ByPlan carries out a deletion only if it still does what a plan says: its value is
// Plan.GetPlan. All objects are deleted or none; if the plan has changed, the call fails
// with ErrConflict, and the error's Causes name what changed. The other options must be those that
// were planned: otherwise the call fails with ErrBadRequest, and the error names what differs. It
// fails with ErrBadRequest, too, if the value is empty.
type ByPlan string

// ApplyToDelete sets o.Plan.
func (v ByPlan) ApplyToDelete(o *DeleteOptions) { o.Plan = cmp.Or(string(v), noPlan) }

// noPlan is what ByPlan sends if it has no name, so that the deletion is refused.
const noPlan = "(none)"

// IncludeUninitialized also returns objects that wait for their initializers, or whose
// initialization failed.
type IncludeUninitialized bool

// ApplyToGet sets o.IncludeUninitialized.
func (v IncludeUninitialized) ApplyToGet(o *GetOptions) { o.IncludeUninitialized = bool(v) }

// ApplyToList sets o.IncludeUninitialized.
func (v IncludeUninitialized) ApplyToList(o *ListOptions) { o.IncludeUninitialized = bool(v) }

// ApplyToWatch sets o.IncludeUninitialized.
func (v IncludeUninitialized) ApplyToWatch(o *WatchOptions) { o.IncludeUninitialized = bool(v) }

// IncludeApplied also returns ObjectMeta.Applied: the names of the members that the last apply has set. Graph services
// that are older than this option ignore it.
type IncludeApplied bool

// ApplyToGet sets o.IncludeApplied.
func (v IncludeApplied) ApplyToGet(o *GetOptions) { o.IncludeApplied = bool(v) }

// ApplyToList sets o.IncludeApplied.
func (v IncludeApplied) ApplyToList(o *ListOptions) { o.IncludeApplied = bool(v) }

// LabelSelector selects objects as kubectl does: "app=web,tier!=db,env in (a,b),!legacy".
type LabelSelector string

// ApplyToList sets o.LabelSelector.
func (v LabelSelector) ApplyToList(o *ListOptions) { o.LabelSelector = string(v) }

// ApplyToWatch sets o.LabelSelector.
func (v LabelSelector) ApplyToWatch(o *WatchOptions) { o.LabelSelector = string(v) }

// Limit is the largest number of results. List uses it as the size of a page, and iterates
// over all objects; without it, or if it is not positive, a page has as many objects as fit
// into a message.
type Limit int

// ApplyToList sets o.Limit.
func (v Limit) ApplyToList(o *ListOptions) { o.Limit = int(v) }

// ApplyToGraph sets o.Limit.
func (v Limit) ApplyToGraph(o *GraphOptions) { o.Limit = int(v) }

// ApplyToLog sets o.Limit.
func (v Limit) ApplyToLog(o *LogOptions) { o.Limit = int(v) }

// ApplyToParked sets o.Limit.
func (v Limit) ApplyToParked(o *ParkedOptions) { o.Limit = int(v) }

// Continue starts a list after a page: its value is Page.Continue.
type Continue string

// ApplyToList sets o.Continue.
func (v Continue) ApplyToList(o *ListOptions) { o.Continue = string(v) }

// MinRevision makes the replica that answers Resolve, ResolveUIDs, Plan or PlanDeletions wait up to 2 s
// for the revision; then the client tries again. With the value of Client.Revision, the read includes
// everything that the client has read and written. List and ListPage include that without this option,
// and with it fail with ErrBadRequest if the revision does not exist yet.
type MinRevision uint64

// ApplyToList sets o.MinRevision.
func (v MinRevision) ApplyToList(o *ListOptions) { o.MinRevision = uint64(v) }

// ApplyToGraph sets o.MinRevision.
func (v MinRevision) ApplyToGraph(o *GraphOptions) { o.MinRevision = uint64(v) }

// ApplyToPlanDeletions sets o.MinRevision.
func (v MinRevision) ApplyToPlanDeletions(o *PlanDeletionsOptions) { o.MinRevision = uint64(v) }

// ApplyToPlan sets o.MinRevision.
func (v MinRevision) ApplyToPlan(o *PlanOptions) { o.MinRevision = uint64(v) }

// FromRevision sets where a call starts. Watch delivers the changes after this revision;
// LogClient.Read begins with the commit that contains it.
type FromRevision uint64

// ApplyToWatch sets o.FromRevision.
func (v FromRevision) ApplyToWatch(o *WatchOptions) { o.FromRevision = uint64(v) }

// ApplyToLog sets o.FromRevision.
func (v FromRevision) ApplyToLog(o *LogOptions) { o.FromRevision = uint64(v) }

// IdleTimeout is the time without any message after which a watch starts again; 15 s by
// default. The service sends a message every 5 s.
type IdleTimeout time.Duration

// ApplyToWatch sets o.IdleTimeout.
func (v IdleTimeout) ApplyToWatch(o *WatchOptions) { o.IdleTimeout = time.Duration(v) }

// ApplyToWatchGraph sets o.IdleTimeout.
func (v IdleTimeout) ApplyToWatchGraph(o *WatchGraphOptions) { o.IdleTimeout = time.Duration(v) }

// FollowOwners follows owner references upwards.
type FollowOwners bool

// ApplyToGraph sets o.Owners.
func (v FollowOwners) ApplyToGraph(o *GraphOptions) { o.Owners = bool(v) }

// FollowDependents follows dependents downwards.
type FollowDependents bool

// ApplyToGraph sets o.Dependents.
func (v FollowDependents) ApplyToGraph(o *GraphOptions) { o.Dependents = bool(v) }

// CountTotal counts the objects and all their direct and indirect dependents, including
// those that do not fit into the reply, up to 1,000,000.
type CountTotal bool

// ApplyToGraph sets o.CountTotal.
func (v CountTotal) ApplyToGraph(o *GraphOptions) { o.CountTotal = bool(v) }

// FromSequence is the position of the first commit to read, from 1: see LogCommit.
type FromSequence uint64

// ApplyToLog sets o.FromSequence.
func (v FromSequence) ApplyToLog(o *LogOptions) { o.FromSequence = uint64(v) }

// ToSequence is the position of the last commit to read; by default the last of the log
// when the call began.
type ToSequence uint64

// ApplyToLog sets o.ToSequence.
func (v ToSequence) ApplyToLog(o *LogOptions) { o.ToSequence = uint64(v) }

// Follow waits for more commits after the last one, until the context ends.
type Follow bool

// ApplyToLog sets o.Follow.
func (v Follow) ApplyToLog(o *LogOptions) { o.Follow = bool(v) }

// ForUIDs leaves out commits that mention none of these uids. A commit that is returned may
// have no event about them.
type ForUIDs []string

// ApplyToLog sets o.UIDs.
func (v ForUIDs) ApplyToLog(o *LogOptions) { o.UIDs = v }

// ForName leaves out commits that do not mention the name of an object. A commit that is
// returned may have no event about it.
type ForName string

// ApplyToLog sets o.Name.
func (v ForName) ApplyToLog(o *LogOptions) { o.Name = string(v) }

// ForNamespace leaves out commits that do not mention a namespace.
type ForNamespace string

// ApplyToLog sets o.Namespace.
func (v ForNamespace) ApplyToLog(o *LogOptions) { o.Namespace = string(v) }

// IncludeSkipped also returns the messages of the stream that are no commits of the
// realm, which graph services skip. Limit does not count them, and no filter applies to them.
type IncludeSkipped bool

// ApplyToLog sets o.Skipped.
func (v IncludeSkipped) ApplyToLog(o *LogOptions) { o.Skipped = bool(v) }

// Undecoded leaves LogCommit.Commit nil. It is for programs that store or send the commits
// as they are in the stream, LogCommit.Stored.
type Undecoded bool

// ApplyToLog sets o.Undecoded.
func (v Undecoded) ApplyToLog(o *LogOptions) { o.Undecoded = bool(v) }

// Concurrency is the number of objects that are handled at the same time; 8 by default.
type Concurrency int

// ApplyToWorker sets o.Concurrency.
func (v Concurrency) ApplyToWorker(o *WorkerOptions) { o.Concurrency = int(v) }

// ParkAfter is the number of attempts after which a call that fails with a Permanent error
// is parked; 5 by default.
type ParkAfter int

// ApplyToWorker sets o.ParkAfter.
func (v ParkAfter) ApplyToWorker(o *WorkerOptions) { o.ParkAfter = int(v) }

// Complete has LogClient.Read fail with ErrForbidden where the users file does not let the actor read all of the log: with an option that
// selects commits this is not known. Undecoded does the same.
type Complete bool

// ApplyToLog sets o.Complete.
func (v Complete) ApplyToLog(o *LogOptions) { o.Complete = bool(v) }

// OnError is called with each error after which the call tries again: when Watch, WatchGraph, LogClient.Read or
// FollowWarnings is interrupted, when a function of RunFinalizer, RunAgent or RunExpiry fails, and when
// RunLeader cannot reach a graph service or has lost its lease. RunFinalizer, RunAgent and RunExpiry also
// call it once for each reason for which they wait, and call it from several goroutines. It must not block.
type OnError func(error)

// ApplyToWatch sets o.OnError.
func (v OnError) ApplyToWatch(o *WatchOptions) { o.OnError = v }

// ApplyToWatchGraph sets o.OnError.
func (v OnError) ApplyToWatchGraph(o *WatchGraphOptions) { o.OnError = v }

// ApplyToLog sets o.OnError.
func (v OnError) ApplyToLog(o *LogOptions) { o.OnError = v }

// ApplyToFollowWarnings sets o.OnError.
func (v OnError) ApplyToFollowWarnings(o *FollowWarningsOptions) { o.OnError = v }

// ApplyToLeader sets o.OnError.
func (v OnError) ApplyToLeader(o *LeaderOptions) { o.OnError = v }

// ApplyToWorker sets o.OnError.
func (v OnError) ApplyToWorker(o *WorkerOptions) { o.OnError = v }

// Backoff is the pause before a failed object is handled again: Min after the first
// failure, doubled after each further one up to Max. A zero field has its default.
type Backoff struct{ Min, Max time.Duration }

// ApplyToWorker sets o.Backoff.
func (v Backoff) ApplyToWorker(o *WorkerOptions) { o.Backoff = v }

// WithLogger logs failed attempts and parked calls; nothing is logged by default.
func WithLogger(l *slog.Logger) WorkerOption { return logger{l} }

type logger struct{ *slog.Logger }

func (v logger) ApplyToWorker(o *WorkerOptions) { o.Logger = v.Logger }

// Reply is what a reply says in addition to the call's result.
type Reply struct {
	// Revision is a revision of the realm: after a read, that of the state that was read;
	// after a write, one that is durable and includes the write. It is also set after
	// deletions, writes that changed nothing, and batches with refused objects.
	Revision uint64
	// Warnings are about the objects of the request, such as an owner reference
	// that has no effect.
	Warnings []string
	// Created reports whether Apply created the object.
	Created bool
}

// ReplyInto stores the revision and the warnings of the reply in r:
//
//	var reply client.Reply
//	pod, err := pods.Update(ctx, pod, client.ReplyInto(&reply))
//
// Calls about objects set it, and so do Kinds, Status, Finalizers, ExpiryPolicies, Storage, Leaders, Brakes,
// Resume and At.
func ReplyInto(r *Reply) ReplyOption { return ReplyOption{r} }

// ReplyOption is the option that ReplyInto returns.
type ReplyOption struct{ into *Reply }

// ApplyToWrite sets o.Reply.
func (v ReplyOption) ApplyToWrite(o *WriteOptions) { o.Reply = v.into }

// ApplyToPatch sets o.Reply.
func (v ReplyOption) ApplyToPatch(o *PatchOptions) { o.Reply = v.into }

// ApplyToRemoveFinalizer sets o.Reply.
func (v ReplyOption) ApplyToRemoveFinalizer(o *RemoveFinalizerOptions) { o.Reply = v.into }

// ApplyToImport sets o.Reply.
func (v ReplyOption) ApplyToImport(o *ImportOptions) { o.Reply = v.into }

// ApplyToRestore sets o.Reply.
func (v ReplyOption) ApplyToRestore(o *RestoreOptions) { o.Reply = v.into }

// ApplyToDelete sets o.Reply.
func (v ReplyOption) ApplyToDelete(o *DeleteOptions) { o.Reply = v.into }

// ApplyToPlanDeletions sets o.Reply.
func (v ReplyOption) ApplyToPlanDeletions(o *PlanDeletionsOptions) { o.Reply = v.into }

// ApplyToDeletePlanned sets o.Reply.
func (v ReplyOption) ApplyToDeletePlanned(o *DeletePlannedOptions) { o.Reply = v.into }

// ApplyToPlan sets o.Reply.
func (v ReplyOption) ApplyToPlan(o *PlanOptions) { o.Reply = v.into }

// ApplyToGet sets o.Reply.
func (v ReplyOption) ApplyToGet(o *GetOptions) { o.Reply = v.into }

// ApplyToList sets o.Reply.
func (v ReplyOption) ApplyToList(o *ListOptions) { o.Reply = v.into }

// ApplyToGraph sets o.Reply.
func (v ReplyOption) ApplyToGraph(o *GraphOptions) { o.Reply = v.into }

// ApplyToCall sets o.Reply.
func (v ReplyOption) ApplyToCall(o *CallOptions) { o.Reply = v.into }
