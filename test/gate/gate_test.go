package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// sources are the packages of the module that the gate runs in tests.
var sources = map[string]string{
	"good": `import "testing"
func TestGood(t *testing.T) {}`,
	"bad": `import "testing"
func TestBad(t *testing.T) { t.Run("part", func(t *testing.T) { t.Error("it is bad") }) }`,
	"once": `import ("os"; "testing")
func TestFine(t *testing.T) {}
func TestOnce(t *testing.T) { t.Run("part", func(t *testing.T) {
	if _, err := os.Stat("seen"); err != nil {
		_ = os.WriteFile("seen", nil, 0o600)
		t.Error("it fails once")
	}
}) }`,
	"exits": `import ("os"; "testing")
func TestMain(m *testing.M) {
	m.Run()
	if _, err := os.Stat("seen"); err != nil {
		_ = os.WriteFile("seen", nil, 0o600)
		os.Exit(3)
	}
}
func TestExits(t *testing.T) {}`,
	"broken": `import "testing"
func TestBroken(t *testing.T) { none() }`,
	"imports": `import ("testing"; _ "example.com/gate/none")
func TestImports(t *testing.T) {}`,
	"hangs": `import ("os"; "testing")
func TestHangs(t *testing.T) {
	f, _ := os.OpenFile("pipe", os.O_WRONLY, 0) // open until the process ends
	_, _ = f.Write([]byte{1})
	select {}
}`,
	"bad2": `import "testing"
func TestBad(t *testing.T) { t.Error() }`,
	"bad3": `import "testing"
func TestBad(t *testing.T) { t.Error() }`,
	"bad4": `import "testing"
func TestBad(t *testing.T) { t.Error() }`,
}

// module writes a module with packages, and returns its directory.
func module(t *testing.T, packages ...string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	}
	put("go.mod", "module example.com/gate\n\ngo 1.26\n")
	put("untested/untested.go", "package untested\n")
	for _, p := range packages {
		put(p+"/x_test.go", "package "+p+"\n"+sources[p]+"\n")
	}
	return dir
}

