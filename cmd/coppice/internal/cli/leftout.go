package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/bus"
)

// leftOut counts what replies to a command lacked because the users file does not let the user see it.
type leftOut struct {
	mu     sync.Mutex
	counts map[string]uint64 // by verb
}

// add notes what a reply lacked. Commands resolve the same objects several times, and read events, warnings and parked work once.
func (l *leftOut) add(verb string, n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]uint64{}
	}
	if verb == bus.VerbResolve || verb == bus.VerbReadPast {
		l.counts[verb] = max(l.counts[verb], n)
		return
	}
	l.counts[verb] += n
}

// say prints what was left out.
func (l *leftOut) say(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, verb := range slices.Sorted(maps.Keys(l.counts)) {
		what := map[string]string{
			bus.VerbReadLog: "event", bus.VerbReadWarnings: "warning", bus.VerbListParked: "parked call",
		}[verb]
		switch n := l.counts[verb]; {
		case verb == bus.VerbListFinalizers:
			_, _ = fmt.Fprintln(w, "not counted: objects that this user may not get")
		case what == "":
			_, _ = fmt.Fprintf(w, "not shown: %s that this user may not get\n", terminal.Count(int(n), "object"))
		default:
			_, _ = fmt.Fprintf(w, "not shown: %s of objects that this user may not get\n", terminal.Count(int(n), what))
		}
	}
	l.counts = nil
}
