package client

import (
	"log/slog"
	"time"
)

// The options of calls. Each is a named type with a value, such as
// DryRun(true) or Limit(10), and has an Apply method for each call that takes it.
// The option structs and the Apply methods are exported for other implementations
// of the interfaces, such as fakes and wrappers. A struct is an option too: it replaces
// the options before it, for programs that compute their options.
//
// The first word says what an option does: If... is a condition, and the call changes nothing if it is not
// met; For... selects; From... and To... are the ends of a range; Include... and Follow... return more.

// WriteOptions are the options of Create, CreateBatch, Update, UpdateBatch, UpdateStatus,
// Apply, ApplyBatch, ApplyAcross and ApplyAcrossBatch. Atomic has an effect on batches only.
type WriteOptions struct {
	DryRun       bool
	Atomic       bool
	StrictOwners bool
	Reply        *Reply
}

// WriteOption is an option of a call that writes objects: DryRun, Atomic, StrictOwners or ReplyInto.
type WriteOption interface{ ApplyToWrite(o *WriteOptions) }

// PatchOptions are the options of Patch.
type PatchOptions struct {
	DryRun          bool
	UID             string
	ResourceVersion uint64
	StrictOwners    bool
	Reply           *Reply
}

// PatchOption is an option of Patch: DryRun, IfUID, IfResourceVersion, StrictOwners or ReplyInto.
type PatchOption interface{ ApplyToPatch(o *PatchOptions) }

// RemoveFinalizerOptions are the options of RemoveFinalizer.
type RemoveFinalizerOptions struct {
	UID             string
	ResourceVersion uint64
	Note            string
	Reply           *Reply
}

// RemoveFinalizerOption is an option of RemoveFinalizer: IfUID,
// IfResourceVersion, Note or ReplyInto.
type RemoveFinalizerOption interface {
	ApplyToRemoveFinalizer(o *RemoveFinalizerOptions)
}

// ImportOptions are the options of ImportBatch.
type ImportOptions struct {
	DryRun       bool
	CloseSession bool
	Reply        *Reply
}

// RestoreOptions are the options of RestoreBatch.
type RestoreOptions struct {
	DryRun       bool
	CloseSession bool
	Note         string // kept in the log; at most 1,024 bytes
	Reply        *Reply
}

// RestoreOption is an option of RestoreBatch: DryRun, CloseSession, Note or ReplyInto.
type RestoreOption interface{ ApplyToRestore(o *RestoreOptions) }

// ImportOption is an option of ImportBatch: DryRun, CloseSession or ReplyInto.
type ImportOption interface{ ApplyToImport(o *ImportOptions) }

// DeleteOptions are the options of Delete, DeleteBatch, DeleteCollection and
// DeleteEverything.
type DeleteOptions struct {
	// Propagation is empty if the object's finalizers and its kind decide.
	Propagation     PropagationPolicy
	GracePeriod     *time.Duration
	UID             string
	ResourceVersion uint64
	DryRun          bool
	// Plan is not allowed in DeleteCollection and DeleteEverything.
	Plan  string
	Reply *Reply
}

// DeleteOption is an option of a deletion: a PropagationPolicy, GracePeriod,
// IfUID, IfResourceVersion, DryRun, ByPlan or ReplyInto.
type DeleteOption interface{ ApplyToDelete(o *DeleteOptions) }

// PlanOptions are the options of Plan: the deletion's, and the plan's own.
type PlanOptions struct {
	Propagation     PropagationPolicy
	GracePeriod     *time.Duration
	UID             string
	ResourceVersion uint64
	MinRevision     uint64
	// Unprotect plans the removal of the protection of the objects, not their deletion.
	Unprotect bool
	Reply     *Reply
}

// PlanOption is an option of Plan: a PropagationPolicy, GracePeriod, IfUID,
// IfResourceVersion, MinRevision, PlanUnprotect or ReplyInto.
type PlanOption interface{ ApplyToPlan(o *PlanOptions) }

// PlanDeletionsOptions are the options of PlanDeletions.
type PlanDeletionsOptions struct {
	MinRevision uint64
	Reply       *Reply
}

// PlanDeletionsOption is an option of PlanDeletions: MinRevision or ReplyInto.
type PlanDeletionsOption interface {
	ApplyToPlanDeletions(o *PlanDeletionsOptions)
}

// DeletePlannedOptions are the options of DeletePlanned.
type DeletePlannedOptions struct {
	DryRun bool
	Reply  *Reply
}

