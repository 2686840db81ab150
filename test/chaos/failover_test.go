//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var failovers = flag.Int("failovers", 1, "how often TestNATSFailover kills the NATS server that leads the log")

// The NATS server that leads the log is killed. The others elect another leader, and commands are
// acknowledged again; none that was acknowledged is missing in the log. The test logs the times.
//
//	COPPICE_NIGHTLY=1 go test ./test/chaos -run TestNATSFailover -v -failovers=10
func TestNATSFailover(t *testing.T) {
	nightly.Test(t, nightly.Minutes)
	c := newCluster(t, *seed)
	c.healed()
	for i := range *failovers {
		leader := c.leader()
		others := slices.DeleteFunc(slices.Clone(c.members), func(n *node) bool { return n == leader })
		log, leases := c.dialMember(others[0]), c.dialMember(others[1])
		limited, cancel := context.WithTimeout(testkit.Context(t), testkit.Timeout)
		defer cancel()
		killed := time.Now()
		leader.kill()
		g, ctx := errgroup.WithContext(limited)
		var elected, elsewhere, acknowledged time.Duration
		g.Go(func() error {
			err := awaitLeader(ctx, log, bus.LogStream(realm), leader.config.Name)
			elected = time.Since(killed)
			return err
		})
		g.Go(func() error {
			err := awaitLeader(ctx, leases, "KV_"+bus.WriterBucket, leader.config.Name)
			elsewhere = time.Since(killed)
			return err
		})
		g.Go(func() error {
			o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprint("failover-", i)}}
			_, err := c.ledger.do(ctx, creation(configMaps, "failover", o))
			acknowledged = time.Since(killed)
			return err
		})
		must.Succeed(t, g.Wait())
		t.Logf("kill %d of %s: another NATS server led the log after %.2f s, and the bucket of leases after %.2f s; the first command sent after the kill was acknowledged after %.2f s",
			i+1, leader, elected.Seconds(), elsewhere.Seconds(), acknowledged.Seconds())
		leader.start()
		c.healed()
	}
	c.settle()
}

// dialMember connects with one NATS server, as the role admin.
func (c *cluster) dialMember(n *node) *nats.Conn {
	c.t.Helper()
	nc, err := nats.Connect(n.config.NATS.url(), nats.UserInfo(bus.RoleAdmin, c.words[bus.RoleAdmin]), nats.CustomInboxPrefix(bus.InboxPrefix(bus.RoleAdmin)), nats.Timeout(testkit.Timeout))
	must.Succeed(c.t, err)
	c.t.Cleanup(nc.Close)
	return nc
}

// awaitLeader waits until a NATS server other than the killed one says that it leads a stream. It asks
// every 10 ms, since a server that does not lead may not answer.
func awaitLeader(ctx context.Context, nc *nats.Conn, stream, killed string) error {
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for ctx.Err() == nil {
		if err := nc.PublishRequest("$JS.API.STREAM.INFO."+stream, inbox, nil); err != nil {
			return err
		}
		m, err := sub.NextMsg(10 * time.Millisecond)
		if err != nil {
			continue
		}
		var info struct {
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		}
		if err := json.Unmarshal(m.Data, &info); err != nil {
			return err
		}
		if leader := info.Cluster.Leader; leader != "" && leader != killed {
			return nil
		}
	}
	return ctx.Err()
}
