//go:build unix

package chaos_test

import (
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// purgeWork removes all queued work and calls, while there are some.
func (c *cluster) purgeWork() {
	ctx := testkit.Context(c.t)
	for range 5 {
		c.while(200 * time.Millisecond)
		for _, stream := range []string{bus.WorkStream(realm), bus.FinalizeStream(realm)} {
			testkit.WaitFor(c.t, ctx, "a purge of "+stream, func() bool {
				ctx, cancel := testkit.Attempt(ctx)
				defer cancel()
				s, err := c.js.Stream(ctx, stream)
				return err == nil && s.Purge(ctx) == nil
			})
		}
	}
}

// repeatWork publishes the messages of work and calls again, three times, in another order.
func (c *cluster) repeatWork() {
	ctx := testkit.Context(c.t)
	var mu sync.Mutex
	var seen []*nats.Msg
	for _, subject := range []string{bus.WorkSubject(realm, ">"), bus.FinalizeFilter(realm, bus.ExampleFinalizer)} {
		sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			again := nats.NewMsg(m.Subject)
			again.Data = m.Data
			for k, v := range m.Header {
				if k != nats.MsgIdHdr {
					again.Header[k] = v
				}
			}
			seen = append(seen, again)
		})
		must.Succeed(c.t, err)
		defer func() { _ = sub.Unsubscribe() }()
	}
	testkit.WaitFor(c.t, ctx, "messages of work", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) >= 100
	})
	mu.Lock()
	list := append(append(append([]*nats.Msg(nil), seen...), seen...), seen...)
	mu.Unlock()
	c.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, m := range list {
		if err := c.nc.PublishMsg(m); err != nil {
			c.t.Logf("a repeated message is not sent: %v", err)
		}
	}
}

// setClock sets the clock of the writer by more than it may differ from the NATS server's.
func (c *cluster) setClock() {
	by := c.drawn(15*time.Second, 4*time.Hour)
	if c.rand.IntN(2) == 0 {
		by = -by
	}
	n := c.writer()
	n.order(order{Clock: by})
	c.another(n)
	c.while(2 * time.Second)
	n.order(order{})
}

// shiftClock sets the clock of a graph service by less than that, forwards and backwards.
func (c *cluster) shiftClock() {
	n := c.any(bus.RoleGraph)
	for _, forwards := range []bool{true, false} {
		by := c.drawn(time.Second, 8*time.Second)
		if !forwards {
			by = -by
		}
		n.order(order{Clock: by})
		c.while(2 * time.Second)
	}
	n.order(order{})
}

// stores sets the fault of the archive for all graph services.
func (c *cluster) stores(fault string) {
	for _, n := range c.of(bus.RoleGraph) {
		n.order(order{Store: fault})
	}
}

// reports returns the number of times that graph services that run have logged a text.
func (c *cluster) reports(text string) (count int) {
	for _, n := range c.of(bus.RoleGraph) {
		count += strings.Count(n.p.stderr.String(), text)
	}
	return count
}

const unarchived = "cannot archive the log"

// failArchive has the archive fail until a graph service has reported it several times.
func (c *cluster) failArchive() {
	before := c.reports(unarchived)
	c.stores(storeFails)
	testkit.WaitFor(c.t, testkit.Context(c.t), "reports that the log is not archived", func() bool { return c.reports(unarchived) >= before+2 })
	c.stores("")
}

// damageArchive has the archive return damaged bytes, also to a standby that starts without a
// state, until a graph service has reported it.
func (c *cluster) damageArchive() {
	n := c.standby()
	before := c.reports(unarchived) - strings.Count(n.p.stderr.String(), unarchived)
	c.stores(storeDamages)
	n.kill()
	must.Succeed(c.t, os.RemoveAll(n.state()))
	n.config.Store = storeDamages
	n.start()
	n.config.Store = ""
	testkit.WaitFor(c.t, testkit.Context(c.t), n.String()+" to be ready", n.ready)
	testkit.WaitFor(c.t, testkit.Context(c.t), "a report that the archive is damaged", func() bool { return c.reports(unarchived) > before })
	c.stores("")
}
