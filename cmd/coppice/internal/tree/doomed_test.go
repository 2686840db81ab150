package tree

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

func TestDoomed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, lines, roots, policy, want string
	}{
		{"the whole tree", `
d/web
r/1 <- d/web
p/1 <- r/1
p/2 <- r/1`, "d/web", lifecycle.Background, "d/web p/1 p/2 r/1"},
		{"another owner keeps it", `
d/web
d/api
c/1 <- d/web, d/api
c/2 <- c/1
c/3 <- d/web`, "d/web", lifecycle.Foreground, "c/3 d/web"},
		{"both owners go", `
d/web
d/api
c/1 <- d/web, d/api`, "d/web d/api", lifecycle.Background, "c/1 d/api d/web"},
		{"the other owner is gone, or waits", `
d/web
c/1 <- d/web, x/gone-
c/2 <- d/web, x/old~`, "d/web", lifecycle.Background, "c/1 c/2 d/web"},
		{"the other owner may still come", `
d/web
c/1 <- d/web, x/late?`, "d/web", lifecycle.Background, "d/web"},
		{"orphans stay", `
d/web
c/1 <- d/web`, "d/web", lifecycle.Orphan, "d/web"},
		{"an orphan finalizer below is honoured", `
d/web
j/1 <- d/web *orphan
p/1 <- j/1`, "d/web", lifecycle.Background, "d/web j/1"},
		{"unless the deletion is in the foreground", `
d/web
j/1 <- d/web *orphan
p/1 <- j/1`, "d/web", lifecycle.Foreground, "d/web j/1 p/1"},
		{"or it is at it already", `
d/web
j/1 <- d/web !orphan
p/1 <- j/1`, "d/web", lifecycle.Foreground, "d/web j/1"},
		{"the options outrank the root's own finalizer", `
j/1 *orphan
p/1 <- j/1`, "j/1", lifecycle.Background, "j/1 p/1"},
		{"a terminating object goes, whatever owns it", `
d/web
d/api
c/1 <- d/web, d/api !example.com/x
c/2 <- c/1`, "d/web", lifecycle.Background, "c/1 c/2 d/web"},
		{"a cycle that hangs on it", `
d/web
c/1 <- d/web, c/2
c/2 <- c/1`, "d/web", lifecycle.Background, "d/web"},
		{"unknown roots", `
d/web`, "d/web x/y", lifecycle.Background, "d/web"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			goes := familyOf(tc.lines).Doomed(strings.Fields(tc.roots), tc.policy)
			if got := strings.Join(slices.Sorted(maps.Keys(goes)), " "); got != tc.want {
				t.Errorf("goes: %s, want %s", got, tc.want)
			}
		})
	}
}
