package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/allinone"
)

// A signal ends a command that waits for the server, or for the reply to a request.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(t *testing.T) (url string, asked <-chan struct{}){"server": silentServer, "service": silentService} {
		for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(name+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				ctx := testkit.Context(t)
				url, asked := silent(t)
				var out, said bytes.Buffer
				cmd := exec.CommandContext(ctx, program(t), "get", "pods", "--server", url, "--timeout", "1h")
				cmd.Stdout, cmd.Stderr = &out, &said
				must.Succeed(t, cmd.Start())
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				testkit.Receive(t, ctx, "the command to connect", asked)
				must.Succeed(t, cmd.Process.Signal(signal))
				err := testkit.Receive(t, ctx, "the command to end", ended)
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 1 || out.String() != "" || said.String() != "coppice: interrupted\n" {
					t.Errorf("%v, it prints %q and says %q", err, &out, &said)
				}
			})
		}
	}
}

// An interrupted command says what goes on without it: nothing if it only waits.
func TestSaysWhatGoesOn(t *testing.T) {
	t.Setenv("COPPICE_ACTOR", "")
	t.Setenv("COPPICE_REALM", "")
	ctx := testkit.Context(t)
	stack := startStack(t, allinone.Config{})
	run := func(until, stdin string, args ...string) error {
		interrupted, cancel := context.WithCancel(ctx)
		defer cancel()
		w := &interrupter{until: until, cancel: cancel}
		root := newRoot(strings.NewReader(stdin), w, w)
		root.SetArgs(append(args, "--server", stack.Server().URL()))
		return root.ExecuteContext(interrupted)
	}
	must.Succeed(t, run("nothing", "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}", "apply", "-f", "-"))
	const clash = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: one}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, uid: one}}"
	for _, c := range []struct {
		args, until, want string
	}{
		{"wait --for=delete cm held", "removed 0/1", "interrupted"},
		{"delete cm held --wait", "removed 0/1", "interrupted; the deletion goes on without this command"},
		{"import -f -", "uid one belongs to", "interrupted; some objects are imported, and missing owners count as unknown for some time: import again"},
	} {
		if err := run(c.until, clash, strings.Fields(c.args)...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
}

// silentServer accepts connections, and sends nothing.
func silentServer(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan struct{}, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			t.Cleanup(func() { _ = c.Close() })
			accepted <- struct{}{}
		}
	}()
	return "nats://" + l.Addr().String(), accepted
}

// silentService receives requests, and does not reply.
func silentService(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	server := testkit.NATS(t)
	received := make(chan struct{}, 1)
	nc := testkit.Conn(t, server, bus.RoleAnswers)
	_, err := nc.Subscribe(bus.APIPattern(bus.DefaultRealm, bus.VerbList), func(*nats.Msg) {
		select {
		case received <- struct{}{}:
		default:
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	must.Succeed(t, err)
	return server.URL(), received
}
