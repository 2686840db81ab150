package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestThousands(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(f); got != want {
			t.Errorf("%v is %s, want %s", f, got, want)
		}
	}
}

// Every record that the page links to exists.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, target := range targets() {
		if target.record == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "..", "docs", "design", target.record)); err != nil {
			t.Errorf("%s: %v", target.name, err)
		}
	}
}

// Every stage of a profile names a package of this module and, if it names a type or a
// function, one that the package declares: otherwise time would be attributed to other
// stages after a rename.
func TestStagesExist(t *testing.T) {
	t.Parallel()
	declared := func(dir, pattern string) bool {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		must.Succeed(t, err)
		return slices.ContainsFunc(files, func(file string) bool {
			code, err := os.ReadFile(file)
			return err == nil && !strings.HasSuffix(file, "_test.go") && regexp.MustCompile(pattern).Match(code)
		})
	}
	if declared("services/graph/writer", `(?m)^func NoSuch`) {
		t.Error("a function that does not exist is found")
	}
	ours := 0
	for _, s := range stages {
		dir, name, _ := strings.Cut(strings.TrimPrefix(s.in, "coppice/"), ".")
		if root, _, _ := strings.Cut(dir, "/"); !slices.Contains([]string{"client", "cmd", "services"}, root) {
			continue
		}
		ours++
		pattern := `(?m)^package `
		if receiver, method, ok := strings.Cut(strings.TrimPrefix(name, "(*"), ")"); ok {
			pattern = `(?m)^func \(\w+ \*` + receiver + `\) ` + strings.TrimPrefix(method, ".")
		} else if name != "" {
			pattern = `(?m)^func ` + name
		}
		if !declared(dir, pattern) {
			t.Errorf("stage %q: %s declares nothing that %s matches", s.name, dir, pattern)
		}
	}
	if ours < 10 {
		t.Errorf("%d stages of this module", ours)
	}
}

// The page shows for each target whether it was reached.
func TestPage(t *testing.T) {
	t.Parallel()
	fast, slow := targets()[0], targets()[1]
	p := page{targets: []measured{
		{target: fast, command: "coppice bench cascade", result: &result{Objects: 1000, ObjectsPerSecond: 150_000, CPUSeconds: 0.01}, split: &result{ObjectsPerSecond: 90_000}},
		{target: slow, command: "coppice bench cascade --policy foreground", result: &result{Objects: 1000, ObjectsPerSecond: 119_999}},
	}}
	p.linear = []*result{{Objects: 100, ObjectsPerSecond: 1000, CPUSeconds: 0.001}, {Objects: 5000, ObjectsPerSecond: 1000, CPUSeconds: 0.1}}
	var b strings.Builder
	must.Succeed(t, p.write(&b))
	for _, want := range []string{
		"| cost of an object in a wide cascade of 5,000 against one of 100 | | within 1.3x | 1.00x the time, 2.00x the CPU | **no** |",
		"| 5,000 | 1,000 | 20.0 us |",
		"| cascade wide, background | 1,000 | 150,000 objects/s | 150,000 objects/s | yes | 10.0 us | 90,000 objects/s, 60% |",
		"| cascade wide, foreground | 1,000 | 120,000 objects/s | 119,999 objects/s | **no** |",
		"`coppice bench cascade --policy foreground`",
		"[0021](design/0021-cost-of-cascades.md)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not have %q:\n%s", want, b.String())
		}
	}
}

// A restart, a latency and so on are each compared with their own figure.
func TestReached(t *testing.T) {
	t.Parallel()
	of := map[string]target{}
	for _, t := range targets() {
		of[t.name] = t
	}
	for _, c := range []struct {
		name string
		r    result
		want bool
	}{
		{"restart", result{Details: map[string]float64{"seconds_after_stop": 1.9, "seconds_after_kill": 5.9}}, true},
		{"restart", result{Details: map[string]float64{"seconds_after_stop": 2.1, "seconds_after_kill": 5.9}}, false},
		{"restart", result{Details: map[string]float64{"seconds_after_stop": 1.9, "seconds_after_kill": 6.1}}, false},
		{"memory", result{PeakRSSBytes: 1 << 30}, true},
		{"memory", result{PeakRSSBytes: 1<<30 + 1}, false},
		{"latency, one client", result{Details: map[string]float64{"p99_to_sync_p99": 2.01}}, false},
		{"create, 64 callers with one object each", result{ObjectsPerSecond: 21_400, Details: map[string]float64{"sync_p50_ms": 2}}, true},
		{"create, 64 callers with one object each", result{ObjectsPerSecond: 21_300, Details: map[string]float64{"sync_p50_ms": 2}}, false},
		{"replay into an empty state", result{ObjectsPerSecond: 999_999}, false},
	} {
		if got := of[c.name].reached(&c.r); got != c.want {
			t.Errorf("%s with %+v: reached is %t", c.name, c.r, got)
		}
	}
}

