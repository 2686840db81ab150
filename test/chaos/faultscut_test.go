//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

const logCut = "log: cut"

// leastRetained is the least size of a retention of the log.
const leastRetained = "1MiB"

// cutLog sets the retention of the log, and kills graph services until commits were cut. Then a
// standby starts without a state. Commits of the last minutes are never cut, so this takes
// minutes. It is the last fault of a schedule, because others need a log from its beginning.
func (c *cluster) cutLog() {
	ctx := testkit.Context(c.t)
	settings := &client.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &client.ObjectMeta{Name: "settings"},
		Spec: fmt.Appendf(nil, `{"logRetention":%q}`, leastRetained),
	}
	realms := c.operator().Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "")
	testkit.WaitFor(c.t, ctx, "a retention of the log", func() bool {
		_, err := realms.Apply(ctx, settings)
		return err == nil
	})
	killed := time.Now()
	cutting, cancel := context.WithTimeout(c.t.Context(), cutTime) // longer than testkit.Timeout
	defer cancel()
	if err := poll.Until(cutting, func() (bool, error) {
		if time.Since(killed) > killPause {
			c.killed(c.any(bus.RoleGraph))
			killed = time.Now()
		}
		if c.tend(); c.log.read(cutting, c.nc) != nil {
			return false, nil //nolint:nilerr // the log cannot be read now
		}
		first, err := c.firstOfLog(cutting)
		return err == nil && first > 1, nil
	}); err != nil {
		c.t.Fatalf("waited in vain for a cut of the log: %v", err)
	}
	n := c.standby()
	n.kill()
	must.Succeed(c.t, os.RemoveAll(n.state()))
	n.start()
}

const (
	// cutTime is the maximum time until the log is cut, and killPause the time between two
	// kills of a graph service meanwhile.
	cutTime   = 8*time.Minute + testkit.Timeout
	killPause = 40 * time.Second
)

// firstOfLog returns the sequence of the first message that the log has.
func (c *cluster) firstOfLog(ctx context.Context) (uint64, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.FirstSeq, nil
}

// checkHistory reads all commits from the log and, if it was cut, from the archive. Each commit,
// and each command that the auditor has seen, must be there.
func (c *cluster) checkHistory(ctx context.Context) {
	t := c.t
	t.Helper()
	commits, commands := uint64(0), map[uuid.UUID]bool{}
	for commit, err := range c.operator().Log().Read(ctx, client.FromSequence(1)) {
		if err != nil {
			t.Fatalf("after %d commits of the log and the archive: %v", commits, err)
		}
		if commits++; commit.GetSequence() != commits {
			t.Fatalf("commit %d of the log and the archive follows commit %d", commit.GetSequence(), commits-1)
		}
		for _, k := range commit.GetCommands() {
			if id, err := uuid.FromBytes(k.GetId()); err == nil {
				commands[id] = true
			}
		}
	}
	if commits < c.log.sequence {
		t.Errorf("the log and the archive have %d commits, and the log had %d", commits, c.log.sequence)
	}
	for id := range c.log.commands {
		if !commands[id] {
			t.Errorf("command %s is neither in the log nor in the archive", id)
		}
	}
	first, err := c.firstOfLog(ctx)
	must.Succeed(t, err)
	t.Logf("the log begins at %d; all %d commits are in it or in the archive", first, commits)
}
