package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/worker"
)

// In a script, "coppice get pods" runs in the script's worker, in the folder and with the environment that the
// script has by then, apart from TZ, which a process reads once. "exec coppice get pods" starts a process, which can
// have a standard input, and run in the background.

// program copies this test's program as coppice into a folder of the test, and returns its path.
func program(tb testing.TB) string {
	tb.Helper()
	self, err := os.Executable()
	must.Succeed(tb, err)
	path := filepath.Join(tb.TempDir(), "coppice") // no symbolic link, since bench starts its own program
	if os.Link(self, path) == nil {
		return path
	}
	text, err := os.ReadFile(self)
	must.Succeed(tb, err)
	must.Succeed(tb, os.WriteFile(path, text, 0o700))
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

// coppice runs a command in the script's worker: [!] coppice get pods.
func coppice(ts *testscript.TestScript, neg bool, args []string) {
	o := runProgram(ts, append([]string{"coppice"}, args...))
	show(ts, o)
	switch {
	case neg && o.Code == 0:
		ts.Fatalf("it succeeded")
	case !neg && o.Code != 0:
		ts.Fatalf("exit code %d", o.Code)
	}
}

// exits runs a program and checks its exit code: exits 2 coppice get.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	o := runProgram(ts, args[1:])
	show(ts, o)
	if o.Code != want {
		ts.Fatalf("exit code %d, want %d", o.Code, want)
	}
}

// await runs a program again and again until its standard output matches, or,
// negated, matches no more: await 'Terminating' coppice get pods.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] await pattern program [args...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.Now().Add(testkit.Timeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		o := runProgram(ts, args[1:])
		if o.Code == 0 && pattern.Match(o.Stdout) != neg {
			show(ts, o)
			return
		}
		if time.Now().After(deadline) {
			show(ts, o)
			ts.Fatalf("in vain; the last time it ended with exit code %d", o.Code)
		}
		<-tick.C
	}
}

// limited runs a program with a time limit, which takes the place of LIMIT in the arguments. Its exit
// code and its output, in which LIMIT is the limit too, must match. A slow machine may need longer
// until the program has said so: limited tries longer limits, up to testkit.Timeout:
// limited 1 'not idle after LIMIT' coppice wait --idle --timeout=LIMIT.
func limited(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: limited code pattern program [args...]")
	}
	for limit := time.Second; ; limit = min(2*limit, testkit.Timeout) {
		with := make([]string, len(args))
		for i, a := range args {
			with[i] = strings.ReplaceAll(a, "LIMIT", limit.String())
		}
		pattern, err := regexp.Compile("(?m)" + with[1])
		ts.Check(err)
		o := runProgram(ts, with[2:])
		if fmt.Sprint(o.Code) == with[0] && (pattern.Match(o.Stdout) || pattern.Match(o.Stderr)) {
			show(ts, o)
			return
		}
		if limit == testkit.Timeout {
			show(ts, o)
			ts.Fatalf("in vain; the last time it ended with exit code %d", o.Code)
		}
	}
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
