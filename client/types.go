package client

import (
	"time"

	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The messages of package coppicev1 that methods take and return.
type (
	// Object is an object with metadata, spec and status.
	Object = coppicev1.Object
	// ObjectMeta is the metadata of an object.
	ObjectMeta = coppicev1.ObjectMeta
	// OwnerReference is a reference from a dependent to its owner.
	OwnerReference = coppicev1.OwnerReference
	// Use is a use of one object by another.
	Use = coppicev1.Use
	// Plan is what a deletion would do.
	Plan = coppicev1.PlanReply
	// Protection says who protects an object from deletion, and why.
	Protection = coppicev1.Protection
	// Restored is an object that RestoreBatch creates again, or gives references back to.
	Restored = coppicev1.RestoredObject
	// Graph is a set of objects with the classes of their owners.
	Graph = coppicev1.ResolveObjectsReply
	// Status is the pending work of a realm.
	Status = coppicev1.StatusReply
	// Commit is one commit of the event log.
	Commit = coppicev1.Commit
	// Consumers are the consumers of finalizers, agents and services.
	Consumers = coppicev1.ListConsumersReply
	// ConsumerState is the state of one consumer.
	ConsumerState = coppicev1.ConsumerState
	// ParkedPage is a page of parked work.
	ParkedPage = coppicev1.ListParkedReply
	// Realm is a realm in the list of realms.
	Realm = coppicev1.Realm
	// CallOf names the call of a finalizer or an agent for one object.
	CallOf = coppicev1.CallOf
	// CallStatus is the state of a call.
	CallStatus = coppicev1.CallStatus
	// FinalizerInUse counts the objects that have an external finalizer.
	FinalizerInUse = coppicev1.FinalizerInUse
	// ControllerLease is a lease by which the processes of a controller elect a leader.
	ControllerLease = coppicev1.ControllerLease
	// Storage is what a realm takes on disks.
	Storage = coppicev1.Storage
	// ExpiryStatus says what the last evaluation of an expiry policy has found.
	ExpiryStatus = coppicev1.ExpiryStatus
	// BrakeStatus is the brake of a kind.
	BrakeStatus = coppicev1.BrakeStatus
	// BrakeRelease is the result of the release of a brake.
	BrakeRelease = coppicev1.ReleaseBrakeReply
	// Archived is what OperationsClient.Archive has put into the archive.
	Archived = coppicev1.ArchiveReply
	// VerifyResult is the result of a verification.
	VerifyResult = coppicev1.VerifyReply
)

// The types of package api.
type (
	// Error reports that a request was refused. It matches its Reason with errors.Is.
	Error = api.Error
	// Reason is the reason of an Error, and a target for errors.Is.
	Reason = api.Reason
	// Cause is one thing that is wrong, in Error.Causes: a field, an object, or a state. See HasCause.
	Cause = api.Cause
	// Kind is a registered kind: the spec of an object of kind Kind.
	Kind = api.Kind
	// KindVersion is one version of a kind.
	KindVersion = api.KindVersion
	// GracefulDeletion declares that an agent ends what objects of a kind stand for.
	GracefulDeletion = api.GracefulDeletion
	// Brake is the brake of a kind.
	Brake = api.Brake
	// DefaultDeletion is what a DELETE without a propagation policy does to dependents. Package
	// api has its values.
	DefaultDeletion = api.DefaultDeletion
	// FieldCondition excepts objects from the graceful deletion of their kind.
	FieldCondition = api.FieldCondition
)

// The values of Kind.Scope.
const (
	ScopeNamespaced = api.ScopeNamespaced
	ScopeCluster    = api.ScopeCluster
)

// The reasons of errors. errors.Is(err, ErrNotFound) reports whether err is an
// Error with the reason NotFound. docs/errors.md explains each reason.
const (
	ErrBadRequest            = api.ErrBadRequest
	ErrForbidden             = api.ErrForbidden
	ErrNotFound              = api.ErrNotFound
	ErrUnknownKind           = api.ErrUnknownKind
	ErrMethodNotAllowed      = api.ErrMethodNotAllowed
	ErrAlreadyExists         = api.ErrAlreadyExists
	ErrConflict              = api.ErrConflict
	ErrExpired               = api.ErrExpired
	ErrOutcomeUnknown        = api.ErrOutcomeUnknown
	ErrRequestEntityTooLarge = api.ErrRequestEntityTooLarge
	ErrInvalid               = api.ErrInvalid
	ErrTooManyRequests       = api.ErrTooManyRequests
	ErrInternalError         = api.ErrInternalError
	ErrServiceUnavailable    = api.ErrServiceUnavailable
	ErrTimeout               = api.ErrTimeout
)

// Resource names a resource, such as {"apps", "deployments"}.
type Resource struct {
	Group  string // empty for the core group
	Plural string
}

// String returns the resource as "pods" or "replicasets.apps".
func (r Resource) String() string {
	return api.Kind{Group: r.Group, Plural: r.Plural}.Resource()
}

// ParseResource parses a resource as String formats it.
func ParseResource(s string) Resource {
	for i := range len(s) {
		if s[i] == '.' {
			return Resource{Plural: s[:i], Group: s[i+1:]}
		}
	}
	return Resource{Plural: s}
}

// ResourceOf returns the resource of a kind.
func ResourceOf(k Kind) Resource { return Resource{Group: k.Group, Plural: k.Plural} }

// Result is the result of one object of a batch.
type Result struct {
	// Object is the object after the request; it is nil if Err is not nil. In a batch of
	// several objects it has only the identity of the object and the state of its deletion.
	Object *Object
	// Created reports whether the object was created, by CreateBatch, ApplyBatch or ImportBatch.
	Created bool
	// Err says why the object was refused; nil if it was not.
	Err error
	// Warnings are about the object, such as an owner reference that has no effect.
	Warnings []string
	// Revision is the realm's revision after the request.
	Revision uint64
}

// Deletion is a deletion of objects of one resource in one namespace, by name: a part of what
// PlanDeletions plans and DeletePlanned carries out.
type Deletion struct {
	Resource  Resource
	Namespace string // empty for cluster-scoped resources
	Names     []string
	// Propagation is empty if the objects' finalizers and their kind decide.
	Propagation PropagationPolicy
	// GracePeriod is nil if the objects and their kind decide.
	GracePeriod *time.Duration
}

// DeleteResult is the result of the deletion of one object.
type DeleteResult struct {
	// State is Removed or Pending, and empty if Err is not nil.
	State DeleteState
	// Object is the object after the request or, if it was removed, its last state.
	Object *Object
	// Err says why the object of a batch was not deleted; nil if it was.
	Err error
	// Warnings are about the object.
	Warnings []string
	// Revision is the realm's revision after the request.
	Revision uint64
}

// DeleteState says what a deletion achieved.
type DeleteState string

// The states of a deletion.
const (
	// Removed: the object no longer exists. With DryRun: it would not.
	Removed DeleteState = "Removed"
	// Pending: the object has a deletionTimestamp, and exists until its finalizers,
	// its dependents and its agent have done their part.
	Pending DeleteState = "Pending"
)

// Page is one page of a list.
type Page struct {
	Objects []*Object
	// Revision is that of the state from which the page was read.
	Revision uint64
	// Continue is the value of the option Continue for the next page; empty on the last page.
	// A page that is not the last one may have no objects.
	Continue string
}

// The causes of errors that package api documents.
const (
	CauseGrantInvalid         = api.CauseGrantInvalid
	CauseNamespaceTerminating = api.CauseNamespaceTerminating
	CauseObjectProtected      = api.CauseObjectProtected
	CauseObjectUnreadable     = api.CauseObjectUnreadable
	CausePlanChanged          = api.CausePlanChanged
	CauseStateBeingBuilt      = api.CauseStateBeingBuilt
	CauseLogContinues         = api.CauseLogContinues
)

// HasCause reports whether an error has a Cause of a reason, such as CauseObjectProtected.
func HasCause(err error, reason string) bool { return api.HasCause(err, reason) }
