package bus

// The verbs of the object API, tokens of its subjects.
const (
	VerbCreate           = "create"
	VerbGet              = "get"
	VerbList             = "list"
	VerbWatch            = "watch"
	VerbUpdate           = "update"
	VerbUpdateStatus     = "updatestatus"
	VerbPatch            = "patch"
	VerbApply            = "apply"
	VerbApplyAcross      = "applyacross" // apply, also with uses of objects in other namespaces
	VerbImport           = "import"
	VerbRestore          = "restore" // creates objects again that were deleted
	VerbDelete           = "delete"
	VerbDeleteCollection = "deletecollection"
	VerbRemoveFinalizer  = "removefinalizer" // removes a finalizer: updates, patches and applies keep external ones
	VerbResolve          = "resolve"
	VerbPlan             = "plan"
	VerbStatus           = "status"
	VerbForceFinalizer   = "forcefinalizer" // removes an external finalizer in place of its controller
	VerbProtect          = "protect"
	VerbUnprotect        = "unprotect"
	VerbDeleteUnreadable = "deleteunreadable" // removes an object whose body cannot be decoded
	VerbVeto             = "veto"             // answers the notices of expiry policies

	VerbConsumeFinalizer = "consumefinalizer" // creates the consumer of an external finalizer, which its subject ends with
	VerbConsumeAgent     = "consumeagent"     // creates the consumer of a kind's agent; its subject names the kind
	VerbConsumeExpiry    = "consumeexpiry"    // creates the consumer of a program that answers notices, which its subject ends with
	VerbReadLog          = "readlog"
	VerbReadPast         = "readpast" // get, list, resolve and plan at an earlier revision
	VerbReadWarnings     = "readwarnings"
	VerbListConsumers    = "listconsumers"
	VerbListFinalizers   = "listfinalizers"
	VerbWatchGraph       = "watchgraph" // the objects of all kinds, without their contents
	VerbListParked       = "listparked"
	VerbRetryParked      = "retryparked"
	VerbDropParked       = "dropparked"
	VerbVerify           = "verify"
	VerbArchive          = "archive" // puts the log into the archive now
	VerbResume           = "resume"  // ends the pause of a restored realm
	VerbBrakes           = "brakes"
	VerbReleaseBrake     = "releasebrake" // its subject names the kind
	VerbLease            = "lease"        // acquires, renews and releases leases of the actor

	// The subjects of createrealm and deleterealm name the realm, so that permissions can
	// restrict them; that of listrealms names SystemRealm.
	VerbCreateRealm = "createrealm"
	VerbDeleteRealm = "deleterealm"
	VerbListRealms  = "listrealms"
)

// Verbs of commands that a graph service itself appends to the log; no client can request them.
const (
	VerbGenesis    = "genesis"     // the first commit of a new realm
	VerbOrigin     = "origin"      // the first commit of a realm that continues another log
	VerbEpoch      = "epoch"       // the first commit of another writer
	VerbAcceptLoss = "accept-loss" // records that an operator has accepted the loss of commits; it has no events
)

// Verbs returns all verbs of the object API.
func Verbs() []string {
	return []string{
		VerbCreate, VerbGet, VerbList, VerbWatch, VerbUpdate, VerbUpdateStatus, VerbPatch, VerbApply, VerbApplyAcross,
		VerbImport, VerbDelete, VerbDeleteCollection, VerbRemoveFinalizer, VerbResolve, VerbPlan,
		VerbStatus, VerbForceFinalizer, VerbProtect, VerbUnprotect, VerbVeto, VerbRestore, VerbDeleteUnreadable,
		VerbConsumeFinalizer, VerbConsumeAgent, VerbConsumeExpiry, VerbReadLog, VerbReadPast, VerbReadWarnings, VerbListConsumers, VerbListFinalizers, VerbWatchGraph,
		VerbListParked, VerbRetryParked, VerbDropParked, VerbVerify, VerbArchive, VerbResume, VerbBrakes, VerbReleaseBrake, VerbLease,
		VerbCreateRealm, VerbDeleteRealm, VerbListRealms,
	}
}

// PastVerbs returns the verbs that read the past: the log, and states before the present. They
// show objects that were deleted, secrets among them. Together they are one permission: a role
// has all of them or none.
func PastVerbs() []string { return []string{VerbReadLog, VerbReadPast} }

// IsStream reports whether the reply to a verb is a stream of messages, at
// least one every 30 s, which an empty message without headers ends. Across
// accounts the export of such a verb has the response type stream.
func IsStream(verb string) bool {
	switch verb {
	case VerbWatch, VerbWatchGraph, VerbReadLog, VerbReadWarnings, VerbVerify:
		return true
	}
	return false
}

