//go:build unix

package processes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A cascade is stopped, its work messages are purged, and then all services run again. Work
// that is published afterwards is done. Only the scanner publishes the lost work again.
func TestProcessesPurge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// outstanding creates pending work whose messages no service receives.
		outstanding func(p *purge)
		// again starts the services that do the work.
		again func(p *purge)
		// younger creates and deletes an object named "younger" that needs the same work.
		younger func(p *purge)
		// scanner has the flags of the scanner.
		scanner []string
		// walked: the walk publishes the work, and not the republishing of old rows.
		walked bool
		// kept is the number of objects that remain.
		kept int
	}{
		{
			"evaluate by a walk", (*purge).halfCollected, (*purge).processor, (*purge).youngerBackground,
			[]string{"--republish-age", "1h"}, true, 0,
		},
		{"orphan", (*purge).toBeOrphaned, (*purge).finalizers, (*purge).youngerOrphan, republish, false, 200},
		{"finish", (*purge).toBeFinished, (*purge).finalizers, (*purge).youngerForeground, republish, false, 0},
		{"drain", (*purge).toBeDrained, (*purge).finalizers, (*purge).youngerKind, republish, false, 1},
		{"finalize", (*purge).toBeFinalized, (*purge).externalFinalizer, (*purge).youngerBlocked, republish, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPurge(t)
			c.outstanding(p)
			p.purge()
			c.again(p)
			c.younger(p)
			p.gone("younger")
			if len(p.left("last")) == 0 {
				t.Fatal("the work was done although it was purged")
			}
			p.queued("coppice.default.>", 0)

			s := p.d.service(bus.RoleScanner, c.scanner...)
			p.gone("last")
			p.queued("coppice.default.>", 0)
			if kept := p.left("kept"); len(kept) != c.kept {
				t.Errorf("%d are kept, want %d", len(kept), c.kept)
			}
			dirty := func() bool { return s.metrics()[`coppice_scanner_dirty_total{realm="default"}`] > 0 }
			if c.walked {
				testkit.WaitFor(t, p.d.ctx, "a walk to find dirty objects", dirty)
			} else if dirty() {
				t.Error("a walk found dirty objects")
			}
		})
	}
}

var republish = []string{"--republish-age", "50ms", "--republish-interval", "50ms"}

// purge is a realm whose work is purged. Objects whose names begin with "last" must be
// removed in the end; those with "kept" must remain.
type purge struct {
	d       *deployment
	client  *client.Client
	streams []jetstream.Stream
}

func newPurge(t *testing.T) *purge {
	t.Helper()
	d := newDeployment(t)
	d.nats()
	d.graph().ready() // a writer that loses its lease publishes its work again
	p := &purge{d: d, client: d.application()}
	js, err := jetstream.New(d.conn(bus.RoleGraph, nil))
	must.Succeed(t, err)
	for _, name := range []string{bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm)} {
		s, err := js.Stream(d.ctx, name)
		must.Succeed(t, err)
		p.streams = append(p.streams, s)
	}
	return p
}

// queued waits until this many messages with these subjects wait or are being processed.
func (p *purge) queued(subjects string, want int) {
	p.d.t.Helper()
	testkit.WaitFor(p.d.t, p.d.ctx, fmt.Sprintf("%d messages on %s", want, subjects), func() bool {
		ctx, cancel := testkit.Attempt(p.d.ctx)
		defer cancel()
		n := 0
		for _, s := range p.streams {
			info, err := s.Info(ctx, jetstream.WithSubjectFilter(subjects))
			if err != nil {
				return false
			}
			for _, messages := range info.State.Subjects {
				n += int(messages)
			}
		}
		return n == want || want > 0 && n > want // a message without a timely reply is published again
	})
}

func (p *purge) purge() {
	p.d.t.Helper()
	for _, s := range p.streams {
		must.Succeed(p.d.t, s.Purge(p.d.ctx))
	}
	p.queued("coppice.default.>", 0)
}

// left returns the names of the existing objects with a prefix.
func (p *purge) left(prefix string) (names []string) {
	p.d.t.Helper()
	for _, r := range []client.Resource{deployments, replicasets, pods} {
		for o, err := range p.client.Resource(r, namespace).List(p.d.ctx) {
			if errors.Is(err, client.ErrUnknownKind) {
				break // the kind was deleted after its last object
			}
			must.Succeed(p.d.t, err)
			if name := o.GetMetadata().GetName(); strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (p *purge) gone(prefix string) {
	p.d.t.Helper()
	testkit.WaitFor(p.d.t, p.d.ctx, "the end of what is called "+prefix, func() bool { return len(p.left(prefix)) == 0 })
}

func (p *purge) create(r client.Resource, objects ...*coppicev1.Object) []*coppicev1.Object {
	p.d.t.Helper()
	return p.d.create(p.client, r, objects...)
}

func (p *purge) remove(r client.Resource, name, policy string) {
	p.d.t.Helper()
	p.d.remove(p.client, r, name, policy)
}

// dependents returns a hundred Pods.
func dependents(prefix string, owner *coppicev1.Object) (list []*coppicev1.Object) {
	for i := range 100 {
		list = append(list, object(fmt.Sprintf("%s-%d", prefix, i), owner))
	}
	return list
}
