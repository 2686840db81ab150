//go:build unix

package processes_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// The output of `coppice nats-config` is a complete configuration. A benchmark runs against
// it with the user of --bench, and two reloads add an actor while all services run.
func TestProcessesConfig(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.conf = filepath.Join(d.dir, "nats.conf")
	d.configure("", "--bench")
	bench := bus.BenchRole(bus.AnyRealm)
	server := d.nats(bench)
	services := []*service{d.graph(), d.service(bus.RoleScanner), d.service(bus.RoleFinalizers), d.service(bus.RoleProcessor)}
	for _, s := range services {
		s.ready()
	}
	p := d.command("bench-cascade", bench.Name, password(bench.Name), "bench", "cascade", "--objects", "1100", "--output", "json")
	if code := p.code(); code != 0 || !strings.Contains(p.output(), `"objects":1100,`) {
		t.Errorf("the benchmark ended with exit code %d: %s", code, p.output())
	}

	// The environment of a running server does not change, so a file has the password.
	const shop = "shop"
	secrets := natsconf.PasswordVariable(shop) + ": \"" + password(shop) + "\"\n"
	must.Succeed(t, os.WriteFile(filepath.Join(d.dir, "passwords.conf"), []byte(secrets), 0o600))
	d.configure("include ./passwords.conf\n", "--bench", "--application", bus.RoleApplication, "--application", shop)
	const reloaded = "Reloaded server configuration"
	for i := range 2 {
		server.signal(syscall.SIGHUP)
		testkit.WaitFor(t, d.ctx, "the server to reload", func() bool { return strings.Count(server.output(), reloaded) == i+1 })
	}
	c := client.New(d.conn(shop, nil), client.WithActor(shop))
	d.create(c, pods, object("web"))
	d.remove(c, pods, "web", "Background")

	for _, s := range services {
		s.terminate()
	}
	server.terminate()
}

// configure writes some text and the output of nats-config with these flags to a file.
func (d *deployment) configure(before string, flags ...string) {
	d.t.Helper()
	p := start(d.t, d.ctx, d.dir, "nats-config", []string{"HOME=" + d.dir}, program("coppice"), append([]string{"nats-config"}, flags...)...)
	if code := p.code(); code != 0 {
		d.t.Fatalf("coppice nats-config ended with exit code %d: %s", code, p.output())
	}
	must.Succeed(d.t, os.WriteFile(d.conf, []byte(before+p.output()), 0o600))
}
