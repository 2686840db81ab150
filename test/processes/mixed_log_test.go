//go:build unix

package processes_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// A graph service of the commit in test/mixed/LOG_BASE, at which the log format was frozen, is a replica of a
// log that this graph service writes: it follows the log live and answers reads, it replays the log into an empty state, and
// its state equals the log. This graph service continues what it writes.
func TestMixedReplicas(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes) // it builds the older version
	t.Parallel()
	older := olderOf(t, "LOG_BASE")
	d := newDeployment(t)
	d.nats()
	newer := d.graph()
	newer.ready()
	for _, role := range []string{bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner} {
		d.service(role).ready()
	}
	graph := func(name string) *service {
		s := d.older(older.coppice, name, bus.RoleGraph, bus.RoleGraph, "--data", filepath.Join(d.dir, name)).serving()
		s.ready()
		return s
	}
	standby := graph("older-follows")
	tr := d.plant(50, 4, 5)
	d.remove(tr.client, deployments, "web", "Background")
	tr.gone()
	d.remove(tr.client, deployments, "keeper", "Foreground")
	testkit.WaitFor(t, d.ctx, "the cascades", func() bool { return len(tr.left(pods, 1)) == 0 })
	late := graph("older-replays")
	verify := func(of string) {
		t.Helper()
		if out := d.operate("verify"); !strings.Contains(out, "state equals the log") {
			t.Errorf("%s: verify says %q", of, out)
		}
	}
	verify("this version")

	// The older ones take over the log of this version, one after the other, and this version takes it
	// back from them.
	newer.terminate()
	d.create(tr.client, deployments, object("older"))
	verify("the first older one")
	standby.terminate()
	d.create(tr.client, deployments, object("older-too"))
	verify("the second older one")
	again := d.graph()
	again.ready()
	late.terminate()
	d.create(tr.client, deployments, object("newer"))
	verify("this version, again")
}
