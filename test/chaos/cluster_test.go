//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// clusterTTL is the lease of graph services on a cluster. It is longer than an election of
// NATS usually takes.
const clusterTTL = 3 * time.Second

// cluster is three NATS servers and the services of a realm, each a process of its own, and
// clients. Servers reach each other through proxies, and so do the services reach them.
type cluster struct {
	t       *testing.T
	members []*node
	all     []*node // the members, and the services
	// routes has the proxies from one member to another.
	routes map[[2]string]*testkit.Proxy
	words  map[string]string
	dir    string
	nc     *nats.Conn // of the role admin, not through proxies
	js     jetstream.JetStream
	load   *clusterLoad
	// recorder has histories of clients and of a watch.
	recorder *recorder
	ledger   *ledger
	log      *auditor
	rand     *rand.Rand
	// disks are small file systems with the directories of nodes. Only .ci/nightly has them, and
	// injects the faults of disks.
	disks map[*node]*testkit.Disk
}

// node is a process that is started again when it was killed.
type node struct {
	c       *cluster
	config  childConfig
	role    string // bus.RoleGraph and so on; roleNATS for a member
	p       *process
	proxies []*testkit.Proxy // of a service, to each member
	// ends is set while a fault lets the process end with an error. It is then started again,
	// as a supervisor would.
	ends  bool
	ended int // how often it has ended so
	// damaged is set when a file of the state was changed.
	damaged bool
}

const roleNATS = "nats"

func newCluster(t *testing.T, schedule uint64) *cluster {
	t.Helper()
	c := &cluster{
		t: t, routes: map[[2]string]*testkit.Proxy{}, words: map[string]string{}, dir: t.TempDir(),
		log: newAuditor(t), rand: rand.New(rand.NewPCG(schedule, 28)), disks: map[*node]*testkit.Disk{},
	}
	for _, r := range natsconf.DefaultRoles() {
		c.words[r.Name] = "secret-of-" + r.Name
	}
	c.startMembers()
	c.connect()
	for _, s := range []struct {
		role  string
		count int
	}{{bus.RoleGraph, 2}, {bus.RoleProcessor, 2}, {bus.RoleFinalizers, 1}, {bus.RoleScanner, 1}, {bus.RoleFinalizer, 1}} {
		for i := range s.count {
			c.addService(s.role, i)
		}
	}
	c.ledger = &ledger{nc: c.dial(bus.RoleOperator), actor: bus.RoleOperator}
	c.load = startLoad(c)
	c.recorder = record(t, c.dial(bus.RoleApplication), onCluster, sessionOnCluster)
	return c
}

// startMembers starts the NATS servers.
func (c *cluster) startMembers() {
	c.t.Helper()
	var conf strings.Builder
	must.Succeed(c.t, natsconf.Accounts(&conf, natsconf.DefaultRoles(), func(role string) string { return `"` + c.words[role] + `"` }))
	ports := testkit.FreePorts(c.t, 2*servers)
	for i := range servers {
		m := &member{Name: fmt.Sprint("n", i+1), Port: ports[2*i], Cluster: ports[2*i+1], Conf: conf.String()}
		m.Dir = filepath.Join(c.dir, m.Name)
		n := &node{c: c, role: roleNATS, config: childConfig{Name: m.Name, NATS: m}}
		if i == 0 && nightly.On() {
			c.disks[n] = testkit.NewDisk(c.t, memberDisk)
			m.Dir = filepath.Join(c.disks[n].Dir, "nats")
		}
		c.members = append(c.members, n)
	}
	for _, from := range c.members {
		for _, to := range c.members {
			if from != to {
				p := testkit.NewProxy(c.t, to.config.NATS.route())
				c.routes[[2]string{from.config.Name, to.config.Name}] = p
				from.config.NATS.Routes = append(from.config.NATS.Routes, p.URL())
			}
		}
	}
	for _, m := range c.members {
		m.start()
	}
	c.all = append(c.all, c.members...)
}

