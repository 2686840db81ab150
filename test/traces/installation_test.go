package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// limit is the longest time of one wait.
const limit = 2 * time.Minute

// installation is a NATS server and the services, each a process.
type installation struct {
	*testing.T
	bin, url string
}

// freeAddress returns an address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// install builds Coppice, and starts an installation. environment returns what a service has in addition.
func install(t *testing.T, environment func(service string) []string) *installation {
	t.Helper()
	i := &installation{T: t, bin: t.TempDir()}
	build := exec.Command("go", "build", "-C", "../..", "-o", i.bin+"/", "./cmd/coppice", "github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := freeAddress(t)
	i.url = "nats://" + address
	_, port, _ := net.SplitHostPort(address)
	i.start(nil, "nats-server", "-a", "127.0.0.1", "-p", port, "-js", "-sd", t.TempDir())
	for _, service := range []string{"graph", "processor", "finalizers", "scanner"} {
		address := freeAddress(t)
		args := []string{service, "--http", address}
		if service == "graph" {
			args = append(args, "--data", t.TempDir())
		}
		i.start(environment(service), "coppice", args...)
		i.coppice(nil, "", "ready", "--service", "http://"+address, "--wait", limit.String())
	}
	return i
}

// start starts a program, which is ended with the test.
func (i *installation) start(environment []string, name string, args ...string) {
	i.Helper()
	c := i.command(environment, name, args...)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil || i.Failed() {
			i.Logf("%s %v: %v\n%s", name, args, err, log.String())
		}
	})
}

func (i *installation) command(environment []string, name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(i.bin, name), args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "OTEL_") && !strings.HasPrefix(v, "COPPICE_") && !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "TRACEPARENT") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(append(c.Env, "NATS_URL="+i.url, "NATS_TIMEOUT="+limit.String()), environment...)
	return c
}

// coppice runs a command, and returns what it prints.
func (i *installation) coppice(environment []string, stdin string, args ...string) string {
	i.Helper()
	c := i.command(environment, "coppice", args...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	if err != nil {
		i.Fatalf("coppice %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// finalizer runs an external finalizer with nothing but NATS, as docs/finalizers.md describes it: it passes the trace of
// a call on with its request. It handles one call.
func (i *installation) finalizer(ctx context.Context, name string) error {
	nc, err := nats.Connect(i.url, nats.CustomInboxPrefix("_INBOX.bucket"))
	if err != nil {
		return err
	}
	defer nc.Close()
	request := func(verb, target, body string, header nats.Header) (*nats.Msg, error) {
		header.Set("Content-Type", "application/json")
		header.Set("Coppice-Request", verb)
		reply, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: "coppice.default.api.bucket." + verb + "." + target, Header: header, Data: []byte(body)})
		if err == nil && reply.Header.Get("Coppice-Reason") != "" {
			err = fmt.Errorf("%s: %s", verb, reply.Data)
		}
		return reply, err
	}
	reply, err := request("consumefinalizer", "_._._."+name, `{"protocol": 1, "process": "test"}`, nats.Header{})
	if err != nil {
		return err
	}
	var consumer struct{ Subject string }
	if err := json.Unmarshal(reply.Data, &consumer); err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, consumer.Subject, []byte(`{"batch":1,"expires":100000000000}`))
	if err != nil {
		return err
	}
	var call struct {
		Object struct {
			Metadata struct{ Name, Namespace, UID string }
		}
	}
	if err := json.Unmarshal(m.Data, &call); err != nil {
		return fmt.Errorf("%v %s: %w", m.Header, m.Data, err)
	}
	of := call.Object.Metadata
	header := nats.Header{"traceparent": m.Header["traceparent"]}
	if _, err := request("removefinalizer", "_.configmaps."+of.Namespace+"."+name,
		fmt.Sprintf(`{"protocol": 1, "objects":[{"name":%q,"preconditions":{"uid":%q}}]}`, of.Name, of.UID), header); err != nil {
		return err
	}
	return m.Respond([]byte("+ACK"))
}
