//go:build unix

package chaos_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// fault is a fault that a schedule may have.
type fault struct {
	name string
	// expected is the result that the test requires. docs/reliability.md shows it.
	expected string
	// inject does the damage, waits for what must be seen meanwhile, and ends the damage.
	// Afterwards the cluster must heal: see cluster.healed.
	inject func(c *cluster)
}

const (
	survived  = "survived"
	copyNamed = survived + "; the server and the sequences are named, unless NATS repairs the copy; wiped copies are copied again"
)

// faults are the faults of a schedule.
var faults = []fault{
	{"graph: SIGKILL of the writer", survived, func(c *cluster) { c.killed(c.writer()) }},
	{"graph: SIGKILL of the standby", survived, func(c *cluster) { c.killed(c.standby()) }},
	{"graph: SIGSTOP of the writer", survived + "; another process writes meanwhile", (*cluster).suspendWriter},
	{"graph: SIGSTOP of the standby", survived, func(c *cluster) { c.suspended(c.standby()) }},
	{"processor: SIGKILL", survived, func(c *cluster) { c.killed(c.any(bus.RoleProcessor)) }},
	{"processor: SIGSTOP", survived, func(c *cluster) { c.suspended(c.any(bus.RoleProcessor)) }},
	{"finalizers: SIGKILL", survived, func(c *cluster) { c.killed(c.any(bus.RoleFinalizers)) }},
	{"finalizers: SIGSTOP", survived, func(c *cluster) { c.suspended(c.any(bus.RoleFinalizers)) }},
	{"scanner: SIGKILL", survived, func(c *cluster) { c.killed(c.any(bus.RoleScanner)) }},
	{"scanner: SIGSTOP", survived, func(c *cluster) { c.suspended(c.any(bus.RoleScanner)) }},
	{"external finalizer: SIGKILL", survived, func(c *cluster) { c.killed(c.any(bus.RoleFinalizer)) }},
	{"external finalizer: SIGSTOP", survived, func(c *cluster) { c.suspended(c.any(bus.RoleFinalizer)) }},
	{"NATS: SIGKILL of the leader of the log", survived, func(c *cluster) { c.killed(c.leader()) }},
	{"NATS: SIGKILL of a follower", survived, func(c *cluster) { c.killed(c.follower()) }},
	{"NATS: SIGSTOP of the leader of the log", survived, func(c *cluster) { c.suspended(c.leader()) }},
	{"NATS: SIGSTOP of a follower", survived, func(c *cluster) { c.suspended(c.follower()) }},
	{"NATS: SIGKILL of all servers", survived, func(c *cluster) { c.killAll(c.members) }},
	{"SIGKILL of all processes", survived, func(c *cluster) { c.killAll(c.all) }},
	{"network: partition of the writer", survived + "; another process writes meanwhile", (*cluster).partitionWriter},
	{"network: partition of the NATS server that leads the log", survived, func(c *cluster) { c.partition(c.leader()) }},
	{"network: partition of a NATS server that follows", survived, func(c *cluster) { c.partition(c.follower()) }},
	{"network: slow links between NATS servers", survived, (*cluster).slowLinks},
	{"state: directory deleted", survived + "; replayed from the log or the archive", (*cluster).deleteState},
	{"state: file changed or cut", survived + "; replayed from the log or the archive", (*cluster).damageState},
	{"log: bit flipped on a NATS server that follows", copyNamed, func(c *cluster) { c.damageCopy(c.follower()) }},
	{"log: bit flipped on the NATS server that leads", copyNamed, func(c *cluster) { c.damageCopy(c.leader()) }},
	{"log: a damaged NATS server leads while another is replaced", copyNamed, (*cluster).spreadDamage},
	{"work: stream purged", survived + "; published again", (*cluster).purgeWork},
	{"work: messages duplicated and in another order", survived, (*cluster).repeatWork},
	{"clock: the writer's set by more than 10 s", survived + "; another process writes meanwhile", (*cluster).setClock},
	{"clock: a graph service's set by less than 10 s", survived, (*cluster).shiftClock},
	{"archive: the store fails", survived + "; reported, and archived later", (*cluster).failArchive},
	{logCut, survived + "; what is cut is in the archive", (*cluster).cutLog},
	{"archive: the store returns damaged bytes", survived + "; reported, and a new replica reads the log instead", (*cluster).damageArchive},
}

// while waits until the clients have got replies, so that a fault meets a cluster at work, or
// for a time if there are none.
func (c *cluster) while(d time.Duration) {
	before := c.load.progress()
	for end := time.Now().Add(d); time.Now().Before(end) && !c.load.since(before); {
		<-time.After(10 * time.Millisecond)
	}
}

// drawn returns a time between two times.
func (c *cluster) drawn(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rand.Int64N(int64(most-least)))
}

