//go:build unix

package processes_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var secrets = client.Resource{Plural: "secrets"}

// A realm is created while each service runs as a process, with the configuration of
// deploy/nats: it works from creation to cascade, and is deleted. A graph service that
// is away meanwhile, stopped or killed, deletes its state when it returns, and serves the
// realm that was created again under the same name.
func TestProcessesRealms(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*service){
		"stopped": func(s *service) { s.terminate() },
		"killed":  func(s *service) { s.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			realmOfProcesses(t, end)
		})
	}
}

// realmOfProcesses creates, uses and deletes a realm while processes run; end ends a graph
// service meanwhile.
func realmOfProcesses(t *testing.T, end func(*service)) {
	t.Helper()
	d := newDeployment(t)
	d.nats()
	first := d.instance("graph-1", bus.RoleGraph, "--data", filepath.Join(d.dir, "graph-1"))
	second := d.instance("graph-2", bus.RoleGraph, "--data", filepath.Join(d.dir, "graph-2"))
	services := []*service{first, second}
	for _, role := range []string{bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner} {
		services = append(services, d.service(role))
	}
	for _, s := range services {
		s.ready()
	}
	d.operate("realm", "create", "shop")
	d.family("shop")
	for _, s := range services {
		s.ready()
	}
	testkit.WaitFor(t, d.ctx, "the second graph service to have seen the log", func() bool {
		_, err := os.Stat(filepath.Join(d.dir, "graph-2", "shop.tail"))
		return err == nil
	})

	end(second)
	d.operate("realm", "delete", "shop", "--without-archive", "--confirm", "shop")
	testkit.WaitFor(t, d.ctx, "nothing to serve the realm that was deleted", func() bool {
		_, err := d.inRealm("shop").Resource(secrets, "a").Get(d.ctx, "owner")
		if err == nil || errors.Is(err, client.ErrNotFound) {
			t.Fatalf("a request in the realm that was deleted: %v", err)
		}
		return errors.Is(err, client.ErrServiceUnavailable)
	})
	first.gone("graph-1", "shop")
	d.operate("realm", "create", "shop")
	d.family("shop")

	second = d.instance("graph-3", bus.RoleGraph, "--data", filepath.Join(d.dir, "graph-2"))
	second.ready()
	second.says("deleting the state of the realm's former log")
	first.terminate()
	testkit.WaitFor(t, d.ctx, "the second graph service to write the realm", func() bool {
		return second.metrics()[`coppice_graph_phase{phase="writer",realm="shop"}`] == 1
	})
	d.family("shop")
}

// inRealm returns a client of an application in a realm, which does not wait for the realm.
func (d *deployment) inRealm(realm string) *client.Client {
	d.t.Helper()
	return client.New(d.conn(bus.RoleApplication, nil), client.WithActor(bus.RoleApplication), client.WithRealm(realm), client.WithRetryTimeout(testkit.Timeout/100))
}

// family creates an owner and a dependent in a realm, deletes the owner in the foreground,
// and waits until both are gone.
func (d *deployment) family(realm string) {
	d.t.Helper()
	objects := client.New(d.conn(bus.RoleApplication, nil), client.WithActor(bus.RoleApplication), client.WithRealm(realm)).Resource(secrets, "a")
	owner, err := objects.Create(d.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "owner"}})
	must.Succeed(d.t, err)
	if _, err := objects.Create(d.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: "dependent", OwnerReferences: []*coppicev1.OwnerReference{client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true))},
	}}); err != nil {
		d.t.Fatal(err)
	}
	if _, err := objects.Delete(d.ctx, "owner", client.Foreground); err != nil {
		d.t.Fatal(err)
	}
	testkit.WaitFor(d.t, d.ctx, "the cascade in realm "+realm, func() bool {
		for o, err := range objects.List(d.ctx) {
			must.Succeed(d.t, err)
			return o == nil
		}
		return true
	})
}

// gone waits until a graph service has no state of a realm.
func (s *service) gone(dir, realm string) {
	s.t.Helper()
	testkit.WaitFor(s.t, s.ctx, s.name+" to delete the state of realm "+realm, func() bool {
		_, err := os.Stat(filepath.Join(s.cmd.Dir, dir, realm))
		return errors.Is(err, os.ErrNotExist)
	})
}