// NamesFinalizer reports whether the subject of a verb ends with the name of a
// finalizer, or of a program that answers notices, which has the same form.
func NamesFinalizer(verb string) bool {
	return verb == VerbRemoveFinalizer || verb == VerbConsumeFinalizer || verb == VerbForceFinalizer || verb == VerbConsumeExpiry
}

// NamesType reports whether the subject of each request with a verb names the type of objects. That of readpast
// names one if the request reads objects.
func NamesType(verb string) bool {
	switch verb {
	case VerbCreate, VerbGet, VerbList, VerbWatch, VerbUpdate, VerbUpdateStatus, VerbPatch, VerbApply, VerbApplyAcross,
		VerbImport, VerbRestore, VerbDelete, VerbDeleteCollection, VerbRemoveFinalizer, VerbForceFinalizer, VerbResolve, VerbPlan,
		VerbProtect, VerbUnprotect, VerbVeto, VerbDeleteUnreadable, VerbConsumeAgent, VerbReleaseBrake:
		return true
	}
	return false
}

// The operations on internal.>, with the services that request them.
const (
	OpResolve   = "resolve"   // processors
	OpPropose   = "propose"   // processors
	OpOrphan    = "orphan"    // finalizers
	OpFinish    = "finish"    // finalizers
	OpDrain     = "drain"     // finalizers
	OpWalk      = "walk"      // the scanner
	OpRepublish = "republish" // the scanner
	OpCycles    = "cycles"    // the scanner
	OpDue       = "due"       // the scanner
	OpExpire    = "expire"    // the scanner
	OpExamine   = "examine"   // the scanner

	OpRealms = "realms" // processors, finalizers, the scanner: the list of realms, in SystemRealm
)

// The queues on work.>.
const (
	QueueDirty  = "dirty"  // coppice.v1.DirtyChunk, to processors
	QueueOrphan = "orphan" // coppice.v1.OrphanChunk, to finalizers
	QueueFinish = "finish" // coppice.v1.FinishChunk, to finalizers
	QueueDrain  = "drain"  // coppice.v1.DrainChunk, to finalizers
)

// Headers of requests and replies.
const (
	// HeaderCommand identifies a command of an actor, a UUIDv7: a repeated command
	// gets its first outcome.
	HeaderCommand = "Coppice-Command"
	// HeaderTimeout is for how long the client waits for the reply to this attempt of a
	// request, in milliseconds. A command that the writer has not decided until then is dropped.
	HeaderTimeout = "Coppice-Timeout"
	// HeaderRequest names the verb, or the internal operation, of a request. Without it a
	// message is not a request. Replies do not have it, so a reply that is sent to the
	// subject of a request has no effect.
	HeaderRequest = "Coppice-Request"
	// HeaderAsk, with any value, marks a request that asks only whether it is allowed. Its body is not read. The reply has the header, too.
	HeaderAsk = "Coppice-Ask"
	// HeaderTime is the server's time in Unix milliseconds, in an error about the time in a
	// command's id.
	HeaderTime = "Coppice-Time"
	// HeaderContentType says how the body is encoded; protobuf without it.
	HeaderContentType = "Content-Type"
	// HeaderReason is the machine-readable reason of an error; its code and
	// its message are in the micro service headers.
	HeaderReason = "Coppice-Reason"
	// HeaderRetryAfter is the time after which to repeat the request, in milliseconds.
	HeaderRetryAfter = "Coppice-Retry-After"

	// HeaderError is the error with which the handling of a call failed, in its negative
	// acknowledgement, and in reports about later attempts.
	HeaderError = "Coppice-Error"
	// HeaderSince is since when a program works on a call, in Unix milliseconds, in its reports.
	HeaderSince = "Coppice-Since"
	// HeaderReturned marks a negative acknowledgement with which a program that stops hands a call back: the
	// attempt has not failed. It has any value.
	HeaderReturned = "Coppice-Returned"

	ContentJSON     = "application/json"
	ContentProtobuf = "application/protobuf"
)

// MaxObjects is the maximum number of objects of a request, and TooManyObjects the refusal of more.
const (
	MaxObjects     = 10000
	TooManyObjects = "a request has at most 10,000 objects: name or select fewer at once"
)

// MaxPlanned is the maximum number of objects of a plan that can be carried out: the writer computes the plan again in the
// commit that deletes. Larger plans can only be read.
const MaxPlanned = 20000

// MaxDeleteParts is the maximum number of parts of a deletion in addition to the objects that its
// subject names. Each needs a request for its grant.
const MaxDeleteParts = 100

// Protocol is the version of the request format: what every request has in its
// field of that name.
const Protocol = 1
