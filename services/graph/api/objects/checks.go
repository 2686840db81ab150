package objects

import (
	"fmt"
	"regexp"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// checkCount checks how many objects or names a request has.
func checkCount(n int, what string) *lifecycle.Error {
	switch {
	case n == 0:
		return lifecycle.ErrBadRequest("the request names no %s", what)
	case n > bus.MaxObjects:
		return &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: bus.TooManyObjects}
	}
	return nil
}

// checkNames checks the names of objects in a field of a request, and that there are any.
func checkNames(field string, names []string) *lifecycle.Error {
	if err := checkCount(len(names), "names"); err != nil {
		return err
	}
	for i, name := range names {
		if name == "" {
			return errNoName(fmt.Sprintf("%s[%d]", field, i))
		}
	}
	return nil
}

// checkNamed checks the objects that a request names, and that there are any.
func checkNamed[O interface{ GetName() string }](objects []O) *lifecycle.Error {
	if err := checkCount(len(objects), "objects"); err != nil {
		return err
	}
	for i, o := range objects {
		if o.GetName() == "" {
			return errNoName(fmt.Sprintf("objects[%d].name", i))
		}
	}
	return nil
}

func errNoName(field string) *lifecycle.Error {
	return lifecycle.ErrBadRequest("%s is empty; write the name of an object", field)
}

var sessionPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)

// checkSession checks a request of an import session. One that only closes it has no objects.
func checkSession(session string, objects int, closes bool) *lifecycle.Error {
	if !sessionPattern.MatchString(session) {
		return lifecycle.ErrBadRequest("session: %q is not the name of an import session: 1 to 63 letters, digits and hyphens, such as a UUID", session)
	}
	if objects == 0 && closes {
		return nil
	}
	return checkCount(objects, "objects")
}
