//go:build unix

package processes_test

import (
	"context"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// The types of work: how the test leaves each outstanding, which services do it, and how
// the test creates more of it.

// halfCollected is a background cascade that stops half-way: a finalizer blocks a
// ReplicaSet, and is removed while no processor runs.
func (p *purge) halfCollected() {
	processor := p.d.service(bus.RoleProcessor)
	root := p.create(deployments, object("web"))[0]
	sets := p.create(replicasets, object("first", root), blockedObject("second", root))
	p.create(pods, dependents("first", sets[0])...)
	p.create(pods, dependents("last", sets[1])...)
	p.remove(deployments, "web", "Background")
	p.gone("first")
	p.queued("coppice.default.finalize.>", 1) // so the second is terminating
	processor.terminate()
	p.queued("coppice.default.work.>", 0)

	if _, err := p.d.operator().Resource(replicasets, namespace).RemoveFinalizer(p.d.ctx, "second", bus.ExampleFinalizer, client.Note("by hand")); err != nil {
		p.d.t.Fatal(err)
	}
	p.gone("second")
	p.queued("coppice.default.work.dirty", 1)
}

func (p *purge) processor() { p.d.instance("processor-2", bus.RoleProcessor).ready() }

func (p *purge) youngerBackground() {
	root := p.create(deployments, object("younger"))[0]
	p.create(pods, dependents("younger", root)...)
	p.remove(deployments, "younger", "Background")
}

// toBeOrphaned is an owner that waits until its dependents are orphaned.
func (p *purge) toBeOrphaned() {
	root := p.create(deployments, object("last"))[0]
	p.create(pods, dependents("kept", root)...)
	p.remove(deployments, "last", "Orphan")
	p.queued("coppice.default.work.orphan", 1)
}

func (p *purge) finalizers() { p.d.service(bus.RoleFinalizers).ready() }

func (p *purge) youngerOrphan() {
	root := p.create(deployments, object("younger"))[0]
	p.create(pods, dependents("kept-too", root)...)
	p.remove(deployments, "younger", "Orphan")
}

// toBeFinished is a foreground cascade that has reached the Pods. Now the owners must be
// removed, from the bottom to the top.
func (p *purge) toBeFinished() {
	processor := p.d.service(bus.RoleProcessor)
	root := p.create(deployments, object("last"))[0]
	set := p.create(replicasets, object("last", root))[0]
	p.create(pods, dependents("first", set)...)
	p.remove(deployments, "last", "Foreground")
	p.gone("first")
	processor.terminate()
	p.queued("coppice.default.work.dirty", 0)
	p.queued("coppice.default.work.finish", 1)
}

func (p *purge) youngerForeground() {
	p.create(deployments, object("younger"))
	p.remove(deployments, "younger", "Foreground")
}

// toBeDrained is a kind that is being deleted and waits until its objects are removed.
func (p *purge) toBeDrained() {
	p.create(pods, object("last-1"), object("last-2"))
	p.withdraw("pods")
	p.queued("coppice.default.work.drain", 1)
}

// youngerKind does not remove the kind: if a kind is removed, all work is published again.
func (p *purge) youngerKind() {
	p.create(replicasets, object("younger"), object("kept"))
	if _, err := p.d.operator().Resource(replicasets, namespace).Protect(p.d.ctx, []string{"kept"}, "it keeps its kind"); err != nil {
		p.d.t.Fatal(err)
	}
	p.withdraw("replicasets.apps")
}

// withdraw deletes a kind with the user of an operator, because an application may not.
func (p *purge) withdraw(kind string) {
	p.d.t.Helper()
	if _, err := p.d.operator().Resource(client.KindsResource, "").Delete(p.d.ctx, kind); err != nil {
		p.d.t.Fatal(err)
	}
}

// toBeFinalized is an object for which an external finalizer must be called.
func (p *purge) toBeFinalized() {
	p.create(pods, blockedObject("last"))
	p.remove(pods, "last", "Background")
	p.queued("coppice.default.finalize.>", 1)
}

// externalFinalizer removes the finalizer of every object that it is called for, until the
// test ends.
func (p *purge) externalFinalizer() {
	p.d.t.Helper()
	c := client.New(p.d.conn(bus.RoleFinalizer, nil), client.WithActor(bus.RoleFinalizer))
	testkit.Run(p.d.t, func(ctx context.Context) error {
		return c.RunFinalizer(ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil })
	})
}

func (p *purge) youngerBlocked() {
	p.create(pods, blockedObject("younger"))
	p.remove(pods, "younger", "Background")
}
