package operate

import (
	"testing"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A completion does not control the terminal of the user.
func TestParkedCompletionIsPrintable(t *testing.T) {
	t.Parallel()
	p := parkedWork{7, &coppicev1.Parked{Subject: "\x1b]0;title\x07\x1b[31mred\tno\nid"}}
	if got, want := p.completion(), "7\t?]0;title??[31mred?no?id"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