// urls returns the addresses of all members.
func (c *cluster) urls() string {
	var list []string
	for _, m := range c.members {
		list = append(list, m.config.NATS.url())
	}
	return strings.Join(list, ",")
}

// dial connects with a role, and waits for a member.
func (c *cluster) dial(role string) *nats.Conn {
	c.t.Helper()
	var nc *nats.Conn
	testkit.WaitFor(c.t, testkit.Context(c.t), "a NATS server", func() (ok bool) {
		var err error
		nc, err = nats.Connect(c.urls(), nats.UserInfo(role, c.words[role]), nats.CustomInboxPrefix(bus.InboxPrefix(role)),
			nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1),
			nats.Timeout(20*time.Second), nats.PingInterval(time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		return err == nil
	})
	c.t.Cleanup(nc.Close)
	return nc
}

func (c *cluster) connect() {
	c.t.Helper()
	c.nc = c.dial(bus.RoleAdmin)
	js, err := jetstream.New(c.nc)
	must.Succeed(c.t, err)
	c.js = js
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, "JetStream of the cluster", func() bool {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := js.AccountInfo(short)
		return err == nil
	})
}

// addService starts a service whose connections lead through proxies of its own.
func (c *cluster) addService(role string, i int) {
	c.t.Helper()
	n := &node{c: c, role: role}
	var urls []string
	for _, m := range c.members {
		p := testkit.NewProxy(c.t, m.config.NATS.url())
		n.proxies = append(n.proxies, p)
		urls = append(urls, p.URL())
	}
	name := fmt.Sprintf("%s-%d", role, i+1)
	n.config = childConfig{
		Name: name, Dir: filepath.Join(c.dir, name), URL: strings.Join(urls, ","), Passwords: c.words, Roles: []string{role},
		LeaseTTL: clusterTTL, Replicas: servers, Archive: filepath.Join(c.dir, "archive"),
	}
	if role == bus.RoleGraph && i == 0 && nightly.On() {
		c.disks[n] = testkit.NewDisk(c.t, graphDisk)
		n.config.Dir = filepath.Join(c.disks[n].Dir, "graph")
	}
	n.start()
	c.all = append(c.all, n)
}

func (n *node) String() string { return n.config.Name }

func (n *node) start() {
	n.c.t.Helper()
	n.p = start(n.c.t, n.config)
}

// signal sends a signal to the process.
func (n *node) signal(s syscall.Signal) {
	n.c.t.Helper()
	if err := n.p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.c.t.Fatalf("%s: %v", n, err)
	}
}

// kill kills the process, and waits until it has ended.
func (n *node) kill() {
	n.c.t.Helper()
	n.signal(syscall.SIGKILL)
	testkit.Receive(n.c.t, testkit.Context(n.c.t), "the end of "+n.String(), n.p.ended)
	n.mourn()
}

// mourn fails the test if an ended process has panicked.
func (n *node) mourn() {
	n.c.t.Helper()
	for _, sign := range []string{"panic:", "fatal error:", "DATA RACE"} {
		if strings.Contains(n.p.stderr.String(), sign) {
			n.c.t.Fatalf("%s: %s", n, n.p.stderr.String())
		}
	}
}

// ready reports whether a graph service says that it is ready.
func (n *node) ready() bool {
	said, err := os.ReadFile(readyFile(n.config.Dir))
	return err == nil && string(said) == readyOf(n.p.cmd.Process.Pid)
}

// order gives an order to the process.
func (n *node) order(o order) {
	n.c.t.Helper()
	n.p.arm(o)
}

// of returns the services of a role.
func (c *cluster) of(role string) (list []*node) {
	for _, n := range c.all {
		if n.role == role {
			list = append(list, n)
		}
	}
	return list
}

// any returns a process of a role, drawn from the schedule.
func (c *cluster) any(role string) *node {
	list := c.of(role)
	return list[c.rand.IntN(len(list))]
}

// writer waits until a graph service has the lease, and returns it.
func (c *cluster) writer() *node {
	c.t.Helper()
	var is *node
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, "a writer", func() bool {
		is = c.writerNow(ctx)
		return is != nil
	})
	return is
}

