package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// Child is a process of the coppice program.
type Child struct {
	name  string
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
	err   error // when it has ended
}

// StartChild starts the coppice program with these arguments.
func (c Config) StartChild(args []string, env ...string) (*Child, error) {
	program, err := c.Program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...) //nolint:gosec // it is this program, or one that was built for this run
	child := &Child{name: args[0], cmd: cmd, ended: make(chan struct{})}
	cmd.Env = append(environment(), env...)
	cmd.Stdout, cmd.Stderr = &child.out, &child.out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", child.name, err)
	}
	go func() {
		defer close(child.ended)
		child.err = cmd.Wait()
	}()
	return child, nil
}

// environment is that of this process without the settings of services and connections: a benchmark sets its own.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "COPPICE_") || strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "NATS_TIMEOUT=")
	})
}

// PID returns the id of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Alive returns an error if the process has ended.
func (c *Child) Alive() error {
	select {
	case <-c.ended:
		return fmt.Errorf("%s has ended (%v): %s", c.name, c.cmd.ProcessState, c.out.last())
	default:
		return nil
	}
}

// Stop asks the process to end, and waits until it has.
func (c *Child) Stop() error {
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	<-c.ended
	if c.err != nil {
		return fmt.Errorf("%s: %w: %s", c.name, c.err, c.out.last())
	}
	return nil
}

// Kill ends the process with SIGKILL: it cannot clean up.
func (c *Child) Kill() error {
	err := c.cmd.Process.Kill()
	<-c.ended
	return err
}

// Printed reports whether the end of the process's output contains a text.
func (c *Child) Printed(text string) bool {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return strings.Contains(c.out.b.String(), text)
}

// output keeps the end of a process's output.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	const enough = 64 << 10
	if o.b.Len() > enough {
		o.b.Reset()
	}
	return o.b.Write(p)
}

// last returns the last lines of the output, joined to one line.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(o.b.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
