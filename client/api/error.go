package api

import (
	"errors"
	"fmt"
	"slices"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Reason is the machine-readable reason of an Error. Reasons have the names that
// Kubernetes gives them, if it has the same reason. docs/errors.md explains each.
//
// A Reason is an error, so that it can be the target of errors.Is:
//
//	if errors.Is(err, client.ErrNotFound) {
type Reason string

// The reasons. The text after Err is the reason on the wire and in docs/errors.md.
const (
	// ErrBadRequest (400): the request is malformed, or contradicts its subject.
	ErrBadRequest Reason = "BadRequest"
	// ErrForbidden (403): the actor may not make the request, or the namespace of a
	// new object is being deleted.
	ErrForbidden Reason = "Forbidden"
	// ErrNotFound (404): there is no such object.
	ErrNotFound Reason = "NotFound"
	// ErrUnknownKind (404): no kind with this resource is registered in the realm.
	ErrUnknownKind Reason = "UnknownKind"
	// ErrMethodNotAllowed (405): the kind of a new object is being deleted.
	ErrMethodNotAllowed Reason = "MethodNotAllowed"
	// ErrAlreadyExists (409): another object has the name.
	ErrAlreadyExists Reason = "AlreadyExists"
	// ErrConflict (409): a precondition failed, such as a uid, a resourceVersion or a plan.
	ErrConflict Reason = "Conflict"
	// ErrExpired (410): the revision or the sequence is no longer available.
	ErrExpired Reason = "Expired"
	// ErrOutcomeUnknown (410): an earlier attempt of the command may have succeeded,
	// and its result is no longer kept.
	ErrOutcomeUnknown Reason = "OutcomeUnknown"
	// ErrRequestEntityTooLarge (413): an object, a batch or a reply is too large.
	ErrRequestEntityTooLarge Reason = "RequestEntityTooLarge"
	// ErrInvalid (422): a field has a value that is not allowed. Error.Causes names each.
	ErrInvalid Reason = "Invalid"
	// ErrTooManyRequests (429): the realm is overloaded. The request can be retried.
	ErrTooManyRequests Reason = "TooManyRequests"
	// ErrInternalError (500): a defect of Coppice, or a disk that cannot be read.
	ErrInternalError Reason = "InternalError"
	// ErrServiceUnavailable (503): no service answers for the realm. The request can be retried.
	ErrServiceUnavailable Reason = "ServiceUnavailable"
	// ErrTimeout (504): no reply arrived in time. The request may have been carried out.
	ErrTimeout Reason = "Timeout"
)

var codes = map[Reason]uint32{
	ErrBadRequest:            400,
	ErrForbidden:             403,
	ErrNotFound:              404,
	ErrUnknownKind:           404,
	ErrMethodNotAllowed:      405,
	ErrAlreadyExists:         409,
	ErrConflict:              409,
	ErrExpired:               410,
	ErrOutcomeUnknown:        410,
	ErrRequestEntityTooLarge: 413,
	ErrInvalid:               422,
	ErrTooManyRequests:       429,
	ErrInternalError:         500,
	ErrServiceUnavailable:    503,
	ErrTimeout:               504,
}

// Code returns the HTTP status code of the reason, zero for an unknown reason.
func (r Reason) Code() uint32 { return codes[r] }

// Error returns the reason's name.
func (r Reason) Error() string { return string(r) }

// Error reports that a request, or one object of it, was refused. After ErrTimeout,
// ErrOutcomeUnknown, ErrServiceUnavailable or ErrTooManyRequests an earlier attempt of a write
// may have been carried out. After every other reason nothing has changed.
//
// errors.Is matches an Error with its Reason. If a call ended because the context expired, its
// error also matches context.DeadlineExceeded.
type Error struct {
	Reason Reason
	// Message says what failed, on which object, the rule, and what to do.
	Message string

	// Resource, Namespace, Name and UID identify the object, if they are
	// known. Resource is as "pods" or "replicasets.apps".
	Resource  string
	Namespace string
	Name      string
	UID       string

	// Causes lists the fields that are wrong.
	Causes []Cause

	// RetryAfter is the time after which the same request may succeed; zero if
	// waiting does not help.
	RetryAfter time.Duration

	// Index is the position of the refused object in a batch, from zero.
	Index int

	// ServerTime is set if a command id was refused because of the time in it:
	// the server's time. It is not part of the Status.
	ServerTime time.Time
}

// Cause is one thing that is wrong with an object.
type Cause struct {
	// Reason is as in Kubernetes: FieldValueRequired, FieldValueInvalid, and so on.
	Reason string
	// Field is the path of the field, as metadata.ownerReferences[0].uid.
	Field   string
	Message string
}

// HasCause reports whether an error is an *Error, or wraps one, with a Cause of a reason, such as
// CauseObjectProtected.
func HasCause(err error, reason string) bool {
	var e *Error
	return errors.As(err, &e) && slices.ContainsFunc(e.Causes, func(c Cause) bool { return c.Reason == reason })
}

// CauseNamespaceTerminating is the Reason of the Cause of an ErrForbidden for a new object in a namespace
// that is being deleted.
const CauseNamespaceTerminating = "NamespaceTerminating"

// CausePlanChanged is the Reason of the Causes of an ErrConflict for a deletion by a plan that is out of
// date. Each names an object that has changed since, at most ten.
const CausePlanChanged = "PlanChanged"

// CauseObjectProtected is the Reason of the Cause of an ErrForbidden for the deletion of an object that
// is protected.
const CauseObjectProtected = "ObjectProtected"

// CauseObjectUnreadable is the Reason of the Cause of an ErrInternalError for a request that needs the
// body of an object whose body cannot be decoded.
const CauseObjectUnreadable = "ObjectUnreadable"

// CauseStateBeingBuilt is the Reason of the Cause of an ErrServiceUnavailable for a state of the past that
// is still being built.
const CauseStateBeingBuilt = "StateBeingBuilt"

// CauseLogContinues is the Reason of the Cause of an ErrExpired for a read of the log from a position on: commits are
// missing there, and what follows them begins at the position that is the message of the Cause.
const CauseLogContinues = "LogContinues"

// CauseGrantInvalid is the Reason of the Cause of an ErrForbidden for a deletion of objects of
// several resources or namespaces with a grant that is missing, has ended or is for something else.
const CauseGrantInvalid = "GrantInvalid"

// String returns the field and the message.
func (c Cause) String() string { return c.Field + ": " + c.Message }

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is reports whether target is the reason of e.
func (e *Error) Is(target error) bool {
	r, ok := target.(Reason)
	return ok && r == e.Reason
}

// Status returns e as it is sent to clients.
func (e *Error) Status() *coppicev1.Status {
	s := &coppicev1.Status{
		Code:    e.Reason.Code(),
		Reason:  string(e.Reason),
		Message: e.Message,
		Details: &coppicev1.StatusDetails{
			Resource:               e.Resource,
			Namespace:              e.Namespace,
			Name:                   e.Name,
			Uid:                    e.UID,
			RetryAfterMilliseconds: uint32(e.RetryAfter.Milliseconds()),
			Index:                  uint32(e.Index),
		},
	}
	for _, c := range e.Causes {
		s.Details.Causes = append(s.Details.Causes, &coppicev1.StatusCause{
			Reason: c.Reason, Field: c.Field, Message: c.Message,
		})
	}
	return s
}

// ErrorOf returns the Error that a Status describes.
func ErrorOf(s *coppicev1.Status) *Error {
	d := s.GetDetails()
	e := &Error{
		Reason:     Reason(s.GetReason()),
		Message:    s.GetMessage(),
		Resource:   d.GetResource(),
		Namespace:  d.GetNamespace(),
		Name:       d.GetName(),
		UID:        d.GetUid(),
		RetryAfter: time.Duration(d.GetRetryAfterMilliseconds()) * time.Millisecond,
		Index:      int(d.GetIndex()),
	}
	for _, c := range d.GetCauses() {
		e.Causes = append(e.Causes, Cause{Reason: c.GetReason(), Field: c.GetField(), Message: c.GetMessage()})
	}
	return e
}

// UnknownKind returns the error of a request for a resource of which no kind is
// registered in the realm.
func UnknownKind(resource string) *Error {
	return &Error{
		Reason:   ErrUnknownKind,
		Resource: resource,
		Message: fmt.Sprintf("no kind with the resource %q is registered in this realm; "+
			"register it by creating an object of kind Kind (apiVersion %s) named %q: see docs/kinds.md", resource, APIVersion, resource),
	}
}
