package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is a change of one file of the package.
type mutant struct {
	name     string // "A12.7: references to a waiting owner stay"
	file     string
	old, new []string // lines
}

//go:embed mutants/*.txt
var files embed.FS

var naming = regexp.MustCompile(`^[ABCRSX]\d+(\.\d+)?( step \d)?: \S`)

// mutants reads mutants/*.txt.
func mutants() ([]mutant, error) {
	names, err := fs.Glob(files, "mutants/*.txt")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, paragraph := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			if strings.HasPrefix(paragraph, "#") {
				continue
			}
			m, err := parse(paragraph)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

func parse(paragraph string) (mutant, error) {
	lines := strings.Split(paragraph, "\n")
	if len(lines) < 3 || !naming.MatchString(lines[0]) {
		return mutant{}, fmt.Errorf("%q: a mutant is an id with what it breaks, a file, and lines", lines[0])
	}
	m := mutant{name: lines[0], file: lines[1]}
	for _, line := range lines[2:] {
		switch line[0] {
		case ' ':
			m.old, m.new = append(m.old, line[1:]), append(m.new, line[1:])
		case '-':
			m.old = append(m.old, line[1:])
		case '+':
			m.new = append(m.new, line[1:])
		default:
			return m, fmt.Errorf("%s: a line begins neither with a space nor with + or -: %q", m.name, line)
		}
	}
	if slices.Equal(m.old, m.new) {
		return m, fmt.Errorf("%s: nothing changes", m.name)
	}
	return m, nil
}

// apply returns the file with the change.
func (m mutant) apply(src string) (string, error) {
	old := "\n" + strings.Join(m.old, "\n") + "\n"
	if n := strings.Count(src, old); n != 1 {
		return "", fmt.Errorf("%s: what it changes occurs %d times in %s/%s", m.name, n, pkg, m.file)
	}
	changed := "\n"
	for _, line := range m.new {
		changed += line + "\n"
	}
	return strings.Replace(src, old, changed, 1), nil
}

// test runs the tests on the mutant, and returns the test that failed, or did not end within a
// limit.
func (m mutant) test(ctx context.Context, root, dir string, limit time.Duration) (noticed string, err error) {
	path := filepath.Join(root, filepath.FromSlash(pkg), m.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	changed, err := m.apply(string(src))
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: filepath.Join(dir, "mutant.go")}})
	if err != nil {
		return "", err
	}
	//nolint:gosec // in a temporary directory of its own
	err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "mutant.go"), []byte(changed), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "mutant.test")
	if output, err := compile(ctx, root, binary, "-overlay="+filepath.Join(dir, "overlay.json")); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", m.name, err, firstLines(output))
	}
	defer func() { err = errors.Join(err, os.Remove(binary)) }() // those of all mutants have a gigabyte
	// Scripts first: their failures are the clearest. The other tests take longer.
	for _, tests := range []string{"-test.run=^TestScripts$", "-test.skip=^TestScripts$"} {
		failed, output, err := runTests(ctx, root, binary, limit, tests)
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", m.name, err, firstLines(output))
		}
		if failed != "" {
			return failed, nil
		}
	}
	return "", fmt.Errorf("%s: no test notices", m.name)
}

// unbroken checks that the tests pass without a mutant, and returns how long they may take with
// one.
func unbroken(ctx context.Context, root, dir string) (limit time.Duration, err error) {
	binary := filepath.Join(dir, "unbroken.test")
	output, err := compile(ctx, root, binary)
	failed, began := "", time.Now()
	if err == nil {
		failed, output, err = runTests(ctx, root, binary, 10*time.Minute)
	}
	if err == nil && failed != "" {
		err = fmt.Errorf("%s fails without any mutant", failed)
	}
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, output)
	}
	return max(20*time.Second, 10*time.Since(began)), nil // the machine may get busier
}

var (
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	timeout = regexp.MustCompile(`panic: test timed out after \S+\n\s*running tests:\n\s*(\S+)`)
	place   = regexp.MustCompile(`testdata/\S+\.txt:\d+`)
)

// compile builds the tests of the package.
func compile(ctx context.Context, root, binary string, flags ...string) (output []byte, err error) {
	args := append([]string{"test", "-c", "-o", binary, "-vet=off", "-ldflags=-s -w"}, flags...)
	//nolint:gosec // the flags are those above
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}

// runTests runs compiled tests of the package, and names the first that fails, with
// the case of the script that does.
func runTests(ctx context.Context, root, binary string, limit time.Duration, flags ...string) (failed string, output []byte, err error) {
	args := append([]string{"-test.failfast", "-test.timeout=" + limit.String()}, flags...)
	//nolint:gosec // the binary is compile's
	cmd := exec.CommandContext(ctx, binary, append(args, "-rapid.nofailfile", "-rapid.shrinktime=0s")...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(pkg)) // as go test does
	output, err = cmd.CombinedOutput()
	if err == nil {
		return "", output, nil
	}
	if at := timeout.FindSubmatch(output); at != nil {
		return string(at[1]) + " (does not end)", output, nil
	}
	tests := failure.FindAllSubmatch(output, -1)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || len(tests) == 0 {
		return "", output, err
	}
	failed = string(tests[len(tests)-1][1])
	for _, t := range tests {
		if name := string(t[1]); strings.Contains(name, "/") {
			failed = name
			break
		}
	}
	if at := place.Find(output); at != nil && strings.Contains(failed, "/") {
		failed += " (" + string(at) + ")"
	}
	return failed, output, nil
}

func firstLines(output []byte) []byte {
	const most = 20
	lines := bytes.SplitAfterN(output, []byte("\n"), most+1)
	return bytes.Join(lines[:min(most, len(lines))], nil)
}