// writerNow returns the graph service that has the lease, nil if none does.
func (c *cluster) writerNow(ctx context.Context) *node {
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leases, err := c.js.KeyValue(short, bus.WriterBucket)
	if err != nil {
		return nil
	}
	name := holder(short, leases)
	for _, n := range c.of(bus.RoleGraph) {
		if n.config.Name == name {
			return n
		}
	}
	return nil
}

// standby waits until a graph service has the lease, and returns another one.
func (c *cluster) standby() *node {
	c.t.Helper()
	writer := c.writer()
	list := c.of(bus.RoleGraph)
	return list[slices.IndexFunc(list, func(n *node) bool { return n != writer })]
}

// leader waits until the stream of the log has a leader, and returns it.
func (c *cluster) leader() *node {
	c.t.Helper()
	var is *node
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, "a leader of the log", func() bool {
		info := c.info(ctx, bus.LogStream(realm))
		if info == nil || info.Cluster == nil {
			return false
		}
		i := slices.IndexFunc(c.members, func(n *node) bool { return n.config.Name == info.Cluster.Leader })
		if i >= 0 {
			is = c.members[i]
		}
		return i >= 0
	})
	return is
}

// follower returns a member that does not lead the stream of the log.
func (c *cluster) follower() *node {
	c.t.Helper()
	leader := c.leader()
	var list []*node
	for _, m := range c.members {
		if m != leader {
			list = append(list, m)
		}
	}
	return list[c.rand.IntN(len(list))]
}

// info returns the information about a stream, nil if there is none now.
func (c *cluster) info(ctx context.Context, stream string) *jetstream.StreamInfo {
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := c.js.Stream(short, stream)
	if err != nil {
		return nil
	}
	return s.CachedInfo()
}

// current reports whether each member has all messages of a stream.
func (c *cluster) current(ctx context.Context, stream string) bool {
	info := c.info(ctx, stream)
	if info == nil || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != servers-1 {
		return false
	}
	return !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
}

// tend starts processes again that were allowed to end, and fails the test if another one
// has ended.
func (c *cluster) tend() {
	c.t.Helper()
	for _, n := range c.all {
		if !n.p.hasEnded() {
			continue
		}
		n.mourn()
		if !n.ends {
			c.t.Fatalf("%s has ended: %v: %s", n, n.p.cmd.ProcessState, n.p.stderr.String())
		}
		if n.ended++; n.ended == 1 {
			c.t.Logf("%s has ended, and is started again: %s", n, lastLine(n.p.stderr.String()))
		}
		n.start()
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// healed waits until all members have all streams of the realm again, a graph service
// writes, and each client has got replies.
func (c *cluster) healed() {
	t := c.t
	t.Helper()
	ctx := testkit.Context(t)
	wait := func(what string, holds func() bool) {
		t.Helper()
		testkit.WaitFor(t, ctx, what, func() bool {
			c.tend()
			return holds()
		})
	}
	for _, stream := range []string{bus.LogStream(realm), bus.WorkStream(realm), bus.FinalizeStream(realm), "KV_" + bus.WriterBucket, "KV_" + bus.LeaseBucket} {
		wait("all replicas of stream "+stream, func() bool { return c.current(ctx, stream) })
	}
	for _, n := range c.of(bus.RoleGraph) {
		wait(n.String()+" to be ready", n.ready)
	}
	wait("a writer", func() bool { return c.writerNow(ctx) != nil })
	before := c.load.progress()
	wait("answers to all clients", func() bool { return c.load.since(before) })
	for _, n := range c.all {
		n.ends, n.ended = false, 0
	}
	acknowledged := c.ledger.take() // before the log is read, which must have them
	wait("the log to be readable", func() bool { return c.log.read(ctx, c.nc) == nil })
	c.log.check(t, acknowledged)
}

// operator returns a client of the role operator.
func (c *cluster) operator() *client.Client {
	return client.New(c.ledger.nc, client.WithActor(bus.RoleOperator), client.WithTimeout(testkit.Timeout/2))
}
