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
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
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
	said := os.Stderr // which serve replaces
	if err := serve(main); err != nil {
		_, _ = fmt.Fprintln(said, err)
	}
	return 1
}

// serve runs commands until its standard input ends, which ends the process, also while a command runs.
func serve(main Main) error {
	commands, answers := make(chan Command), gob.NewEncoder(os.Stdout)
	go func() {
		for in := gob.NewDecoder(bufio.NewReader(os.Stdin)); ; {
			var c Command
			if err := in.Decode(&c); errors.Is(err, io.EOF) {
				os.Exit(0)
			} else if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			commands <- c
		}
	}()
	// Files, as a process has them: no terminal. Libraries write to os.Stderr.
	stdout, err := file()
	if err != nil {
		return err
	}
	stderr, err := file()
	if err != nil {
		return err
	}
	os.Stdout, os.Stderr = stdout, stderr
	log.SetOutput(stderr)
	for c := range commands {
		os.Clearenv()
		for _, v := range c.Env {
			name, value, _ := strings.Cut(v, "=")
			err = errors.Join(err, os.Setenv(name, value))
		}
		if err = errors.Join(err, os.Chdir(c.Dir)); err != nil {
			return err
		}
		// Not nil: cobra would take the arguments of this process instead.
		o := Outcome{Code: main(append([]string{}, c.Args...), strings.NewReader(""), stdout, stderr)}
		if o.Stdout, err = taken(stdout); err != nil {
			return err
		}
		if o.Stderr, err = taken(stderr); err != nil {
			return err
		}
		if err := answers.Encode(o); err != nil {
			return err
		}
	}
	return nil
}

// file is a file without a name.
func file() (*os.File, error) {
	f, err := os.CreateTemp("", "")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// taken empties a file, and returns what was in it.
func taken(f *os.File) ([]byte, error) {
	_, err := f.Seek(0, io.SeekStart)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return text, errors.Join(err, f.Truncate(0))
}

// limit is for one command, and only a hang reaches it: the worker then writes its goroutines, and ends.
const limit = 5 * time.Minute

// A Worker is a process that runs commands. Its methods must not be called concurrently.
type Worker struct {
	process *exec.Cmd
	in      io.WriteCloser
	send    *gob.Encoder
	answers *gob.Decoder
	stderr  bytes.Buffer // what it wrote outside of commands, a panic for example
	ended   func() error
}

// Start starts a program that calls Run.
func Start(program string, env []string) (*Worker, error) {
	w := &Worker{process: exec.Command(program, argument)}
	w.process.Env, w.process.Stderr, w.ended = env, &w.stderr, sync.OnceValue(w.process.Wait)
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
	hangs := time.AfterFunc(limit, func() { _ = w.process.Process.Signal(syscall.SIGQUIT) })
	defer hangs.Stop()
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
	if err := w.ended(); err != nil {
		return fmt.Errorf("the worker ended with %w: %s", err, w.stderr.String())
	}
	return nil
}
