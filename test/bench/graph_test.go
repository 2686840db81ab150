package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the section about the graph into docs/performance.md")

// docs/performance.md has the figures of the graph that were measured last. They come from a browser, without the others.
func TestGraphSection(t *testing.T) {
	t.Parallel()
	const file, heading = "../../docs/performance.md", "\n## The graph of the console\n"
	var section bytes.Buffer
	w := &writer{w: &section}
	writeGraph(w)
	must.Succeed(t, w.err)
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	text := string(data)
	if strings.Count(text, section.String()) == 1 {
		return
	}
	if !*update {
		t.Fatalf("docs/performance.md lacks what test/bench/graph.json says; run `go test ./test/bench -run TestGraphSection -update`")
	}
	from := strings.Index(text, heading)
	to := strings.LastIndex(text, "\n## ") // the commands are last
	if from >= 0 {
		to = from + len(heading) + strings.Index(text[from+len(heading):], "\n## ")
	} else {
		from = to
	}
	must.Succeed(t, os.WriteFile(file, []byte(text[:from]+section.String()+text[to:]), 0o644))
}
