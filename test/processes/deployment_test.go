//go:build unix

package processes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// deployment is a NATS server with the configuration of deploy/nats or another one, and the
// processes that use it.
type deployment struct {
	t     *testing.T
	ctx   context.Context
	begun time.Time
	dir   string
	port  int
	conf  string
	// cluster has the ports of several NATS servers; empty if there is one.
	cluster []int
}

// age is the time for which the deployment has existed, in seconds.
func (d *deployment) age() float64 { return time.Since(d.begun).Seconds() }

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	buildOnce(t)
	port := testkit.FreePorts(t, 1)[0] // the services start before NATS and need its port
	return &deployment{t: t, ctx: testkit.Context(t), begun: time.Now(), dir: t.TempDir(), port: port, conf: filepath.Join(module, "deploy/nats/coppice.conf")}
}

// in returns the deployment for a subtest.
func (d *deployment) in(t *testing.T) *deployment {
	t.Helper()
	return &deployment{t: t, ctx: testkit.Context(t), begun: d.begun, dir: d.dir, port: d.port, conf: d.conf}
}

// url returns the addresses of the NATS servers.
func (d *deployment) url() string {
	var list []string
	for _, port := range append([]int{d.port}, d.cluster...) {
		list = append(list, "nats://127.0.0.1:"+strconv.Itoa(port))
	}
	return strings.Join(list, ",")
}

func password(role string) string { return "secret-of-" + role }

// nats starts the server, and waits until it accepts connections. The environment has the
// passwords of deploy/nats and of other roles.
func (d *deployment) nats(others ...bus.Role) *process {
	d.t.Helper()
	// the configuration has a relative store directory
	p := start(d.t, d.ctx, d.dir, "nats-server", passwords(others), program("nats-server"), "--config", d.configuration(d.dir), "--port", strconv.Itoa(d.port))
	p.says("Server is ready")
	return p
}

// configuration writes the configuration of a NATS server into its directory.
func (d *deployment) configuration(dir string) (file string) {
	d.t.Helper()
	// On a slow machine a client may need longer than 2 s to authenticate, and longer than 10 s to
	// read what was sent.
	file, from := filepath.Join(dir, "server.conf"), d.conf
	if abs, err := filepath.Abs(from); err != nil {
		d.t.Fatal(err)
	} else if from, err = filepath.Rel(dir, abs); err != nil { // an include is relative
		d.t.Fatal(err)
	}
	must.Succeed(d.t, os.WriteFile(file, fmt.Appendf(nil, "include '%s'\nauthorization { timeout: %d }\nwrite_deadline: %q\n", from, int(testkit.Timeout.Seconds()), testkit.Timeout), 0o600))
	return file
}

// passwords returns the environment of a NATS server.
func passwords(others []bus.Role) (env []string) {
	for _, r := range append(natsconf.DefaultRoles(), others...) {
		env = append(env, natsconf.PasswordVariable(r.Name)+"="+password(r.Name))
	}
	return env
}

// command starts a command of coppice with the user of a role.
func (d *deployment) command(name, role, secret string, args ...string) *process {
	d.t.Helper()
	return start(d.t, d.ctx, d.dir, name, d.environment(secret), program("coppice"), append(args, "--server", d.url(), "--user", role)...)
}

// environment is that of a command with a password.
func (d *deployment) environment(secret string) []string {
	return []string{
		"HOME=" + d.dir, "TMPDIR=" + d.dir, "NATS_PASSWORD=" + secret, "NATS_TIMEOUT=" + testkit.Timeout.String(),
		"COPPICE_ANSWERS_USER=" + bus.RoleAnswers, "COPPICE_ANSWERS_PASSWORD=" + password(bus.RoleAnswers),
		"COPPICE_SECRET=" + string(testkit.Secrets().Format()), "COPPICE_HTTP=127.0.0.1:0",
	}
}

// service starts a service with the user of its role, which has the name of the service.
func (d *deployment) service(role string, args ...string) *service {
	d.t.Helper()
	return d.instance(role, role, args...)
}

// instance starts one of several processes of a service.
func (d *deployment) instance(name, role string, args ...string) *service {
	d.t.Helper()
	return d.command(name, role, password(role), append([]string{role}, args...)...).serving()
}

// graph starts a graph service. A busy machine does not cost it its lease, which lasts until it
// stops.
func (d *deployment) graph(args ...string) *service {
	d.t.Helper()
	return d.service(bus.RoleGraph, append([]string{"--data", filepath.Join(d.dir, "graph"), "--lease", "10m"}, args...)...)
}

// conn connects with the user of a role. handle is called with permission errors.
func (d *deployment) conn(role string, handle nats.ErrHandler) *nats.Conn {
	d.t.Helper()
	if handle == nil {
		handle = func(_ *nats.Conn, _ *nats.Subscription, err error) { d.t.Errorf("%s: %v", role, err) }
	}
	nc, err := d.connect(role, nats.ErrorHandler(handle))
	must.Succeed(d.t, err)
	d.t.Cleanup(nc.Close)
	return nc
}

func (d *deployment) connect(role string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(d.url(), append(opts, nats.UserInfo(role, password(role)), nats.CustomInboxPrefix(bus.InboxPrefix(role)),
		nats.Timeout(testkit.Timeout), nats.MaxReconnects(-1))...)
}

// application returns a client that may create and delete objects.
func (d *deployment) application() *client.Client {
	d.t.Helper()
	return client.New(d.conn(bus.RoleApplication, nil), client.WithActor(bus.RoleApplication))
}

// operator returns a client that may use every verb.
func (d *deployment) operator() *client.Client {
	d.t.Helper()
	return client.New(d.conn(bus.RoleOperator, nil), client.WithActor(bus.RoleOperator))
}

// queue returns the state of the processors' queue. It uses the administrator, because only
// the administrator and the graph service may use JetStream's API.
func (d *deployment) queue() func() *jetstream.ConsumerInfo {
	d.t.Helper()
	js, err := jetstream.New(d.conn(bus.RoleAdmin, nil))
	must.Succeed(d.t, err)
	return func() *jetstream.ConsumerInfo {
		d.t.Helper()
		c, err := js.Consumer(d.ctx, bus.WorkStream(bus.DefaultRealm), bus.DurableProcessors)
		must.Succeed(d.t, err)
		return c.CachedInfo()
	}
}

// operate runs a command of an operator. The command must succeed.
func (d *deployment) operate(args ...string) string {
	d.t.Helper()
	p := d.command(strings.Join(args, "-"), bus.RoleOperator, password(bus.RoleOperator), args...)
	if code := p.code(); code != 0 {
		d.t.Fatalf("coppice %s ended with exit code %d: %s", args, code, p.output())
	}
	return p.output()
}