// DeletePlannedOption is an option of DeletePlanned: DryRun or ReplyInto.
type DeletePlannedOption interface {
	ApplyToDeletePlanned(o *DeletePlannedOptions)
}

// GetOptions are the options of Get.
type GetOptions struct {
	IncludeUninitialized bool
	IncludeApplied       bool
	Reply                *Reply
}

// GetOption is an option of Get: IncludeUninitialized, IncludeApplied or ReplyInto.
type GetOption interface{ ApplyToGet(o *GetOptions) }

// ListOptions are the options of List and ListPage.
type ListOptions struct {
	LabelSelector        string
	Limit                int
	Continue             string
	MinRevision          uint64
	IncludeUninitialized bool
	IncludeApplied       bool
	Reply                *Reply
}

// ListOption is an option of List and ListPage: LabelSelector, Limit, Continue,
// MinRevision, IncludeUninitialized, IncludeApplied or ReplyInto.
type ListOption interface{ ApplyToList(o *ListOptions) }

// WatchOptions are the options of Watch.
type WatchOptions struct {
	LabelSelector        string
	FromRevision         uint64
	IncludeUninitialized bool
	IdleTimeout          time.Duration
	OnError              func(error)
}

// WatchOption is an option of Watch: LabelSelector, FromRevision,
// IncludeUninitialized, IdleTimeout or OnError.
type WatchOption interface{ ApplyToWatch(o *WatchOptions) }

// GraphOptions are the options of Resolve and ResolveUIDs.
type GraphOptions struct {
	Owners      bool
	Dependents  bool
	Limit       int
	MinRevision uint64
	CountTotal  bool
	Reply       *Reply
}

// GraphOption is an option of Resolve and ResolveUIDs: FollowOwners,
// FollowDependents, CountTotal, Limit, MinRevision or ReplyInto.
type GraphOption interface{ ApplyToGraph(o *GraphOptions) }

// LogOptions are the options of LogClient.Read.
type LogOptions struct {
	FromSequence uint64
	FromRevision uint64
	ToSequence   uint64
	Follow       bool
	Limit        int
	UIDs         []string
	Name         string
	Namespace    string
	Skipped      bool
	Undecoded    bool
	Complete     bool
	OnError      func(error)
}

// LogOption is an option of LogClient.Read: FromSequence, FromRevision, ToSequence,
// Follow, Limit, ForUIDs, ForName, ForNamespace, IncludeSkipped, Undecoded, Complete or OnError.
type LogOption interface{ ApplyToLog(o *LogOptions) }

// FollowWarningsOptions are the options of FollowWarnings.
type FollowWarningsOptions struct {
	OnError func(error)
}

// FollowWarningsOption is an option of FollowWarnings: OnError.
type FollowWarningsOption interface {
	ApplyToFollowWarnings(o *FollowWarningsOptions)
}

// WatchGraphOptions are the options of WatchGraph.
type WatchGraphOptions struct {
	IdleTimeout time.Duration
	OnError     func(error)
}

// WatchGraphOption is an option of WatchGraph: IdleTimeout or OnError.
type WatchGraphOption interface {
	ApplyToWatchGraph(o *WatchGraphOptions)
}

// WorkerOptions are the options of RunFinalizer, RunAgent, RunExpiry and RunInUseFinalizer.
type WorkerOptions struct {
	// Concurrency is the number of objects that are handled at the same time; 8 by default.
	Concurrency int
	// ParkAfter is the number of attempts after which a call that fails with a
	// Permanent error is parked; 5 by default.
	ParkAfter int
	// Backoff is the pause between attempts; 200 ms to 1 minute by default.
	Backoff Backoff
	OnError func(error)
	Logger  *slog.Logger
}

// WorkerOption is an option of RunFinalizer, RunAgent, RunExpiry and RunInUseFinalizer:
// Concurrency, ParkAfter, Backoff, OnError or WithLogger.
type WorkerOption interface{ ApplyToWorker(o *WorkerOptions) }

// CallOptions are the options of calls that have no others.
type CallOptions struct {
	// Reply gets the revision of the state that the reply describes.
	Reply *Reply
}

// replied stores the revision of a reply in o.Reply.
func (o CallOptions) replied(reply interface{ GetRevision() uint64 }) {
	if o.Reply != nil {
		*o.Reply = Reply{Revision: reply.GetRevision()}
	}
}

// CallOption is an option of calls that have no others: ReplyInto.
type CallOption interface{ ApplyToCall(o *CallOptions) }

