package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// upProcess is a `coppice up` that runs.
type upProcess struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines chan string
	wait  func() error
	// Once it is ready:
	server, address, ready, console, token string
}

// startUp starts `coppice up` with these flags, on free ports.
func startUp(ctx context.Context, t *testing.T, flags ...string) *upProcess {
	t.Helper()
	p := &upProcess{t: t, cmd: exec.CommandContext(ctx, program(t), append([]string{"up", "--port", "-1"}, flags...)...), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	out, err := p.cmd.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	p.wait = sync.OnceValue(func() error {
		<-read
		return p.cmd.Wait()
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
	})
	return p
}

var (
	healthLine  = regexp.MustCompile(`^health and metrics: http://(127\.0\.0\.1:\d+)/metrics$`)
	consoleLine = regexp.MustCompile(`^console: (http://127\.0\.0\.1:\d+)(?:/#token=(\S+))?$`)
	readyLine   = regexp.MustCompile(`^ready in \d+\.\ds: (nats://127\.0\.0\.1:\d+), realm default(?:, shop)?, data (.*) \((?:no auth: loopback only|users: .*)\)$`)
)

// awaitReady waits until it says that it is ready.
func (p *upProcess) awaitReady(ctx context.Context, data string) *upProcess {
	p.t.Helper()
	for p.ready == "" {
		line := testkit.Receive(p.t, ctx, "the line that says that it is ready", p.lines)
		if testkit.DefaultPort.MatchString(line) {
			p.t.Fatalf("a test uses a default port: %s", line)
		}
		if m := healthLine.FindStringSubmatch(line); m != nil {
			p.address = m[1]
		} else if m := consoleLine.FindStringSubmatch(line); m != nil {
			p.console, p.token = m[1], m[2]
		} else if m := readyLine.FindStringSubmatch(line); m != nil && m[2] == data {
			p.ready, p.server = line, m[1]
		} else if !testkit.SlowLine.MatchString(line) {
			p.t.Fatalf("it says %q", line)
		}
	}
	return p
}

// end sends a signal, after which it must end well.
func (p *upProcess) end(signal os.Signal) {
	p.t.Helper()
	must.Succeed(p.t, p.cmd.Process.Signal(signal))
	if err := p.wait(); err != nil {
		p.t.Errorf("after %v: %v", signal, err)
	}
	for slow := 0; len(p.lines) > 0; {
		line := <-p.lines
		if testkit.SlowLine.MatchString(line) {
			slow++
		}
		if !testkit.SlowLine.MatchString(line) || slow > 5 {
			p.t.Errorf("after %v it says %q", signal, line)
		}
	}
}

func (p *upProcess) page(ctx context.Context, path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, http.NoBody)
	must.Succeed(p.t, err)
	reply, err := http.DefaultClient.Do(r)
	must.Succeed(p.t, err)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	must.Succeed(p.t, err)
	return reply.StatusCode, string(body)
}

func (p *upProcess) configMaps() client.ResourceClient {
	p.t.Helper()
	nc, err := nats.Connect(p.server, nats.Timeout(testkit.Timeout))
	must.Succeed(p.t, err)
	p.t.Cleanup(nc.Close)
	return client.New(nc, client.WithActor("ana")).Resource(client.Resource{Plural: "configmaps"}, "shop")
}

// refusedUp runs `coppice up`, which must fail, and returns its standard error.
func refusedUp(ctx context.Context, t *testing.T, flags ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, program(t), append([]string{"up"}, flags...)...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("up %v: %v, want exit code 1; it says %q", flags, err, out)
	}
	return string(out)
}

// It prints when it is ready, and its address; any NATS client can connect; signals end
// it; and acknowledged writes are there after the next start.
func TestUp(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": "coppice_graph_revision"} {
		testkit.WaitFor(t, ctx, path+" to say "+want, func() bool {
			code, body := p.page(ctx, path)
			return code == http.StatusOK && strings.Contains(body, want)
		})
	}
	created, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "kept"}})
	must.Succeed(t, err)
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p.end(signal)
		p = startUp(ctx, t, "--data", data, "--archive", "none").awaitReady(ctx, data)
		found, err := p.configMaps().Get(ctx, "kept")
		if err != nil || found.GetMetadata().GetUid() != created.GetMetadata().GetUid() {
			t.Errorf("after %v there is %v, %v", signal, found, err)
		}
	}
	p.end(syscall.SIGTERM)
}

