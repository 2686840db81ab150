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

	"github.com/coppice-gc/coppice/test/internal/module"
)

// runCited runs the cited tests. If results is not nil, it takes their results from there
// instead. It reports cited tests that do not exist or did not pass.
func runCited(ctx context.Context, root string, citations []citation, ran map[string]map[string]string, out io.Writer) error {
	wanted := map[string]map[string]bool{} // tests by package
	for _, c := range citations {
		if wanted[c.Package] == nil {
			wanted[c.Package] = map[string]bool{}
		}
		wanted[c.Package][c.Test] = true
	}
	var bad []string
	for _, pkg := range slices.Sorted(maps.Keys(wanted)) {
		var roots []string
		for test := range wanted[pkg] {
			name, _, _ := strings.Cut(test, "/")
			roots = append(roots, name)
		}
		slices.Sort(roots)
		results, output := ran[pkg], []byte(nil)
		if ran == nil {
			var err error
			if results, output, err = runTests(ctx, root, pkg, slices.Compact(roots)); err != nil {
				return err
			}
		}
		for _, test := range slices.Sorted(maps.Keys(wanted[pkg])) {
			result := results[test]
			if result == "" {
				result = "not there"
			}
			if result != "pass" {
				bad = append(bad, fmt.Sprintf("%s %s: %s", pkg, test, result))
			}
		}
		if len(bad) > 0 {
			_, _ = out.Write(output)
		}
		_, _ = fmt.Fprintf(out, "%-32s %d tests that are cited\n", pkg, len(wanted[pkg]))
	}
	if len(bad) > 0 {
		return fmt.Errorf("cited, but not passed:\n%s", strings.Join(bad, "\n"))
	}
	return nil
}

// runTests runs tests of a package, and returns the result of each.
func runTests(ctx context.Context, root, pkg string, tests []string) (results map[string]string, output []byte, err error) {
	//nolint:gosec // the names are those of Go's own functions and directories
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-run", "^("+strings.Join(tests, "|")+")$", "./"+pkg)
	cmd.Dir = root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	fail := cmd.Run() // it also fails if a test fails: see below
	results = map[string]string{}
	lines := bufio.NewScanner(&stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, nil, fmt.Errorf("go test %s: %w\n%s", pkg, err, stderr.Bytes())
		}
		switch event.Action {
		case "output":
			output = append(output, event.Output...)
		case "pass", "fail", "skip":
			results[event.Test] = event.Action
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, err
	}
	if fail != nil && len(results) == 0 {
		return nil, nil, fmt.Errorf("go test %s: %w\n%s%s", pkg, fail, output, stderr.Bytes())
	}
	return results, output, nil
}

// readResults reads the output of go test -json for the packages of the module, and returns
// the result of each test by package. It writes a line for each package, and the output of
// what failed; a failure is an error.
func readResults(in io.Reader, out io.Writer) (map[string]map[string]string, error) {
	results := map[string]map[string]string{}
	outputs := map[string][]byte{}
	failed := 0
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Action, Package, Test, Output string
			Elapsed                       float64
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("not a line of go test -json: %w: %q", err, lines.Text())
		}
		pkg := strings.TrimPrefix(event.Package, module.Path+"/")
		switch event.Action {
		case "build-output":
			_, _ = io.WriteString(out, event.Output)
		case "output":
			outputs[pkg] = append(outputs[pkg], event.Output...)
		case "build-fail":
			failed++
		case "pass", "fail", "skip":
			if event.Test != "" {
				if results[pkg] == nil {
					results[pkg] = map[string]string{}
				}
				results[pkg][event.Test] = event.Action
				continue
			}
			if event.Action == "fail" {
				failed++
				_, _ = out.Write(outputs[pkg])
			}
			if event.Action != "skip" { // the package has no tests
				_, _ = fmt.Fprintf(out, "%-4s %-32s %7.1fs\n", event.Action, pkg, event.Elapsed)
			}
			delete(outputs, pkg)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	switch {
	case failed > 0:
		return nil, fmt.Errorf("%d packages fail", failed)
	case len(results) == 0:
		return nil, errors.New("there are no results of tests")
	}
	return results, nil
}