// Of several runs, the one with the median of the target's figure counts.
func TestMiddle(t *testing.T) {
	t.Parallel()
	run := func(rate, ratio float64) *result {
		return &result{ObjectsPerSecond: rate, Details: map[string]float64{"p99_to_sync_p99": ratio}}
	}
	runs := []*result{run(3, 1.9), run(1, 1.8), run(2, 2.1)}
	if got := middle(runs, objectsPerSecond); got.ObjectsPerSecond != 2 {
		t.Errorf("by rate it is %+v", got)
	}
	for _, target := range targets() {
		if target.figure == nil {
			continue
		}
		if got := middle(runs, target.figure); toSync(got) != 1.9 {
			t.Errorf("%s: it is %+v", target.name, got)
		}
	}
}

// A flame graph has the stacks of a profile, with their times.
func TestFlame(t *testing.T) {
	t.Parallel()
	root := parseTraces(`File: coppice
Type: cpu
-----------+-------------------------------------------------------
     1.20s   runtime.memmove
             github.com/coppice-gc/coppice/services/graph/writer.(*Writer).run
             main.main
-----------+-------------------------------------------------------
     300ms   github.com/nats-io/nats-server/v2/server.(*stream).processJetStreamMsg (inline)
             main.main
-----------+-------------------------------------------------------
`)
	main := root.calls["main.main"]
	if root.value != 1500 || main == nil || main.value != 1500 || len(main.calls) != 2 {
		t.Fatalf("parsed as %+v", root)
	}
	if w := main.calls["github.com/coppice-gc/coppice/services/graph/writer.(*Writer).run"]; w == nil || w.calls["runtime.memmove"].value != 1200 {
		t.Errorf("the writer is %+v", w)
	}
	if got := root.budget(); got["writer: the rest"] != 1200 || got["NATS server"] != 300 || len(got) != 2 {
		t.Errorf("the time goes to %v", got)
	}
	var b strings.Builder
	must.Succeed(t, root.draw(&b, "a test"))
	for _, want := range []string{"a test: 1.50 s of CPU", "<title>main.main: 1500 ms, 100.0%</title>", "memmove: 1200 ms, 80.0%", "</svg>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the drawing does not have %q:\n%s", want, b.String())
		}
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	got := parseStages(`goos: linux
BenchmarkStages/scan_edges-2   50   760002 ns/op   190.0 ns/object   96000 B/op   4000 allocs/op
BenchmarkStages/encode-2       50   4485411 ns/op   50.03 B/object   1121 ns/object   8000 B/op   100 allocs/op
PASS
`)
	want := []stage{{"scan edges", 0.19, 24, 1}, {"encode", 1.121, 2, 0.025}}
	if !slices.Equal(got, want) {
		t.Errorf("read as %v, want %v", got, want)
	}
}

// The output of a program is kept for the next run of the same program, up to the point
// at which the run was interrupted.
func TestKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, one, other := filepath.Join(dir, "kept"), filepath.Join(dir, "one"), filepath.Join(dir, "other")
	for _, program := range []string{one, other} {
		must.Succeed(t, os.WriteFile(program, []byte(program), 0o600))
	}
	open := func(program string) *kept {
		k, err := openKept(file, program)
		must.Succeed(t, err)
		return k
	}
	k := open(one)
	for _, objects := range []int{7, 8} {
		must.Succeed(t, k.add("cascade", &result{Objects: objects}))
	}
	if _, err := k.f.WriteString(`{"program": "interrup`); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, k.close())
	k = open(other)
	must.Succeed(t, k.add("create", &result{}))
	must.Succeed(t, k.close())
	for program, want := range map[string][]int{one: {7, 8}, other: nil} {
		k := open(program)
		var got []int
		for r := k.find("cascade"); r != nil; r = k.find("cascade") {
			got = append(got, r.Objects)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v objects are kept, want %v", program, got, want)
		}
		if k.find("create") != nil && program == one {
			t.Error("what was not run is kept")
		}
		if err := k.close(); err != nil {
			t.Error(err)
		}
	}
}