// killed kills a process, and starts it again after a while.
func (c *cluster) killed(n *node) {
	pause := c.drawn(0, 2*time.Second)
	n.kill()
	c.while(pause)
	n.start()
}

// killAll kills processes at once, and starts all of them again.
func (c *cluster) killAll(nodes []*node) {
	for _, n := range nodes {
		n.signal(syscall.SIGKILL)
	}
	for _, n := range nodes {
		n.kill()
	}
	for _, n := range nodes {
		n.start()
	}
}

// suspended suspends a process for a while.
func (c *cluster) suspended(n *node) {
	pause := c.drawn(time.Second, 2*clusterTTL)
	n.signal(syscall.SIGSTOP)
	<-time.After(pause) // the fault is as long as the schedule says
	n.signal(syscall.SIGCONT)
}

// another waits until another process than n is the writer.
func (c *cluster) another(n *node) {
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, "another writer than "+n.String(), func() bool {
		now := c.writerNow(ctx)
		return now != nil && now != n
	})
}

func (c *cluster) suspendWriter() {
	n := c.writer()
	n.signal(syscall.SIGSTOP)
	c.another(n)
	c.while(2 * time.Second)
	n.signal(syscall.SIGCONT)
}

// cut holds all data that passes a proxy, or passes it on again. A connection that was held
// goes on where it was, as after a partition of a network, or breaks.
func (c *cluster) cut(proxies []*testkit.Proxy, hold bool, broken bool) {
	for _, p := range proxies {
		switch {
		case hold:
			p.Set(testkit.ToServer, testkit.Hold)
			p.Set(testkit.ToClient, testkit.Hold)
		case broken:
			p.Heal()
		default:
			p.Set(testkit.ToServer, testkit.Pass)
			p.Set(testkit.ToClient, testkit.Pass)
		}
	}
}

func (c *cluster) partitionWriter() {
	n, broken := c.writer(), c.rand.IntN(2) == 0
	c.cut(n.proxies, true, broken)
	c.another(n)
	c.while(2 * time.Second)
	c.cut(n.proxies, false, broken)
}

// links returns the proxies between a member and the others.
func (c *cluster) links(n *node) (list []*testkit.Proxy) {
	for pair, p := range c.routes {
		if pair[0] == n.config.Name || pair[1] == n.config.Name {
			list = append(list, p)
		}
	}
	return list
}

// partition separates a member from the others, for long enough that they elect leaders.
// Services that are connected to the member stay so.
func (c *cluster) partition(n *node) {
	pause, broken := c.drawn(2*time.Second, 12*time.Second), c.rand.IntN(2) == 0
	links := c.links(n)
	c.cut(links, true, broken)
	<-time.After(pause) // the fault is as long as the schedule says
	c.cut(links, false, broken)
}

func (c *cluster) slowLinks() {
	delay := c.drawn(5*time.Millisecond, 60*time.Millisecond)
	for _, p := range c.routes {
		p.Slow(delay)
	}
	before := c.load.progress()
	testkit.WaitFor(c.t, testkit.Context(c.t), "replies over slow links", func() bool { return c.load.since(before) })
	for _, p := range c.routes {
		p.Slow(0)
	}
}

// state returns the directory of the state of a graph service.
func (n *node) state() string { return filepath.Join(n.config.Dir, realm) }

func (c *cluster) deleteState() {
	n := c.any(bus.RoleGraph)
	n.kill()
	must.Succeed(c.t, os.RemoveAll(n.state()))
	n.start()
}

// damageState changes or cuts a file of a state after a clean stop, when everything is on disk.
func (c *cluster) damageState() {
	n := c.any(bus.RoleGraph)
	which, offset, way := c.rand.Uint32(), c.rand.Uint32(), c.rand.IntN(2)
	n.p.stop(testkit.Context(c.t))
	n.mourn()
	n.damaged = true
	files, err := os.ReadDir(n.state())
	must.Succeed(c.t, err)
	var names []string
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); ext == ".sst" || ext == ".blob" || strings.HasPrefix(f.Name(), "MANIFEST") {
			names = append(names, f.Name())
		}
	}
	if len(names) == 0 {
		c.t.Fatalf("no file of the state in %s", n.state())
	}
	name := filepath.Join(n.state(), names[int(which)%len(names)])
	b, err := os.ReadFile(name)
	if err == nil && len(b) > 0 {
		at := int(offset) % len(b)
		if way == 0 {
			b[at] ^= 1 << (offset % 8)
		} else {
			b = b[:at]
		}
		err = os.WriteFile(name, b, 0o600)
	}
	must.Succeed(c.t, err)
	c.t.Logf("%s: %s of %d bytes is changed (way %d, at %d)", n, name, len(b), way, offset)
	n.start()
}
