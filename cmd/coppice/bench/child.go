package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Child is another process of this program.
type Child struct {
	name  string
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
	err   error // when it has ended
}

// startChild starts this program with other arguments.
func startChild(args []string, env ...string) (*Child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...) //nolint:gosec // it is this program
	c := &Child{name: args[0], cmd: cmd, ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
	}()
	return c, nil
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

// has reports whether the kept output contains a text.
func (o *output) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Contains(o.b.String(), text)
}

// last returns the last lines of the output, joined to one line.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(o.b.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// freePort returns a port of the loopback interface that no process listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