// Without a flag it archives into its data directory: what was deleted with its realm comes back from there.
func TestUpArchives(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data, restored := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "restored")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	run := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(ctx, program(t), args...)
		c.Env = append(os.Environ(), "NATS_URL="+p.server)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	run("realm", "create", "shop")
	file := filepath.Join(t.TempDir(), "object.yaml")
	must.Succeed(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {a: b}\n"), 0o600))
	run("apply", "-f", file, "--realm", "shop")
	uid := run("get", "configmaps/kept", "--realm", "shop", "-o", "jsonpath={.metadata.uid}")
	if got := run("realm", "describe", "shop"); !regexp.MustCompile(`(?m)^Archive: +0 B in 0 entries$`).MatchString(got) ||
		!regexp.MustCompile(`(?m)^Next cut: +when the log has 512.0 MiB$`).MatchString(got) {
		t.Errorf("the realm is described as %s", got)
	}
	run("realm", "delete", "shop", "--confirm", "shop")
	p.end(syscall.SIGTERM)
	archive := "file://" + filepath.Join(data, "archive")
	if got := run("archive", "verify", archive); !strings.Contains(got, ": 0 problems") {
		t.Errorf("the archive is verified as %s", got)
	}
	run("realm", "restore", "shop", "--from", archive, "--data", restored)
	p = startUp(ctx, t, "--data", restored, "--realm", "default", "--realm", "shop").awaitReady(ctx, restored)
	run("realm", "resume", "shop")
	if got := run("get", "configmaps/kept", "--realm", "shop", "-o", "jsonpath={.metadata.uid}"); got != uid {
		t.Errorf("the restored object has the uid %s, want %s", got, uid)
	}
	p.end(syscall.SIGTERM)
}

// A second one on the same directory, or on a taken port, fails with the reason; the
// first one is not disturbed.
func TestUpTaken(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	port := p.server[strings.LastIndexByte(p.server, ':')+1:]

	want := fmt.Sprintf("coppice: %s is in use by another 'coppice up'; end that one, or choose another directory with --data\n", data)
	if got := refusedUp(ctx, t, "--data", data, "--port", "-1"); got != want {
		t.Errorf("the same directory: %q, want %q", got, want)
	}
	got := refusedUp(ctx, t, "--data", t.TempDir(), "--port", port)
	if !strings.Contains(got, "cannot listen on 127.0.0.1:"+port) || !strings.Contains(got, "address already in use; choose another port, or end what listens there") {
		t.Errorf("the same port: %q", got)
	}
	got = refusedUp(ctx, t, "--data", t.TempDir(), "--port", "-1", "--http", p.address)
	if !strings.Contains(got, "cannot serve metrics at "+p.address) || !strings.Contains(got, "choose another address with --http") {
		t.Errorf("the same port for metrics: %q", got)
	}
	if _, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "still"}}); err != nil {
		t.Errorf("the first one: %v", err)
	}
	p.end(syscall.SIGINT)
}

func TestUpRefuses(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		flags []string
		want  string
	}{
		// Without --auth clients need no password, so it must not be reachable from outside.
		{[]string{"--host", "0.0.0.0"}, "--host 0.0.0.0 is not on the loopback interface, and 'coppice up' asks for no password; use --auth"},
		{[]string{"--host", "::"}, "--host :: is not on the loopback interface"},
		{[]string{"--data", file}, "not a directory"},
		{[]string{"--http", "8080"}, "is not an address such as 127.0.0.1:8080"},
		{[]string{"--console", "0.0.0.0:0"}, "--console 0.0.0.0:0 is not on the loopback interface; run 'coppice console' with a certificate for other machines"},
		{[]string{"--console", "9450"}, "is not an address such as 127.0.0.1:9450"},
	} {
		flags := append([]string{"--data", filepath.Join(t.TempDir(), "data"), "--port", "-1"}, c.flags...)
		if got := refusedUp(ctx, t, flags...); !strings.Contains(got, c.want) || strings.Count(got, "coppice: ") != 1 {
			t.Errorf("%v: %q, want %q", c.flags, got, c.want)
		}
	}
}
