package serve

import (
	"testing"

	"github.com/coppice-gc/coppice/services/graph/state"
)

// What a reply gave to go on with is read as it was; anything else is refused,
// or is some place in the list.
func FuzzToken(f *testing.F) {
	f.Add("shop", "web", "")
	f.Add("", "node-1", "bm9kZQ")
	f.Fuzz(func(t *testing.T, namespace, name, token string) {
		if c, err := DecodeToken(token); err == nil && token != "" && c == (state.NameCursor{}) {
			t.Fatalf("%q is the beginning", token)
		}
		for _, b := range []byte(namespace) {
			if b == 0 {
				return // no namespace has it
			}
		}
		if name == "" {
			return
		}
		want := state.NameCursor{Namespace: namespace, Name: name}
		if got, err := DecodeToken(EncodeToken(want)); err != nil || got != want {
			t.Fatalf("%+v is read as %+v, %v", want, got, err)
		}
	})
}
