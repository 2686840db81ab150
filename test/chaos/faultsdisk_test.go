//go:build unix

package chaos_test

import (
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// The sizes of the small file systems of one NATS server and of one graph service, in bytes.
// They have room for a schedule.
const (
	memberDisk = 1 << 30
	graphDisk  = 512 << 20
)

// diskFaults are the faults of a schedule that need a file system of their own.
var diskFaults = []fault{
	{"disk: full, of a NATS server", survived + "; the other servers go on, and this one after a restart", (*cluster).fillMember},
	{"disk: full, of a graph service", survived + "; the service ends with an error until there is room", (*cluster).fillGraph},
}

// diskOf returns the node with a role that has a small file system, and that.
func (c *cluster) diskOf(role string) (*node, *testkit.Disk) {
	for n, d := range c.disks {
		if n.role == role {
			return n, d
		}
	}
	c.t.Fatalf("no %s has a disk of its own", role)
	return nil, nil
}

// fillMember fills the disk of a NATS server. The clients must get replies meanwhile. A server
// keeps the write error, so it is restarted, as docs/operations.md says.
func (c *cluster) fillMember() {
	n, d := c.diskOf(roleNATS)
	free := d.Fill()
	before := c.load.progress()
	testkit.WaitFor(c.t, testkit.Context(c.t), "replies while the disk of a NATS server is full", func() bool { return c.load.since(before) })
	c.while(c.drawn(0, 3*time.Second))
	free()
	n.kill()
	n.start()
}

// fillGraph fills the disk of a graph service and kills it. It cannot start until there is room.
func (c *cluster) fillGraph() {
	n, d := c.diskOf(bus.RoleGraph)
	free := d.Fill()
	n.ends = true
	n.kill()
	n.start()
	before := c.load.progress()
	testkit.WaitFor(c.t, testkit.Context(c.t), "replies while the disk of a graph service is full", func() bool {
		c.tend()
		return c.load.since(before) && n.ended > 1
	})
	free()
}
