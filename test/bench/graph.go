package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// measuredGraphs has what `npm run measure` in console/ has measured.
//
//go:embed graph.json
var measuredGraphs []byte

// graphs are the figures of the graph of the console.
type graphs struct {
	// Layout are those of the server: ms from the mirror to the message.
	Layout []struct {
		Objects      int
		First, Again float64
		Bytes        float64
	}
	// Graphs are those of the browser: times in ms, memory in MiB.
	Graphs []struct {
		Objects, Shown                       int
		FirstPaint, FirstPaintMirrored       float64
		PanScript, PanScriptP95, PanFrame    float64
		NearScript, NearScriptP95, NearFrame float64
		Update, UpdateLongest                float64
		Heap, Process                        float64
	}
}

// writeGraph writes the figures of the graph of the console, which need a browser and are not measured by this program.
func writeGraph(w *writer) {
	var g graphs
	if err := json.Unmarshal(measuredGraphs, &g); err != nil {
		w.err = fmt.Errorf("test/bench/graph.json: %w; run `npm run measure` in console/", err)
		return
	}
	w.line("")
	w.line("## The graph of the console")
	w.line("")
	w.line("`npm run measure` in `console/`: realms of Deployments, each with a ReplicaSet and three Pods, in 20 namespaces, in a headless Chromium that draws without a GPU on the cores of the services.")
	w.line("The time to the first paint begins with the request of the page. A change is a command that protects one object; its time includes the process of the command. Record: %s.", link("0069-console-graph.md"))
	w.line("")
	w.line("| | wanted |%s", each(g, func(i int) string { return " " + thousands(float64(g.Graphs[i].Objects)) + " objects |" }))
	w.line("|---|---|%s", each(g, func(int) string { return "---|" }))
	row := func(what, wanted string, value func(i int) string) {
		w.line("| %s | %s |%s", what, wanted, each(g, func(i int) string { return " " + value(i) + " |" }))
	}
	row("nodes shown", "all of 100,000 objects", func(i int) string { return thousands(float64(g.Graphs[i].Shown)) })
	row("first paint, with the mirror of the realm", "2 s; 3 s for 1,000,000 objects", func(i int) string { return ms(g.Graphs[i].FirstPaintMirrored) })
	row("first paint, when the console has to read the realm first", "published", func(i int) string { return ms(g.Graphs[i].FirstPaint) })
	row("panning over everything: scripts in a frame, median and 95th percentile", "15 ms", func(i int) string {
		return ms(g.Graphs[i].PanScript) + ", " + ms(g.Graphs[i].PanScriptP95)
	})
	row("panning near enough to read names: the same", "15 ms", func(i int) string {
		return ms(g.Graphs[i].NearScript) + ", " + ms(g.Graphs[i].NearScriptP95)
	})
	row("time from frame to frame without a GPU, far and near", "published", func(i int) string {
		return ms(g.Graphs[i].PanFrame) + ", " + ms(g.Graphs[i].NearFrame)
	})
	row("a change until it is shown, median and longest of 10", "500 ms", func(i int) string {
		return ms(g.Graphs[i].Update) + ", " + ms(g.Graphs[i].UpdateLongest)
	})
	row("memory of the page: heap of scripts, and the whole process", "500 MB", func(i int) string {
		return fmt.Sprintf("%.0f MiB, %.0f MiB", g.Graphs[i].Heap, g.Graphs[i].Process)
	})
	w.line("")
	w.line("The server makes a picture from the mirror and encodes what has changed in it (`go test ./cmd/coppice/internal/console -bench BenchmarkGraph`):")
	w.line("")
	w.line("| objects | first picture | its message | picture after a change of one object |")
	w.line("|---|---|---|---|")
	for _, l := range g.Layout {
		w.line("| %s | %s | %s bytes | %s |", thousands(float64(l.Objects)), ms(l.First), thousands(l.Bytes), ms(l.Again))
	}
	w.line("")
	w.line("Of 1,000,000 objects the levels are shown that have at most 120,000 nodes together.")
}

// each is a text for each graph.
func each(g graphs, text func(i int) string) (all string) {
	for i := range g.Graphs {
		all += text(i)
	}
	return all
}

// ms is a time in milliseconds, with three digits or as a whole number.
func ms(v float64) string {
	if v >= 100 {
		return thousands(v) + " ms"
	}
	return fmt.Sprintf("%.3g ms", v)
}