// The following calls have no option yet. They do not take ReplyInto, because their replies name
// no revision.
type (
	// WarningsOptions are the options of Warnings.
	WarningsOptions struct{}
	// WarningsOption is an option of Warnings. There is none yet.
	WarningsOption interface{ ApplyToWarnings(o *WarningsOptions) }

	// CommitOptions are the options of LogClient.Commit and LogClient.Last.
	CommitOptions struct{}
	// CommitOption is an option of LogClient.Commit and LogClient.Last. There is none yet.
	CommitOption interface{ ApplyToCommit(o *CommitOptions) }

	// ChangeParkedOptions are the options of RetryParked and DropParked.
	ChangeParkedOptions struct{}
	// ChangeParkedOption is an option of RetryParked and DropParked. There is none yet.
	ChangeParkedOption interface {
		ApplyToChangeParked(o *ChangeParkedOptions)
	}

	// CreateRealmOptions are the options of CreateRealm.
	CreateRealmOptions struct{}
	// CreateRealmOption is an option of CreateRealm. There is none yet.
	CreateRealmOption interface {
		ApplyToCreateRealm(o *CreateRealmOptions)
	}
)

// ApplyToWrite replaces all options by o.
func (o WriteOptions) ApplyToWrite(to *WriteOptions) { *to = o }

// ApplyToPatch replaces all options by o.
func (o PatchOptions) ApplyToPatch(to *PatchOptions) { *to = o }

// ApplyToRemoveFinalizer replaces all options by o.
func (o RemoveFinalizerOptions) ApplyToRemoveFinalizer(to *RemoveFinalizerOptions) { *to = o }

// ApplyToImport replaces all options by o.
func (o ImportOptions) ApplyToImport(to *ImportOptions) { *to = o }

// ApplyToRestore replaces all options by o.
func (o RestoreOptions) ApplyToRestore(to *RestoreOptions) { *to = o }

// ApplyToDelete replaces all options by o.
func (o DeleteOptions) ApplyToDelete(to *DeleteOptions) { *to = o }

// ApplyToPlan replaces all options by o.
func (o PlanOptions) ApplyToPlan(to *PlanOptions) { *to = o }

// ApplyToPlanDeletions replaces all options by o.
func (o PlanDeletionsOptions) ApplyToPlanDeletions(to *PlanDeletionsOptions) { *to = o }

// ApplyToDeletePlanned replaces all options by o.
func (o DeletePlannedOptions) ApplyToDeletePlanned(to *DeletePlannedOptions) { *to = o }

// ApplyToGet replaces all options by o.
func (o GetOptions) ApplyToGet(to *GetOptions) { *to = o }

// ApplyToList replaces all options by o.
func (o ListOptions) ApplyToList(to *ListOptions) { *to = o }

// ApplyToWatch replaces all options by o.
func (o WatchOptions) ApplyToWatch(to *WatchOptions) { *to = o }

// ApplyToWatchGraph replaces all options by o.
func (o WatchGraphOptions) ApplyToWatchGraph(to *WatchGraphOptions) { *to = o }

// ApplyToGraph replaces all options by o.
func (o GraphOptions) ApplyToGraph(to *GraphOptions) { *to = o }

// ApplyToLog replaces all options by o.
func (o LogOptions) ApplyToLog(to *LogOptions) { *to = o }

// ApplyToFollowWarnings replaces all options by o.
func (o FollowWarningsOptions) ApplyToFollowWarnings(to *FollowWarningsOptions) { *to = o }

// ApplyToCall replaces all options by o.
func (o CallOptions) ApplyToCall(to *CallOptions) { *to = o }

// ApplyToWorker replaces all options by o.
func (o WorkerOptions) ApplyToWorker(to *WorkerOptions) { *to = o }

// ApplyToPlan replaces the options of the planned deletion by o. DryRun and Plan have no effect.
func (o DeleteOptions) ApplyToPlan(to *PlanOptions) {
	to.Propagation, to.GracePeriod, to.UID, to.ResourceVersion, to.Reply = o.Propagation, o.GracePeriod, o.UID, o.ResourceVersion, o.Reply
}

// collect returns the options that a call was given. It skips nil, and does not allocate for
// no options.
func collect[S any, O any](opts []O, apply func(O, *S)) (s S) {
	if len(opts) == 0 {
		return s
	}
	all := new(S)
	for _, o := range opts {
		if any(o) != nil {
			apply(o, all)
		}
	}
	return *all
}
