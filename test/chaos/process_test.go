package chaos_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// process is a child.
type process struct {
	t              *testing.T
	name           string
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr testkit.Output
	orders         int
	ended          chan struct{}
}

// start starts a child. The child ends at the end of the test at the latest.
func start(t *testing.T, c childConfig) *process {
	t.Helper()
	exe, err := os.Executable()
	must.Succeed(t, err)
	config, err := json.Marshal(c)
	must.Succeed(t, err)
	p := &process{t: t, name: c.Name, cmd: exec.Command(exe), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		if t.Failed() && c.NATS == nil { // a NATS server has many goroutines, none of them ours
			p.dump()
		}
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("process %s said:\n%s%s", p.name, p.stdout.String(), tail(p.stderr.String()))
		}
	})
	return p
}

// tail returns the end of what a process has written, and the beginning of the stacks of its
// goroutines, which have thousands of lines.
func tail(s string) string {
	const most = 10 << 10
	said, stacks, _ := strings.Cut(s, "SIGQUIT: quit")
	return said[max(0, len(said)-most):] + stacks[:min(most, len(stacks))]
}

// dump has a process that still runs write the stacks of its goroutines and end. A
// suspended process does not.
func (p *process) dump() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
	}
}

// passwords returns the passwords of the services.
func passwords(s *natsd.Server) map[string]string {
	m := map[string]string{}
	for _, role := range []string{bus.RoleGraph, bus.RoleAnswers, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner} {
		m[role] = s.Password(role)
	}
	return m
}

// arm orders the process to kill itself at a pass of a step, counted from now. It waits until
// the process has read the order: what the caller does next may reach the step at once, and
// not again.
func (p *process) arm(o order) {
	p.t.Helper()
	b, err := json.Marshal(o)
	must.Succeed(p.t, err)
	if _, err := p.stdin.Write(append(b, '\n')); err != nil {
		p.t.Fatalf("process %s: %v", p.name, err)
	}
	p.orders++
	testkit.WaitFor(p.t, testkit.Context(p.t), "process "+p.name+" to read its order", func() bool {
		return p.hasEnded() || strings.Count(p.stdout.String(), armed+"\n") >= p.orders
	})
}

// killed waits until the process has killed itself at the step of its order.
func (p *process) killed(ctx context.Context, step string) {
	p.t.Helper()
	testkit.Receive(p.t, ctx, "process "+p.name+" to be killed at "+step, p.ended)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if said := strings.ReplaceAll(strings.TrimSpace(p.stdout.String()), armed+"\n", ""); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL || said != killedAt+step {
		p.t.Fatalf("process %s: %v, and it said %q, %s", p.name, p.cmd.ProcessState, said, p.stderr.String())
	}
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop asks the process to end, and waits until it has.
func (p *process) stop(ctx context.Context) {
	p.t.Helper()
	_ = p.stdin.Close()
	testkit.Receive(p.t, ctx, "the end of process "+p.name, p.ended)
	if !p.cmd.ProcessState.Success() {
		p.t.Errorf("process %s: %v: %s", p.name, p.cmd.ProcessState, p.stderr.String())
	}
}
