package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// The script names has what a creation refuses; CheckName refuses the same.
func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "empty", ".": "'.'", "..": "'..'", "a/b": "'/'", "50%": "'%'", "a b": "spaces", "a\n": "control", "\x7f": "control", strings.Repeat("a", 254): "at most 253",
		"a": "", "A:b,c": "", "ä": "", "...": "", strings.Repeat("a", 253): "",
	} {
		if err := lifecycle.CheckName(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Message, want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
