//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// logDir returns the directory of a member with its copy of the log.
func (n *node) logDir() string {
	n.c.t.Helper()
	list, err := filepath.Glob(filepath.Join(n.config.NATS.Dir, "jetstream", "*", "streams", bus.LogStream(realm)))
	if err != nil || len(list) != 1 {
		n.c.t.Fatalf("%s has %d copies of the log: %v", n, len(list), err)
	}
	return list[0]
}

// flip changes a bit of a file.
func flip(t *testing.T, file string, at int64, bit uint) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	must.Succeed(t, err)
	var b [1]byte
	if _, err = f.ReadAt(b[:], at); err == nil {
		b[0] ^= 1 << bit
		_, err = f.WriteAt(b[:], at)
	}
	if err == nil {
		err = f.Close()
	}
	must.Succeed(t, err)
}

// flipBlock kills a member, changes a bit of its copy of the log, and starts it again. If
// there are several files it is not the newest: NATS repairs that one from the other servers
// when it starts.
func (c *cluster) flipBlock(n *node) {
	which, where, bit := c.rand.Uint32(), c.rand.Float64(), uint(c.rand.IntN(8))
	n.kill()
	blocks, err := filepath.Glob(filepath.Join(n.logDir(), "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		c.t.Fatalf("%s has no messages of the log: %v", n, err)
	}
	file := blocks[int(which)%max(len(blocks)-1, 1)]
	info, err := os.Stat(file)
	must.Succeed(c.t, err)
	at := int64(where * float64(info.Size()))
	flip(c.t, file, at, bit)
	n.start()
	c.t.Logf("%s: byte %d of %d of %s (of %d) is changed", n, at, info.Size(), filepath.Base(file), len(blocks))
	c.allCurrent()
}

// allCurrent waits until each member has all messages of the log, as NATS sees it.
func (c *cluster) allCurrent() {
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, "all replicas of the log", func() bool { return c.current(ctx, bus.LogStream(realm)) })
}

// named waits until a graph service has named the copy of a member as damaged since the log
// had so many reports of it, and returns true, or until the copy is found to be complete.
func (c *cluster) named(n *node, before int) bool {
	ctx := testkit.Context(c.t)
	is := false
	testkit.WaitFor(c.t, ctx, "a report that the copy of "+n.String()+" is damaged", func() bool {
		if is = c.reports(damagedCopy(n)) > before; is {
			return true
		}
		holes, ok := c.holes(ctx, n)
		return ok && holes == ""
	})
	return is
}

func damagedCopy(n *node) string {
	return "the copy of the NATS server " + n.String() + " lacks messages"
}

// wipe removes the copy of the log from a member, which then copies it from the others.
func (c *cluster) wipe(n *node) {
	n.kill()
	must.Succeed(c.t, os.RemoveAll(n.logDir()))
	n.start()
	c.allCurrent()
}

// complete waits until the copies of all members have no holes.
func (c *cluster) complete() {
	ctx := testkit.Context(c.t)
	for _, m := range c.members {
		holes := ""
		testkit.WaitFor(c.t, ctx, "the copy of "+m.String()+" to be read", func() (ok bool) {
			holes, ok = c.holes(ctx, m)
			return ok
		})
		if holes != "" {
			c.t.Errorf("the copy of %s lacks %s", m, holes)
		}
	}
}

// holes reads the copy of the log of a member up to what the log has now, and returns the
// sequences that it lacks. It reports false if the copy cannot be read now.
func (c *cluster) holes(ctx context.Context, m *node) (list string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, testkit.Timeout/3)
	defer cancel()
	stream, err := c.js.Stream(ctx, bus.LogStream(realm))
	if err != nil {
		return "", false
	}
	last := stream.CachedInfo().State.LastSeq
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Replicas: 1, MemoryStorage: true, AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return "", false
	}
	defer func() { _ = stream.DeleteConsumer(context.WithoutCancel(ctx), consumer.CachedInfo().Name) }()
	if at := consumer.CachedInfo().Cluster; at == nil || at.Leader != m.config.Name {
		return "", false
	}
	var holes []string
	for at := uint64(0); at < last; {
		batch, err := consumer.Fetch(500, jetstream.FetchMaxWait(20*time.Second))
		if err != nil {
			return "", false
		}
		before := at
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return "", false
			}
			if s := meta.Sequence.Stream; s != at+1 {
				holes = append(holes, fmt.Sprintf("%d-%d", at+1, s-1))
			}
			at = meta.Sequence.Stream
		}
		if batch.Error() != nil || at == before {
			return "", false
		}
	}
	return strings.Join(holes, ", "), true
}

