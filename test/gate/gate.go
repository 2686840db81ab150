package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mostAgain is how many packages may fail for each to run once more.
const mostAgain = 3

// gate runs go test, once for all packages and then once more for those that failed.
type gate struct {
	goCmd string // the command go
	dir   string
	out   io.Writer
	flags []string // of go test

	packages map[string]*outcome // the last one of each package
	flaky    []string            // packages and tests that failed once
}

// outcome is what go test -json reports of a package.
type outcome struct {
	result string            // pass, fail or skip; empty while it runs
	tests  map[string]string // the result of each test
	output bytes.Buffer
	lines  bytes.Buffer // as go test -json printed them
}

func newOutcome() *outcome { return &outcome{tests: map[string]string{}} }

// event is a line of go test -json: see go doc test2json.
type event struct {
	Action, Package, Test, Output, FailedBuild string
	Elapsed                                    float64 // seconds
}

func (g *gate) run(ctx context.Context, patterns []string) error {
	g.packages = map[string]*outcome{}
	if err := g.test(ctx, patterns); err != nil {
		return err
	}
	for _, pkg := range g.failed() {
		_, _ = fmt.Fprintf(g.out, "once more, alone: %s\n", pkg)
		before := g.packages[pkg]
		g.packages[pkg] = newOutcome() // go test may end without a result
		if err := g.test(ctx, []string{pkg}); err != nil {
			return err
		}
		if g.packages[pkg].result != "pass" {
			continue
		}
		for _, test := range before.failures() {
			g.flaky = append(g.flaky, strings.TrimSpace(pkg+" "+test))
		}
	}
	if again := g.failed(); len(again) > 0 {
		return fmt.Errorf("%d packages fail: %s", len(again), strings.Join(again, ", "))
	}
	if len(g.packages) == 0 {
		return errors.New("no package has tests")
	}
	return nil
}

// test runs go test. A failed test is no error; what ends the gate at once is.
func (g *gate) test(outer context.Context, patterns []string) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	// Package vet is a step of its own. The results of an earlier run say nothing about this one.
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-count=1"}, g.flags, patterns)
	cmd := exec.CommandContext(ctx, g.goCmd, args...) //nolint:gosec // the arguments are those of this command
	cmd.Dir = g.dir
	// go test leaves its test programs behind when it is killed, so they are killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error {
		if outer.Err() == nil {
			return kill(syscall.SIGTERM)
		}
		// A limit was reached: the test programs print their goroutines, and go test ignores the signal.
		time.AfterFunc(5*time.Second, func() { _ = kill(syscall.SIGTERM) })
		return kill(syscall.SIGQUIT)
	}
	cmd.WaitDelay = 15 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := g.read(stdout, stop); err != nil {
		stop(err)
	}
	failed := cmd.Wait()
	_, _ = g.out.Write(stderr.Bytes())
	unfinished := 0
	for pkg, o := range g.packages {
		switch {
		case o.result != "":
		case ctx.Err() != nil && outer.Err() == nil: // this gate has ended its tests: it has no result
			delete(g.packages, pkg)
		default:
			unfinished++
			g.end(pkg, o, event{Action: "fail"})
		}
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed != nil && (unfinished > 0 || !errors.As(failed, &exit) || exit.ExitCode() != 1 || len(g.failed()) == 0):
		return fmt.Errorf("go test: %w", failed) // it says more than that tests have failed
	case unfinished > 0:
		return fmt.Errorf("go test: %d packages have no result", unfinished)
	}
	return nil
}

// read reads the output of go test -json to its end, and stops go test as soon as the gate
// cannot pass any more.
func (g *gate) read(from io.Reader, stop context.CancelCauseFunc) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("not a line of go test -json: %w: %q", err, lines.Text())
		}
		switch {
		case e.Action == "build-output":
			_, _ = io.WriteString(g.out, e.Output)
			continue
		case e.Package == "":
			continue // build-fail: the packages that need the build follow
		}
		o := g.packages[e.Package]
		if o == nil {
			o = newOutcome()
			g.packages[e.Package] = o
		}
		o.lines.Write(lines.Bytes())
		o.lines.WriteByte('\n')
		switch {
		case e.Action == "output":
			o.output.WriteString(e.Output)
		case !ends(e.Action):
		case e.Test != "":
			o.tests[e.Test] = e.Action
		default:
			g.end(e.Package, o, e)
		}
		switch {
		case e.FailedBuild != "":
			stop(fmt.Errorf("%s does not build", e.Package))
		case len(g.failed()) > mostAgain:
			stop(fmt.Errorf("more than %d packages fail", mostAgain))
		}
	}
	return lines.Err()
}

func ends(action string) bool { return action == "pass" || action == "fail" || action == "skip" }

// end ends a package, and prints its result; one without tests has none.
func (g *gate) end(pkg string, o *outcome, e event) {
	if e.Action == "skip" {
		delete(g.packages, pkg)
		return
	}
	o.result = e.Action
	if e.Action == "fail" {
		_, _ = g.out.Write(o.output.Bytes())
	}
	_, _ = fmt.Fprintf(g.out, "%s %-64s %7.1fs\n", e.Action, pkg, e.Elapsed)
}

// failed returns the packages that failed.
func (g *gate) failed() (list []string) {
	for pkg, o := range g.packages {
		if o.result == "fail" {
			list = append(list, pkg)
		}
	}
	slices.Sort(list)
	return list
}

// failures returns the tests that failed, without those of which a subtest did; one empty name
// if the package failed and none of its tests.
func (o *outcome) failures() (list []string) {
	for test, result := range o.tests {
		within := func(other string) bool { return o.tests[other] == "fail" && strings.HasPrefix(other, test+"/") }
		if result == "fail" && !slices.ContainsFunc(slices.Collect(maps.Keys(o.tests)), within) {
			list = append(list, test)
		}
	}
	if len(list) == 0 {
		return []string{""}
	}
	slices.Sort(list)
	return list
}

// lines returns the lines of go test -json, by package.
func (g *gate) lines() []byte {
	var all bytes.Buffer
	for _, pkg := range slices.Sorted(maps.Keys(g.packages)) {
		all.Write(g.packages[pkg].lines.Bytes())
	}
	return all.Bytes()
}

// summary returns a line for each test that failed once, and one with the numbers of packages.
func (g *gate) summary() string {
	var text strings.Builder
	for _, test := range g.flaky {
		text.WriteString("flaky: " + test + "\n")
	}
	failed := len(g.failed())
	fmt.Fprintf(&text, "%d passed, %d failed\n", len(g.packages)-failed, failed)
	return text.String()
}
