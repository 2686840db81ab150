// Package worker runs the commands of a program one after another in one process.
//
// A process of coppice takes 80 ms of a core until it begins, and tests run hundreds of commands.
package worker

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Main is what a program does: it returns its exit code.
type Main func(args []string, stdin io.Reader, stdout, stderr io.Writer) int

// argument has a program serve commands.
const argument = "-run-commands-from-stdin"

// A Command is what a worker runs, without a standard input.
type Command struct {
	Dir  string   // the folder it runs in
	Env  []string // its environment, as NAME=value
	Args []string // without the program's name
}

// An Outcome is what a command did.
type Outcome struct {
	Code           int
	Stdout, Stderr []byte
}

// Run is the program of a worker: with the argument that Start gives it, it runs the commands that Start's
// Worker sends it; otherwise it runs main. It returns the exit code.
func Run(main Main) int {
	if !slices.Equal(os.Args[1:], []string{argument}) {
		return main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	in, out := gob.NewDecoder(bufio.NewReader(os.Stdin)), gob.NewEncoder(os.Stdout)
	for {
		var c Command
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
		code := main(c.Args, strings.NewReader(""), &stdout, &stderr)
		if err := out.Encode(Outcome{code, stdout.Bytes(), stderr.Bytes()}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// A Worker is a process that runs commands. Its methods must not be called concurrently.
type Worker struct {
	process *exec.Cmd
	in      io.WriteCloser
	send    *gob.Encoder
	answers *gob.Decoder
	stderr  bytes.Buffer // what it wrote in addition to its answers, a panic for example
}

// Start starts a program that calls Run.
func Start(program string, env []string) (*Worker, error) {
	w := &Worker{process: exec.Command(program, argument)}
	w.process.Env, w.process.Stderr = env, &w.stderr
	in, err := w.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.send, w.answers = in, gob.NewEncoder(in), gob.NewDecoder(bufio.NewReader(out))
	return w, w.process.Start()
}

// Do runs a command. An error says that the worker has ended.
func (w *Worker) Do(c Command) (Outcome, error) {
	var o Outcome
	err := w.send.Encode(c)
	if err == nil {
		err = w.answers.Decode(&o)
	}
	if err != nil {
		return o, fmt.Errorf("the worker does not answer %q: %w (%w)", c.Args, err, w.Stop())
	}
	return o, nil
}

// Stop ends the worker. An error has what it wrote.
func (w *Worker) Stop() error {
	_ = w.in.Close()
	if err := w.process.Wait(); err != nil {
		return fmt.Errorf("the worker ended with %w: %s", err, w.stderr.String())
	}
	return nil
}
