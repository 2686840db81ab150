package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// runCited runs the tests that are cited, and reports those that are not, or
// do not pass.
func runCited(ctx context.Context, root string, citations []citation, out io.Writer) error {
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
		results, output, err := runTests(ctx, root, pkg, slices.Compact(roots))
		if err != nil {
			return err
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

// runTests runs tests of a package, and returns what became of each.
func runTests(ctx context.Context, root, pkg string, tests []string) (results map[string]string, output []byte, err error) {
	//nolint:gosec // the names are those of Go's own functions and directories
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-run", "^("+strings.Join(tests, "|")+")$", "./"+pkg)
	cmd.Dir = root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	fail := cmd.Run() // it fails if a test does: see below
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
