package lifecycle

import (
	"fmt"
	"strings"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Reason is the machine-readable reason of an Error. The names are those of
// Kubernetes where it has one; docs/errors.md explains each.
type Reason string

// The reasons, and the codes that go with them.
const (
	ReasonBadRequest       Reason = "BadRequest"
	ReasonForbidden        Reason = "Forbidden"
	ReasonNotFound         Reason = "NotFound"
	ReasonAlreadyExists    Reason = "AlreadyExists"
	ReasonConflict         Reason = "Conflict"
	ReasonExpired          Reason = "Expired"
	ReasonTooLarge         Reason = "RequestEntityTooLarge"
	ReasonInvalid          Reason = "Invalid"
	ReasonUnknownKind      Reason = "UnknownKind"
	ReasonOverloaded       Reason = "TooManyRequests"
	ReasonInternal         Reason = "InternalError"
	ReasonNotReady         Reason = "ServiceUnavailable"
	ReasonTimeout          Reason = "Timeout"
	ReasonMethodNotAllowed Reason = "MethodNotAllowed"
	ReasonOutcomeUnknown   Reason = "OutcomeUnknown"
)

var codes = map[Reason]uint32{
	ReasonBadRequest:       400,
	ReasonForbidden:        403,
	ReasonNotFound:         404,
	ReasonUnknownKind:      404,
	ReasonMethodNotAllowed: 405,
	ReasonAlreadyExists:    409,
	ReasonConflict:         409,
	ReasonExpired:          410,
	ReasonOutcomeUnknown:   410,
	ReasonTooLarge:         413,
	ReasonInvalid:          422,
	ReasonOverloaded:       429,
	ReasonInternal:         500,
	ReasonNotReady:         503,
	ReasonTimeout:          504,
}

// Code is the numeric code of the reason, as of HTTP.
func (r Reason) Code() uint32 { return codes[r] }

// Error is a refusal. It names the object, the rule and what to do; the
// request has changed nothing.
//
// Errors match a Reason with errors.Is: errors.Is(err, lifecycle.ReasonNotFound).
type Error struct {
	Reason  Reason
	Message string

	// The object. Fields are empty if they are not known.
	Resource  string // "pods", "replicasets.apps"
	Namespace string
	Name      string
	UID       string

	// Causes has what is wrong field by field.
	Causes []Cause

	// RetryAfter is when the same request may succeed; zero: not by waiting.
	RetryAfter time.Duration

	// Index is which object of a batch was refused, counted from zero.
	Index int

	// Now is the server's time, of a refusal on account of the time in a command's
	// id; otherwise zero. It is not in the Status.
	Now Time
}

// Cause is one thing that is wrong with an object.
type Cause struct {
	Reason  string // FieldValueRequired, FieldValueInvalid, ... as in Kubernetes
	Field   string // metadata.ownerReferences[0].uid
	Message string
}

func (c Cause) String() string { return c.Field + ": " + c.Message }

func (e *Error) Error() string { return e.Message }

// Error makes a Reason a target for errors.Is.
func (r Reason) Error() string { return string(r) }

// Is reports whether target is e's reason.
func (e *Error) Is(target error) bool {
	r, ok := target.(Reason)
	return ok && r == e.Reason
}

// Status is e as clients get it.
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

// ErrorOf is the Error that Status told.
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

// Key names an object to a reader and to a command: resource, namespace, name.
type Key struct {
	Kind      *Kind
	Namespace string
	Name      string
}

// String is the key as kubectl spells it, with the namespace where there is one.
func (k Key) String() string {
	s := fmt.Sprintf("%s %q", k.Kind.Resource(), k.Name)
	if k.Namespace != "" {
		s += fmt.Sprintf(" in namespace %q", k.Namespace)
	}
	return s
}

func (k Key) err(reason Reason, format string, args ...any) *Error {
	return &Error{
		Reason:    reason,
		Message:   fmt.Sprintf(format, args...),
		Resource:  k.Kind.Resource(),
		Namespace: k.Namespace,
		Name:      k.Name,
	}
}

func errNotFound(k Key) *Error {
	return k.err(ReasonNotFound, "%s not found", k)
}

func errConflict(k Key, format string, args ...any) *Error {
	return k.err(ReasonConflict, "operation cannot be fulfilled on %s: %s", k, fmt.Sprintf(format, args...))
}

// invalid returns nil if nothing is wrong.
func invalid(k Key, causes []Cause) *Error {
	if len(causes) == 0 {
		return nil
	}
	said := make([]string, len(causes))
	for i, c := range causes {
		said[i] = c.String()
	}
	list := said[0]
	if len(said) > 1 {
		list = "[" + strings.Join(said, ", ") + "]"
	}
	e := k.err(ReasonInvalid, "%s is invalid: %s", k, list)
	e.Causes = causes
	return e
}

func required(field, why string) Cause {
	m := "Required value"
	if why != "" {
		m += ": " + why
	}
	return Cause{Reason: "FieldValueRequired", Field: field, Message: m}
}

func invalidValue(field string, value any, why string) Cause {
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%q", s)
	}
	return Cause{Reason: "FieldValueInvalid", Field: field, Message: fmt.Sprintf("Invalid value: %v: %s", value, why)}
}

func forbidden(field, why string) Cause {
	return Cause{Reason: "FieldValueForbidden", Field: field, Message: "Forbidden: " + why}
}

func notSupported(field, value string, supported ...string) Cause {
	quoted := make([]string, len(supported))
	for i, s := range supported {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return Cause{
		Reason:  "FieldValueNotSupported",
		Field:   field,
		Message: fmt.Sprintf("Unsupported value: %q: supported values: %s", value, strings.Join(quoted, ", ")),
	}
}

func tooLong(field string, limit int) Cause {
	return Cause{Reason: "FieldValueTooLong", Field: field, Message: fmt.Sprintf("Too long: may not be more than %d bytes", limit)}
}

func tooMany(field string, count, limit int) Cause {
	return Cause{Reason: "FieldValueTooMany", Field: field, Message: fmt.Sprintf("Too many: %d: must have at most %d items", count, limit)}
}

// ErrUnknownKind is the refusal of a request for a resource that is not
// registered in the realm.
func ErrUnknownKind(resource string) *Error {
	return &Error{
		Reason:   ReasonUnknownKind,
		Resource: resource,
		Message: fmt.Sprintf("no kind with the resource %q is registered in this realm; "+
			"register it by creating an object of kind Kind (apiVersion %s) named %q: see docs/kinds.md", resource, APIVersion, resource),
	}
}

// ErrBadRequest is the refusal of a request that cannot be understood.
func ErrBadRequest(format string, args ...any) *Error {
	return &Error{Reason: ReasonBadRequest, Message: fmt.Sprintf(format, args...)}
}