func TestGate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		packages       []string
		fails, summary string   // fails is a part of the error
		prints, lacks  []string // parts of the output
	}{
		"all pass": {
			packages: []string{"good"}, summary: "1 passed, 0 failed",
			prints: []string{"pass example.com/gate/good "}, lacks: []string{"flaky", "once more", "untested"},
		},
		"one fails": {
			packages: []string{"good", "bad"}, fails: "1 packages fail: example.com/gate/bad", summary: "1 passed, 1 failed",
			prints: []string{"it is bad", "once more, alone: example.com/gate/bad\n"}, lacks: []string{"flaky"},
		},
		"one fails once": {
			packages: []string{"good", "once"}, summary: "2 passed, 0 failed",
			prints: []string{"it fails once", "fail example.com/gate/once ", "\npass example.com/gate/once ", "\nflaky: example.com/gate/once TestOnce/part\n"},
		},
		"one fails once without a failed test": {
			packages: []string{"exits"}, summary: "1 passed, 0 failed", prints: []string{"\nflaky: example.com/gate/exits\n"},
		},
		"one does not compile": {
			packages: []string{"broken"}, fails: "example.com/gate/broken does not build", summary: "0 passed, 1 failed",
			prints: []string{"undefined: none"}, lacks: []string{"once more"},
		},
		"one imports what does not exist": {
			packages: []string{"imports"}, fails: "example.com/gate/imports does not build", summary: "0 passed, 1 failed",
			prints: []string{"example.com/gate/none"}, lacks: []string{"once more"},
		},
		"one hangs": {
			packages: []string{"hangs"}, fails: "1 packages fail: example.com/gate/hangs", summary: "0 passed, 1 failed",
			prints: []string{"test timed out after 2s", "running tests:\n\t\tTestHangs", "once more, alone: example.com/gate/hangs"},
		},
		"four fail": {
			packages: []string{"bad", "bad2", "bad3", "bad4"}, fails: "more than 3 packages fail", summary: "0 passed, 4 failed",
			lacks: []string{"once more"},
		},
		"there are no tests": {fails: "no package has tests", summary: "0 passed, 0 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := module(t, c.packages...)
			timeout := "10m" // the machine may be slow
			if name == "one hangs" {
				timeout = "2s"
			}
			var out bytes.Buffer
			err := run(t.Context(), dir, []string{
				"-results", filepath.Join(dir, "results"), "-summary", filepath.Join(dir, "summary"), "-timeout", timeout, "./...",
			}, &out)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
			for _, part := range c.prints {
				if !strings.Contains(out.String(), part) {
					t.Errorf("the output lacks %q", part)
				}
			}
			for _, part := range c.lacks {
				if strings.Contains(out.String(), part) {
					t.Errorf("the output has %q", part)
				}
			}
			if got := read(t, dir, "summary"); !strings.HasSuffix("\n"+got, "\n"+c.summary+"\n") || !strings.HasSuffix(out.String(), got) {
				t.Errorf("summary %q, want %q as the last line", got, c.summary)
			}
			if results := read(t, dir, "results"); err == nil && strings.Contains(results, `"Action":"fail"`) {
				t.Errorf("the gate passes, and its results have a failure:\n%s", results)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	must.Succeed(t, err)
	return string(b)
}

// A gate that is stopped ends the tests that run, and counts their packages as failed.
func TestGateIsStopped(t *testing.T) {
	t.Parallel()
	dir := module(t, "hangs")
	name := filepath.Join(dir, "hangs", "pipe")
	must.Succeed(t, syscall.Mkfifo(name, 0o600))
	ctx, stop := context.WithCancelCause(t.Context())
	reason := errors.New("the time is over")
	ended := make(chan error)
	go func() {
		ended <- func() error {
			pipe, err := os.Open(name) // when the test has opened it
			if err != nil {
				return err
			}
			if _, err := pipe.Read(make([]byte, 1)); err != nil {
				return err
			}
			stop(reason)
			_, err = io.Copy(io.Discard, pipe) // until the process of the test has ended
			return err
		}()
	}()
	var out bytes.Buffer
	err := run(ctx, dir, []string{"-summary", filepath.Join(dir, "summary"), "./..."}, &out)
	if !errors.Is(err, reason) {
		t.Errorf("error %v, want %v\n%s", err, reason, &out)
	}
	if got := read(t, dir, "summary"); got != "0 passed, 1 failed\n" {
		t.Errorf("summary %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A go test that ends before it has the result of each package fails the gate, whatever the second
// runs say. Packages without a result count as failed, unless the gate has ended their tests.
func TestGoTestEndsEarly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, summary, fails string }{
		"in the first run": {script: `
			echo '{"Action":"start","Package":"a"}'
			echo '{"Action":"start","Package":"b"}'
			echo '{"Action":"fail","Package":"b"}'
			exit 1`, summary: "0 passed, 2 failed\n"},
		"in a second run": {script: `
			case "$*" in
			*all)
				echo '{"Action":"fail","Package":"a"}'
				echo '{"Action":"fail","Package":"b"}'
				exit 1 ;;
			*a) exit 1 ;;
			*b) echo '{"Action":"pass","Package":"b"}' ;;
			esac`, summary: "0 passed, 2 failed\n"},
		"because the gate ends it": {script: `
			echo '{"Action":"start","Package":"a"}'
			echo '{"Action":"fail","Package":"b","FailedBuild":"b"}'
			exit 1`, summary: "0 passed, 1 failed\n", fails: "b does not build"},
		"with another exit code": {script: `
			echo '{"Action":"pass","Package":"a"}'
			echo '{"Action":"fail","Package":"b"}'
			exit 2`, summary: "1 passed, 1 failed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script := filepath.Join(dir, "go")
			must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
			var out bytes.Buffer
			g := gate{goCmd: script, dir: dir, out: &out}
			want := cmp.Or(c.fails, "go test: ")
			if err := g.run(t.Context(), []string{"all"}); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
			if g.summary() != c.summary {
				t.Errorf("summary %q, want %q", g.summary(), c.summary)
			}
		})
	}
}
