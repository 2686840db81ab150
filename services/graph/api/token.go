package api

import (
	"encoding/base64"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// encodeToken returns the continue token of a list: the name after which the next page
// starts.
func encodeToken(c state.NameCursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Namespace + "\x00" + c.Name))
}

// ContinueAfterNamespace returns a token that a list of all namespaces continues with
// after the last object of a namespace.
func ContinueAfterNamespace(namespace string) string {
	const last = "\xff" // no name has this byte, and it sorts after all bytes of names
	return encodeToken(state.NameCursor{Namespace: namespace, Name: last})
}

func decodeToken(token string) (c state.NameCursor, err *lifecycle.Error) {
	if token == "" {
		return c, nil
	}
	b, fail := base64.RawURLEncoding.DecodeString(token)
	namespace, name, ok := strings.Cut(string(b), "\x00")
	if fail != nil || !ok || name == "" {
		return c, lifecycle.ErrBadRequest("continue: %q is not what a reply gave", token)
	}
	return state.NameCursor{Namespace: namespace, Name: name}, nil
}
