package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
)

// Two graph services share the realms evenly, then three, then two again. Clients
// notice nothing but a delay: each creation that was acknowledged is there.
func TestShares(t *testing.T) {
	t.Parallel()
	n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(bus.AnyRealm)})
	var realms []string
	for i := range 6 {
		realms = append(realms, fmt.Sprintf("realm-%d", i))
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	join := func(i int) *service {
		return n.serve(dirs[i], func(c *graph.Config) { c.Realms, c.LeaseTTL = realms, 10*time.Second })
	}
	shares := func(want int, services ...*service) {
		t.Helper()
		n.WaitFor(fmt.Sprintf("each of %d services to write %d realms", len(services), want), func() bool {
			for _, s := range services {
				if strings.Count(s.Status(), ": writer\n") != want {
					return false
				}
			}
			return true
		})
	}
	first, second := join(0), join(1)
	shares(3, first, second)

	writing, stop := context.WithCancel(n.Ctx)
	var wg sync.WaitGroup
	counts := make([]int, len(realms))
	clients := make([]*client.Client, len(realms))
	for i, name := range realms {
		clients[i] = n.as(bus.RoleApplication, client.WithRealm(name), client.WithTimeout(time.Second))
		wg.Go(func() {
			for writing.Err() == nil {
				// An attempt is not ended with the context, so that its outcome is known.
				if _, err := clients[i].Resource(configMaps, "a").Create(n.Ctx, configMap(fmt.Sprint("c-", counts[i]))); err != nil {
					t.Errorf("realm %s: %v", name, err)
					return
				}
				counts[i]++
			}
		})
	}
	third := join(2)
	shares(2, first, second, third)
	first.Stop()
	shares(3, second, third)
	stop()
	wg.Wait()
	for i, c := range clients {
		found := 0
		for _, err := range c.Resource(configMaps, "a").List(n.Ctx) {
			must.Succeed(t, err)
			found++
		}
		if found != counts[i] || found == 0 {
			t.Errorf("realm %s has %d objects, and %d were created", realms[i], found, counts[i])
		}
	}
}

// A realm is not deleted while a process that holds its lease is cut off and may still
// write it: the deletion waits, and names the process.
func TestDeletionWaits(t *testing.T) {
	t.Parallel()
	n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(bus.AnyRealm)})
	silent := n.connect()
	const ttl = 10 * testkit.Timeout // the lease lasts until the test ends it
	dir := t.TempDir()
	first := serve(t, silent, dir, func(c *graph.Config) { c.LeaseTTL, c.Instance = ttl, "the silent one" }).writing()
	second := n.serve(t.TempDir(), func(c *graph.Config) { c.LeaseTTL = ttl })
	n.WaitFor("the second service to stand by", func() bool { return second.Ready() == nil })
	silent.log.Close()
	silent.answers.Close()
	operator := n.as(bus.RoleOperator).Operations()
	if _, err := operator.DeleteRealm(n.Ctx, realm); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("a deletion without an archive: %v", err)
	}
	if _, err := operator.DeleteRealm(n.Ctx, realm, client.WithoutArchive(true)); err != nil {
		t.Fatal(err)
	}
	listed := func(deleted bool) *client.Realm {
		t.Helper()
		realms, err := operator.ListRealms(n.Ctx, client.IncludeDeleted(deleted))
		must.Succeed(t, err)
		if len(realms) == 0 {
			return nil
		}
		return realms[0]
	}
	n.WaitFor("the deletion to say what it waits for", func() bool {
		return strings.Contains(listed(false).GetWaiting(), "the graph service the silent one still writes the realm")
	})
	// This is what another process does when the lease of a silent one has expired.
	bucket, err := n.JS().KeyValue(n.Ctx, bus.LeaseBucket)
	must.Succeed(t, err)
	must.Succeed(t, bucket.Delete(n.Ctx, bus.MemberKey(instance(t, dir))))
	n.WaitFor("the deletion", func() bool { return listed(false) == nil })
	if r := listed(true); r.GetDeletedBy() != bus.RoleOperator || len(r.GetDeletedIds()) != 1 {
		t.Errorf("the realm is listed as %v", r)
	}
	first.Cancel()
}

// The list of realms is made again when its bucket is lost: the realms run on.
func TestListIsLost(t *testing.T) {
	t.Parallel()
	n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(bus.AnyRealm)})
	s := n.serve(t.TempDir(), nil).writing()
	operator := n.as(bus.RoleOperator).Operations()
	if _, err := operator.CreateRealm(n.Ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	shop := n.as(bus.RoleApplication, client.WithRealm("shop"))
	put(n.Ctx, t, shop, configMap("before"))
	must.Succeed(t, n.JS().DeleteKeyValue(n.Ctx, bus.RealmBucket))
	n.WaitFor("the list", func() bool {
		list, err := operator.ListRealms(n.Ctx)
		return err == nil && len(list) == 2
	})
	put(n.Ctx, t, shop, configMap("after"))
	if _, err := operator.CreateRealm(n.Ctx, "instance"); !errors.Is(err, client.ErrBadRequest) && !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a realm with the name of a file of graph services: %v", err)
	}
	if _, err := operator.ListRealms(n.Ctx, make(client.ForNames, 1001)); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("a list of 1,001 names: %v", err)
	}
	s.Stop()
}
