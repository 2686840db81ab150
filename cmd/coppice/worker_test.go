package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coppice-gc/coppice/internal/testkit/worker"
)

// In a script, "coppice get pods" runs in the script's worker, in the folder and with the environment that the
// script has by then, apart from TZ, which a process reads once; "exec coppice get pods" starts a process, which can have a standard input, and run in the
// background.

// program copies this test's program as coppice into a folder of the test, and returns its path.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "coppice") // no symbolic link, since bench starts its own program
	if os.Link(self, path) == nil {
		return path
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// runProgram runs a program of a script, coppice in the script's worker.
func runProgram(ts *testscript.TestScript, args []string) worker.Outcome {
	var o worker.Outcome
	if args[0] == "coppice" {
		s := ts.Value(stackKey{}).(*stack)
		env := []string{"PWD=" + ts.MkAbs(".")}
		for _, name := range s.names {
			if v := ts.Getenv(name); v != "" || s.set[name] {
				env = append(env, name+"="+v)
			}
		}
		var err error
		if s.worker == nil {
			s.worker, err = worker.Start(s.coppice, env)
			ts.Check(err)
		}
		o, err = s.worker.Do(worker.Command{Dir: ts.MkAbs("."), Env: env, Args: args[1:]})
		ts.Check(err)
	} else {
		err := ts.Exec(args[0], args[1:]...)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			o.Code = exit.ExitCode()
		} else {
			ts.Check(err)
		}
		o.Stdout, o.Stderr = []byte(ts.ReadFile("stdout")), []byte(ts.ReadFile("stderr"))
	}
	return o
}

// show makes the output of a program what stdout and stderr match next.
func show(ts *testscript.TestScript, o worker.Outcome) {
	_, err := ts.Stdout().Write(o.Stdout)
	ts.Check(err)
	_, err = ts.Stderr().Write(o.Stderr)
	ts.Check(err)
}

// variables are the names of the variables that scripts in a folder set.
func variables(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, line := range envLine.FindAllString(string(text), -1) {
			for _, set := range envSet.FindAllStringSubmatch(line, -1) {
				names = append(names, set[1])
			}
		}
	}
	return names, nil
}

var (
	envLine = regexp.MustCompile(`(?m)^env .*`)
	envSet  = regexp.MustCompile(` (\w+)=`)
)
