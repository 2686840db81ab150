package chaos_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// steps are the places at which a process is killed. The first needs a new cascade; the
// others continue it.
var steps = []string{
	propagator.FailScan, writer.FailDecided, writer.FailOutcome, writer.FailAppended, writer.FailApplied, propagator.FailPublished,
}

// passes is the maximum number of passes of a step before a kill. It is small enough that
// the cascade usually lasts longer.
func passes(step string) int {
	switch step {
	case propagator.FailScan:
		return 1 // one page of edges in forestObjects
	case propagator.FailPublished:
		return 2
	}
	return 6
}

// L8: a cascade ends as it would have ended without a kill, if a process is killed with SIGKILL
// at any point of it and started again. Every acknowledged command is in the log, no garbage is
// left, no object with a solid owner was removed, and the state is the fold of the log.
func TestCrash(t *testing.T) {
	t.Parallel()
	together := max(1, *kills/8)
	for i, left := 0, *kills-together; left > 0; i++ {
		n := min(left, killsOfWorld)
		t.Run(fmt.Sprintf("services %d", i), func(t *testing.T) {
			t.Parallel()
			crashServices(t, i, n)
		})
		left -= n
	}
	t.Run("all in one", func(t *testing.T) {
		t.Parallel()
		crashAllInOne(t, together)
	})
}

// killsOfWorld is the number of kills in one realm. With more kills, processes would read a
// longer log at each start.
const killsOfWorld = 12

// leaseTTL is short because a restarted process waits for the lease of the killed one.
const leaseTTL = time.Second

// crashServices kills services, but not their NATS server.
func crashServices(t *testing.T, i, kills int) {
	t.Helper()
	server := testkit.NATS(t)
	w := newWorld(t, i, server.URL(), nats.UserInfo(bus.RoleOperator, server.Password(bus.RoleOperator)), nats.CustomInboxPrefix(bus.InboxPrefix(bus.RoleOperator)))
	w.child = childConfig{Name: "services", Dir: t.TempDir(), URL: server.URL(), Passwords: passwords(server), LeaseTTL: leaseTTL}
	reader := testkit.Conn(t, server, bus.RoleGraph)
	w.look = func(ctx context.Context) { w.log.mustRead(ctx, reader) }
	w.run(kills)
}

// crashAllInOne kills the NATS server together with the services. It would show an
// acknowledgement before the write, but not one before the sync, because the page cache
// survives the kill of a process.
func crashAllInOne(t *testing.T, kills int) {
	t.Helper()
	c := childConfig{Name: "all in one", Dir: t.TempDir(), Port: testkit.FreePorts(t, 1)[0], LeaseTTL: leaseTTL}
	server := openFiles(t, c.Dir, c.Port)
	w := newWorld(t, 0, server.URL()) // the client learns the properties of the server with its first connection
	must.Succeed(t, server.Shutdown())
	w.child, w.look = c, w.readFiles
	w.run(kills)
}

// openFiles starts a NATS server on the files of the server of an all-in-one process.
func openFiles(t *testing.T, dir string, port int) *natsd.Server {
	t.Helper()
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(dir, "nats"), Port: port, Roles: []bus.Role{bus.GraphRole(realm), bus.LocalRole(realm)}})
	must.Succeed(t, err)
	return server
}

// readFiles has the auditor read the log of a killed server from its files.
func (w *world) readFiles(ctx context.Context) {
	t := w.log.t
	t.Helper()
	server := openFiles(t, w.child.Dir, 0)
	nc, err := nats.Connect(server.URL(), append(server.Options(bus.RoleGraph), nats.Timeout(testkit.Timeout))...)
	must.Succeed(t, err)
	w.log.mustRead(ctx, nc)
	nc.Close()
	must.Succeed(t, server.Shutdown())
}
