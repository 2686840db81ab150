package main

import (
	"fmt"
	"html"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// profiled is a benchmark with its CPU profile.
type profiled struct {
	name   string
	result *result
	root   *frame
}

// profile reads the CPU profile of a program in a directory.
func profile(name, program, dir string, r *result) (profiled, error) {
	out, err := exec.Command("go", "tool", "pprof", "-traces", program, filepath.Join(dir, "cpu.pprof")).Output() //nolint:gosec // this run's own
	if err != nil {
		return profiled{}, fmt.Errorf("profile of %s: %w", name, err)
	}
	return profiled{name, r, parseTraces(string(out))}, nil
}

// file returns the file of the flame graph, next to the page.
func (p profiled) file() string { return "performance-" + p.name + ".svg" }

// stages attribute the time of a profile: a sample belongs to the first stage of which a
// function is in the stack. A stage of this module names a package, and may name a type
// or a function of it.
var stages = []struct{ name, in string }{
	{"Pebble: flushes and compactions", "pebble/v2.(*DB).compact"},
	{"Pebble: flushes and compactions", "pebble/v2.(*DB).flush"},
	{"writer: decide", "services/graph/writer.(*Writer).do"},
	{"writer: append", "services/graph/eventlog.(*Log).Send"},
	{"writer: apply", "services/graph/state.(*Tx).Encode"},
	{"writer: apply", "services/graph/state.(*Tx).AnswerAndApply"},
	{"writer: apply", "services/graph/state.(*State).write"},
	{"writer: the rest", "services/graph/writer."},
	{"replay: elision", "services/graph/replay.(*elision)"},
	{"replay: elision", "services/graph/replay.summaryOf"},
	{"replay: elision", "services/graph/replay.findElisions"},
	{"replay: decode and fold", "services/graph/replay.(*Folder)"},
	{"replay: read the log", "services/graph/replay.readAhead"},
	{"propagator: scan edges, publish", "services/graph/propagator."},
	{"propagator: scan edges, publish", "internal/queue."},
	{"graph service: resolve", "services/graph/resolve."},
	{"processor: decide", "services/processor."},
	{"graph service: requests and replies", "services/graph/api"},
	{"client", "cmd/coppice/bench."},
	{"client", "test/bench/benchmarks."},
	{"client", "coppice/client."},
	{"NATS server", "nats-server/v2"},
	{"NATS connections", "nats%2ego"},
	{"NATS connections", "nats.go"},
	{"garbage collection of memory", "runtime.gcBgMarkWorker"},
}

// budget returns the milliseconds of a profile by stage, the rest as "other".
func (f *frame) budget() map[string]float64 {
	sum := map[string]float64{}
	f.spend(sum, nil)
	return sum
}

func (f *frame) spend(sum map[string]float64, path []string) {
	path = append(path, f.name)
	own := f.value
	for _, c := range f.calls {
		own -= c.value
		c.spend(sum, path)
	}
	if own > 0 {
		sum[stageOf(path)] += own
	}
}

func stageOf(path []string) string {
	for _, s := range stages {
		if slices.ContainsFunc(path, func(name string) bool { return strings.Contains(name, s.in) }) {
			return s.name
		}
	}
	return "other: the scheduler, system calls"
}

// frame is a function and the functions that it called.
type frame struct {
	name  string
	value float64 // milliseconds, what it called included
	calls map[string]*frame
}

func (f *frame) call(name string) *frame {
	if f.calls == nil {
		f.calls = map[string]*frame{}
	}
	c := f.calls[name]
	if c == nil {
		c = &frame{name: name}
		f.calls[name] = c
	}
	return c
}

// parseTraces reads what `go tool pprof -traces` prints: stacks between lines,
// each with its value before the innermost function.
func parseTraces(text string) *frame {
	root := &frame{name: "all"}
	var stack []string
	value := 0.0
	end := func() {
		if value > 0 {
			root.value += value
			at := root
			for _, name := range slices.Backward(stack) {
				at = at.call(name)
				at.value += value
			}
		}
		stack, value = nil, 0
	}
	begun := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "-----------+-") {
			end()
			begun = true
			continue
		}
		if !begun || len(line) < 13 {
			continue
		}
		if v := strings.TrimSpace(line[:12]); v != "" && !strings.Contains(v, ":") {
			value = toMilliseconds(v)
		}
		stack = append(stack, strings.TrimSuffix(strings.TrimSpace(line[12:]), " (inline)"))
	}
	end()
	return root
}

// toMilliseconds reads a time as pprof spells it.
func toMilliseconds(s string) float64 {
	for _, unit := range []struct {
		suffix string
		ms     float64
	}{{"ms", 1}, {"us", 0.001}, {"mins", 60_000}, {"s", 1000}} {
		if number, ok := strings.CutSuffix(s, unit.suffix); ok {
			var f float64
			if _, err := fmt.Sscanf(number, "%f", &f); err == nil {
				return f * unit.ms
			}
		}
	}
	return 0
}

// Sizes of a drawing, in pixels. Functions that are narrower than the smallest width are
// left out.
const (
	width    = 1400.0
	height   = 17
	narrow   = 1.2
	perGlyph = 6.6
)

// draw draws a flame graph: callers below what they call.
func (f *frame) draw(w io.Writer, title string) error {
	depth := f.depth(width / max(f.value, 1))
	out := &writer{w: w}
	out.line(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" font-family="monospace" font-size="11">`, width, (depth+2)*height)
	out.line(`<text x="4" y="13">%s: %.2f s of CPU; the width is the time, callers are below what they call</text>`, html.EscapeString(title), f.value/1000)
	f.drawAt(out, 0, (depth+1)*height, width/max(f.value, 1), f.value)
	out.line(`</svg>`)
	return out.err
}

func (f *frame) depth(scale float64) int {
	if f.value*scale < narrow {
		return 0
	}
	deepest := 0
	for _, c := range f.calls {
		deepest = max(deepest, c.depth(scale))
	}
	return deepest + 1
}

func (f *frame) drawAt(out *writer, x float64, y int, scale, all float64) {
	wide := f.value * scale
	if wide < narrow {
		return
	}
	label := f.name[strings.LastIndexByte(f.name, '/')+1:]
	out.line(`<g><title>%s: %.0f ms, %.1f%%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="white" stroke-width="0.5"/>`,
		html.EscapeString(f.name), f.value, 100*f.value/all, x, y, wide, height, colour(f.name))
	if room := int((wide - 4) / perGlyph); room >= 3 {
		if len(label) > room {
			label = label[:room-1] + "~"
		}
		out.line(`<text x="%.1f" y="%d">%s</text>`, x+2, y+12, html.EscapeString(label))
	}
	out.line(`</g>`)
	calls := make([]*frame, 0, len(f.calls))
	for _, c := range f.calls {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *frame) int { return strings.Compare(a.name, b.name) })
	for _, c := range calls {
		c.drawAt(out, x, y-height, scale, all)
		x += c.value * scale
	}
}

// colour returns the colour of the module that a function belongs to.
func colour(name string) string {
	for _, c := range []struct{ in, colour string }{
		{"coppice-gc/coppice", "#7fbf7b"}, {"cockroachdb/pebble", "#f4a582"}, {"nats-io", "#92c5de"}, {"protobuf", "#d9c2e9"},
	} {
		if strings.Contains(name, c.in) {
			return c.colour
		}
	}
	return "#dddddd"
}
