package main

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// A script has some twenty commands, and a process of coppice takes 80 ms of a core until it begins. A worker is a
// process that runs the commands of one script one after another, each in the folder and with the environment that
// the script has by then: what the script says without exec. A line with exec starts a process, as testscript does.

// workerArg is the argument of a worker.
const workerArg = "-run-commands-from-stdin"

// command is what a script asks of its worker.
type command struct {
	Dir  string
	Env  []string // NAME=value
	Args []string
}

// ended is the worker's answer.
type ended struct {
	Code           int
	Stdout, Stderr []byte
}

// coppiceMain is the program coppice of scripts.
func coppiceMain(args []string) int {
	if slices.Equal(args, []string{workerArg}) {
		return workerMain()
	}
	return Main(args, os.Stdin, os.Stdout, os.Stderr)
}

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

// workerMain runs the commands that it reads from its standard input, until that ends.
func workerMain() int {
	in, out := gob.NewDecoder(bufio.NewReader(os.Stdin)), gob.NewEncoder(os.Stdout)
	for {
		var c command
		err := in.Decode(&c)
		if errors.Is(err, io.EOF) {
			return 0
		}
		os.Clearenv()
		for _, v := range c.Env {
			name, value, _ := strings.Cut(v, "=")
			err = errors.Join(err, os.Setenv(name, value))
		}
		if err = errors.Join(err, os.Chdir(c.Dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		var stdout, stderr bytes.Buffer
		code := Main(c.Args, strings.NewReader(""), &stdout, &stderr)
		if err := out.Encode(ended{code, stdout.Bytes(), stderr.Bytes()}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// worker is the test's side of a worker.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	send   *gob.Encoder
	answer *gob.Decoder
	stderr bytes.Buffer // what it wrote in addition to its answers, a panic for example
}

func startWorker(program string, env []string) (*worker, error) {
	w := &worker{cmd: exec.Command(program, workerArg)}
	w.cmd.Env, w.cmd.Stderr = env, &w.stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.send, w.answer = in, gob.NewEncoder(in), gob.NewDecoder(bufio.NewReader(out))
	return w, w.cmd.Start()
}

func (w *worker) run(c command) (ended, error) {
	var o ended
	err := w.send.Encode(c)
	if err == nil {
		err = w.answer.Decode(&o)
	}
	if err != nil {
		return o, fmt.Errorf("the worker does not answer: %w; it ended with %w, and wrote %q", err, w.stop(), w.stderr.String())
	}
	return o, nil
}

func (w *worker) stop() error {
	_ = w.in.Close()
	return w.cmd.Wait()
}

func (s *stack) endWorker() error {
	if s.worker == nil {
		return nil
	}
	w := s.worker
	s.worker = nil
	if err := w.stop(); err != nil {
		return fmt.Errorf("%w: %s", err, w.stderr.String())
	}
	return nil
}

// runProgram runs a program of a script, coppice in the script's worker.
func runProgram(ts *testscript.TestScript, args []string) ended {
	var o ended
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
			s.worker, err = startWorker(s.coppice, env)
			ts.Check(err)
		}
		o, err = s.worker.run(command{Dir: ts.MkAbs("."), Env: env, Args: args[1:]})
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
func (o ended) show(ts *testscript.TestScript) {
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
