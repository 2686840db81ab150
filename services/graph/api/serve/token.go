package serve

import (
	"encoding/base64"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// EncodeToken returns the continue token of a list: the name after which the next page
// starts.
func EncodeToken(c state.NameCursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Namespace + "\x00" + c.Name))
}

// ContinueAfterNamespace returns a token that a list of all namespaces continues with
// after the last object of a namespace.
func ContinueAfterNamespace(namespace string) string {
	const last = "\xff" // no name has this byte, and it sorts after all bytes of names
	return EncodeToken(state.NameCursor{Namespace: namespace, Name: last})
}

// DecodeToken returns where the page of a continue token starts; zero without a token.
func DecodeToken(token string) (c state.NameCursor, err *lifecycle.Error) {
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
