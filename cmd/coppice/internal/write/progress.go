package write

import (
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// progress shows on a terminal how many objects of many are done, on one line that is
// rewritten. Elsewhere it shows nothing: the output has a line for each object.
type progress struct {
	w     io.Writer // nil: nothing is shown
	done  string
	total int
	shown bool
}

// progressFrom is from how many objects on progress is shown.
const progressFrom = 2 * windowObjects

func newProgress(a *cli.App, done string, total int) *progress {
	p := &progress{done: done, total: total}
	if total >= progressFrom && cli.IsTerminal(a.Stderr) {
		p.w = a.Stderr
	}
	return p
}

// show shows the number of objects that are done.
func (p *progress) show(n int) {
	if p.w != nil {
		_, _ = fmt.Fprintf(p.w, "\r%d of %d objects %s\x1b[K", n, p.total, p.done)
		p.shown = true
	}
}

// clear removes the line, so that other lines can be written.
func (p *progress) clear() {
	if p.shown {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// end ends the line.
func (p *progress) end() {
	if p.shown {
		_, _ = io.WriteString(p.w, "\n")
	}
}
