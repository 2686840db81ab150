package lifecycle

import (
	"testing"

	"github.com/tidwall/gjson"
)

func TestMember(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		``, `null`, `[]`, `{}`, `"nodeName"`, `{"a":"nodeName"}`,
		`{"nodeName":"n1"}`, `{"node\u004eame":"n1"}`, `{"nodeName":"a\"b","template":{"nodeName":"n2"}}`,
		`{"template":{"nodeName":"n2"}}`, `{"template":{"node\u004eame":"n2"}}`, `{"\u0074emplate":{"nodeName":"n2"}}`, `{"x":"\\"}`,
	} {
		for _, path := range []string{"nodeName", "template.nodeName"} {
			if got, want := member([]byte(raw), path).String(), gjson.Get(raw, path).String(); got != want {
				t.Errorf("%s of %s: %q, want %q", path, raw, got, want)
			}
		}
	}
}
