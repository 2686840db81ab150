package lifecycle

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
)

// The errors of the rules, which package api explains.
type (
	// Reason says why a command was refused.
	Reason = api.Reason
	// Error refuses a command.
	Error = api.Error
	// Cause is one of several reasons of an Error.
	Cause = api.Cause
)

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
	return k.err(api.ErrNotFound, "%s not found", k)
}

func errConflict(k Key, format string, args ...any) *Error {
	return k.err(api.ErrConflict, "operation cannot be fulfilled on %s: %s", k, fmt.Sprintf(format, args...))
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
	e := k.err(api.ErrInvalid, "%s is invalid: %s", k, list)
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

// ErrUnknownKind is the refusal of a request for a resource that is not registered.
func ErrUnknownKind(resource string) *Error { return api.UnknownKind(resource) }

// ErrBadRequest is the refusal of a request that cannot be understood.
func ErrBadRequest(format string, args ...any) *Error {
	return &Error{Reason: api.ErrBadRequest, Message: fmt.Sprintf(format, args...)}
}
