//go:build unix

package processes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// process is a started process with its output.
type process struct {
	t     *testing.T
	ctx   context.Context
	name  string
	cmd   *exec.Cmd
	log   string // file
	ended chan struct{}
}

// start starts a process. If it still runs at the end of the test, it is killed.
func start(t *testing.T, ctx context.Context, dir, name string, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, ctx: ctx, name: name, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	out, err := os.Create(p.log)
	must.Succeed(t, err)
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, env, out, out
	must.Succeed(t, p.cmd.Start())
	_ = out.Close() // the process has a descriptor of its own
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the exit code
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.output())
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v: %v", p.name, s, err)
	}
}

// kill kills the process with SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	testkit.Receive(p.t, p.ctx, p.name+" to be dead", p.ended)
}

// terminate sends SIGTERM. The process must end without an error.
func (p *process) terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		p.t.Errorf("%s ended with exit code %d, want 0", p.name, code)
	}
}

// code waits until the process has ended, and returns its exit code.
func (p *process) code() int {
	p.t.Helper()
	testkit.Receive(p.t, p.ctx, "the end of "+p.name, p.ended)
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// output returns the present output of the process.
func (p *process) output() string {
	p.t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return string(b)
}

// says waits until the process has written a text.
func (p *process) says(text string) {
	p.t.Helper()
	testkit.WaitFor(p.t, p.ctx, fmt.Sprintf("%s to say %q", p.name, text), func() bool {
		ended := p.hasEnded() // check this before reading the output, so that the last output is not missed
		said := strings.Contains(p.output(), text)
		if ended && !said {
			p.t.Fatalf("%s has ended, and did not say %q: %v", p.name, text, p.cmd.ProcessState)
		}
		return said
	})
}

// service is a process that serves its health and metrics.
type service struct {
	*process
	url string
}

var metricsURL = regexp.MustCompile(`url=(http://127\.0\.0\.1:\d+)/metrics`)

// serving waits until the process has logged the address at which it serves.
func (p *process) serving() *service {
	p.t.Helper()
	p.says("health and metrics")
	testkit.WaitFor(p.t, p.ctx, p.name+" to say where it serves", func() bool { return metricsURL.MatchString(p.output()) })
	if out := p.output(); testkit.DefaultPort.MatchString(out) {
		p.t.Fatalf("a test uses a default port: %s", out)
	}
	return &service{process: p, url: metricsURL.FindStringSubmatch(p.output())[1]}
}

// get returns the reply of the service to an HTTP request.
func (s *service) get(path string) (status int, body string) {
	s.t.Helper()
	if s.hasEnded() {
		s.t.Fatalf("%s has ended: %v", s.name, s.cmd.ProcessState)
	}
	ctx, cancel := context.WithTimeout(s.ctx, testkit.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	must.Succeed(s.t, err)
	r.Close = true // no connection outlives the test
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	b, err := io.ReadAll(reply.Body)
	must.Succeed(s.t, errors.Join(err, reply.Body.Close()))
	return reply.StatusCode, string(b)
}

// waiting waits until the service is alive, not ready, and reports what it waits for.
func (s *service) waiting(what string) {
	s.t.Helper()
	s.alive()
	testkit.WaitFor(s.t, s.ctx, s.name+" to say that it is not ready: "+what, func() bool {
		status, body := s.get("/readyz")
		if status != http.StatusServiceUnavailable {
			s.t.Fatalf("%s: /readyz is %d %q, want 503 and %q", s.name, status, body, what)
		}
		return strings.Contains(body, what)
	})
}

// becomes waits until the service, which may have been ready, reports what it waits for.
func (s *service) becomes(what string) {
	s.t.Helper()
	testkit.WaitFor(s.t, s.ctx, s.name+" to be no longer ready: "+what, func() bool {
		status, body := s.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, what)
	})
	s.alive()
}

// ready waits until the service is ready.
func (s *service) ready() {
	s.t.Helper()
	testkit.WaitFor(s.t, s.ctx, s.name+" to be ready", func() bool {
		status, _ := s.get("/readyz")
		return status == http.StatusOK
	})
	s.alive()
}

func (s *service) alive() {
	s.t.Helper()
	if status, body := s.get("/healthz"); status != http.StatusOK {
		s.t.Errorf("%s: /healthz is %d %q, want 200", s.name, status, body)
	}
}

// metrics returns values by name and labels in the spelling of Prometheus' text format.
type metrics map[string]float64

func (s *service) metrics() metrics {
	s.t.Helper()
	status, body := s.get("/metrics")
	if status != http.StatusOK {
		s.t.Fatalf("%s: /metrics is %d %q", s.name, status, body)
	}
	m := metrics{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			s.t.Fatalf("%s: %q: %v", s.name, line, err)
		}
		m[line[:at]] = v
	}
	return m
}

// metric returns a metric that must exist.
func (s *service) metric(name string) float64 {
	s.t.Helper()
	v, ok := s.metrics()[name]
	if !ok {
		s.t.Errorf("%s has no metric %s", s.name, name)
	}
	return v
}