// damageCopy damages the copy of a member. It must be named, and is then wiped, unless NATS has
// repaired it.
func (c *cluster) damageCopy(n *node) {
	c.fillBlock()
	before := c.reports(damagedCopy(n))
	c.flipBlock(n)
	if c.named(n, before) {
		c.readDamaged(n)
		c.wipe(n)
		c.t.Logf("%s: named and wiped", n)
	}
	c.complete()
}

// readDamaged starts a standby without state and without archive, which reaches only the
// member whose copy is damaged. It must be ready: it gets the missing messages from the
// leader. It is started again while another member has answered its reads, which a server
// leaves to others when it has just started, until NATS has repaired the copy.
func (c *cluster) readDamaged(n *node) {
	ctx := testkit.Context(c.t)
	for _, m := range c.members {
		if m != n && c.leader() == n {
			c.lead(m)
		}
	}
	g := c.standby()
	archive, urls := g.config.Archive, g.config.URL
	g.config.Archive, g.config.URL = "", g.proxies[slices.Index(c.members, n)].URL()
	testkit.WaitFor(c.t, ctx, g.String()+" to read from the leader what the copy of "+n.String()+" lacks", func() bool {
		g.kill()
		must.Succeed(c.t, os.RemoveAll(g.state()))
		g.start()
		testkit.WaitFor(c.t, ctx, g.String()+" to be ready from a damaged copy", func() bool {
			c.tend()
			return g.ready()
		})
		if strings.Contains(g.p.stderr.String(), "read from the leader") {
			return true
		}
		holes, ok := c.holes(ctx, n)
		return ok && holes == ""
	})
	g.config.Archive, g.config.URL = archive, urls
	g.kill()
	g.start()
}

// fillBlock waits until the log has more than one file in its stream.
func (c *cluster) fillBlock() {
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, "the log to have 9 MiB", func() bool {
		info := c.info(ctx, bus.LogStream(realm))
		return info != nil && info.State.Bytes > 9<<20
	})
}

// lead has a member lead the stream of the log.
func (c *cluster) lead(n *node) {
	ctx := testkit.Context(c.t)
	testkit.WaitFor(c.t, ctx, n.String()+" to lead the log", func() bool {
		if c.leader() == n {
			return true
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, _ = c.nc.RequestWithContext(short, "$JS.API.STREAM.LEADER.STEPDOWN."+bus.LogStream(realm), fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, n.config.Name))
		return c.leader() == n
	})
}

// spreadDamage damages the copy of a member, has it lead, and then wipes another member: the
// mistake of which docs/operations.md warns. The third copy is still good, and restores both.
func (c *cluster) spreadDamage() {
	c.fillBlock()
	bad := c.follower()
	before := c.reports(damagedCopy(bad))
	c.flipBlock(bad)
	if !c.named(bad, before) {
		return
	}
	c.lead(bad)
	var others []*node
	for _, m := range c.members {
		if m != bad {
			others = append(others, m)
		}
	}
	wiped, good := others[0], others[1]
	before = c.reports(damagedCopy(wiped))
	c.wipe(wiped)
	c.lead(good)
	spread := c.named(wiped, before)
	c.t.Logf("%s was damaged and led while %s copied the log from it; that copy is damaged: %t", bad, wiped, spread)
	c.wipe(bad)
	if spread {
		c.wipe(wiped)
	}
	c.complete()
}
