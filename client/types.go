package client

import (
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
	// Plan is what a deletion would do.
	Plan = coppicev1.PlanReply
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
	// VerifyResult is the result of a verification.
	VerifyResult = coppicev1.VerifyReply
)

// The types of package api.
type (
	// Error reports that a request was refused. It matches its Reason with errors.Is.
	Error = api.Error
	// Reason is the reason of an Error, and a target for errors.Is.
	Reason = api.Reason
	// Cause is one field that is wrong, in Error.Causes.
	Cause = api.Cause
	// Kind is a registered kind: the spec of an object of kind Kind.
	Kind = api.Kind
	// KindVersion is one version of a kind.
	KindVersion = api.KindVersion
	// GracefulDeletion declares that an agent ends what objects of a kind stand for.
	GracefulDeletion = api.GracefulDeletion
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
	// Object is the object after the request, nil if Err is not. In a batch of several
	// objects it has only what identifies the object and the state of its deletion.
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

// DeleteResult is the result of the deletion of one object.
type DeleteResult struct {
	// State is Removed or Pending, and empty if Err is not nil.
	State DeleteState
	// Object is the object as it is, or as it was before it was removed.
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
	// Continue gets the next page, with the option Continue; empty on the last page.
	Continue string
}
