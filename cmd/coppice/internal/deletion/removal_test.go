package deletion

import (
	"bytes"
	"testing"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// On a terminal one line is rewritten. Elsewhere a line is printed for each state that
// lasted.
func TestRemovalSays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		terminal bool
		want     string
	}{
		{true, "\rremoved 0/4\x1b[K\rremoved 1/4; waiting: a blocked by b\x1b[K\rremoved 4/4\x1b[K\n"},
		{false, "removed 1/4; waiting: a blocked by b\nremoved 4/4\n"},
	} {
		var b bytes.Buffer
		r := &removal{Session: &cli.Session{App: &cli.App{Stdout: &b, Terminal: tc.terminal}}, total: 4, remaining: make([]string, 4)}
		say := func(remaining int, waiting string, done bool) {
			t.Helper()
			r.remaining, r.waiting = r.remaining[:remaining], waiting
			must.Succeed(t, r.say(done))
		}
		say(4, "", false)
		for range 3 {
			say(3, "waiting: a blocked by b", false)
		}
		say(0, "", true)
		if b.String() != tc.want {
			t.Errorf("terminal %t: said %q, want %q", tc.terminal, b.String(), tc.want)
		}
	}
}
