//go:build linux

package chaos_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

var losses = flag.Int("losses", 2, "how often TestPowerLoss cuts the power")

// A machine with one NATS server and all services loses power while clients send commands, again
// and again. Every acknowledged command is in the log, the state is the fold of the log, and
// the archive is complete.
//
// The machine's disk is an ext4 file system on a loop device. All processes are killed, the file
// system ends without writing anything more, and the device is copied as it is then: it has
// what was synced, and what the kernel has written meanwhile. The page cache is lost.
//
//	COPPICE_NIGHTLY=1 go test ./test/chaos -run TestPowerLoss -v -losses=20 -seed=3
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.SmallDisk)
	t.Run("synced", testPowerLosses)
	t.Run("not synced", testPowerLossUnsynced)
}

func testPowerLosses(t *testing.T) {
	t.Parallel()
	c, d := newMachine(t, false)
	for i := range *losses {
		c.work()
		c.cutPower(d)
		acknowledged := c.ledger.take() // all of them got the reply before the power was cut
		c.startAll()
		c.awake()
		c.log.mustRead(testkit.Context(t), c.nc)
		c.log.check(t, acknowledged)
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("%02d: %d commands acknowledged since the last loss are in the log, which has %d commits", i, len(acknowledged), c.log.sequence)
	}
	c.work()
	c.settle()
}

// The negative control: without sync, commands that were acknowledged are lost, the test notices
// it, and the graph service refuses to start.
func testPowerLossUnsynced(t *testing.T) {
	t.Parallel()
	c, d := newMachine(t, true)
	c.work()
	testkit.WaitFor(t, testkit.Context(t), "the file of the log's end", func() bool {
		_, err := os.Stat(c.of(bus.RoleGraph)[0].state() + ".tail")
		return err == nil
	})
	c.cutPower(d)
	must.Succeed(t, c.load.end())
	c.recorder.stop()
	acknowledged := c.ledger.take()
	c.members[0].start()
	ctx := testkit.Context(t)
	lost := 0
	c.connect()
	if err := c.log.read(ctx, c.nc); err != nil { // the stream itself may be lost
		t.Logf("the log: %v", err)
	}
	for _, k := range acknowledged {
		if _, ok := c.log.commands[k.id]; !ok {
			lost++
		}
	}
	t.Logf("%d of %d acknowledged commands are lost; the log has %d commits", lost, len(acknowledged), c.log.sequence)
	if lost == 0 {
		t.Error("nothing was lost: the test does not notice what is not synced")
	}
	g := c.of(bus.RoleGraph)[0]
	g.start()
	testkit.WaitFor(t, ctx, "the graph service to refuse the log", func() bool {
		said, _ := os.ReadFile(readyFile(g.config.Dir))
		return strings.Contains(string(said)+g.p.stderr.String(), lostCommits)
	})
}

// lostCommits is what a graph service says of a log that ends before the last commit that it has
// seen.
const lostCommits = "this graph service has seen"

// newMachine starts a NATS server and each service, as processes whose files are on one device,
// and clients. lazy leaves out the syncs of the NATS server.
func newMachine(t *testing.T, lazy bool) (*cluster, *device) {
	t.Helper()
	d := newDevice(t)
	c := &cluster{
		t: t, words: map[string]string{}, dir: filepath.Join(d.dir, "data"), log: newAuditor(t), rand: rand.New(rand.NewPCG(*seed, 29)),
	}
	for _, r := range natsconf.DefaultRoles() {
		c.words[r.Name] = "secret-of-" + r.Name
	}
	var conf strings.Builder
	must.Succeed(t, natsconf.Accounts(&conf, natsconf.DefaultRoles(), func(role string) string { return `"` + c.words[role] + `"` }))
	m := &member{Name: "n1", Dir: filepath.Join(c.dir, "n1"), Port: testkit.FreePorts(t, 1)[0], Conf: conf.String(), Lazy: lazy}
	c.members = []*node{{c: c, role: roleNATS, config: childConfig{Name: m.Name, NATS: m}}}
	c.all = append(c.all, c.members...)
	for _, role := range []string{bus.RoleGraph, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner, bus.RoleFinalizer} {
		c.all = append(c.all, &node{c: c, role: role, config: childConfig{
			Name: role, Dir: filepath.Join(c.dir, role), URL: m.url(), Passwords: c.words, Roles: []string{role},
			LeaseTTL: leaseTTL, Archive: filepath.Join(c.dir, "archive"),
		}})
	}
	c.startAll()
	c.connect()
	c.ledger = &ledger{nc: c.dial(bus.RoleOperator), actor: bus.RoleOperator}
	c.load = startLoad(c)
	c.recorder = record(t, c.dial(bus.RoleApplication), onCluster, sessionOnCluster)
	return c, d
}

func (c *cluster) startAll() {
	c.t.Helper()
	must.Succeed(c.t, os.MkdirAll(c.dir, 0o700))
	for _, n := range c.all {
		n.start()
	}
}

// work waits until the clients have got replies, and for a drawn time.
func (c *cluster) work() {
	c.t.Helper()
	before := c.load.progress()
	testkit.WaitFor(c.t, testkit.Context(c.t), "replies to all clients", func() bool { c.tend(); return c.load.since(before) })
	<-time.After(c.drawn(0, 2*time.Second)) // the time of the fault is part of what is drawn
}

// awake waits until the graph service is ready.
func (c *cluster) awake() {
	c.t.Helper()
	g := c.of(bus.RoleGraph)[0]
	testkit.WaitFor(c.t, testkit.Context(c.t), "the graph service to be ready", func() bool { c.tend(); return g.ready() })
}

// cutPower kills all processes, and cuts the power of their device.
func (c *cluster) cutPower(d *device) {
	c.t.Helper()
	for _, n := range c.all {
		n.signal(syscall.SIGKILL)
	}
	for _, n := range c.all {
		n.kill()
	}
	d.cut()
}
