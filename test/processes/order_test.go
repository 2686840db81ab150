//go:build unix

package processes_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// Services that start before NATS, its streams and each other wait, report what they wait
// for, and become ready by themselves.
func TestProcessesAnyOrder(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	processor := d.service(bus.RoleProcessor)
	finalizers := d.service(bus.RoleFinalizers)
	scanner := d.service(bus.RoleScanner, "--interval", "1s")
	early := d.instance("processor-2", bus.RoleProcessor)
	for _, s := range []*service{processor, finalizers, scanner, early} {
		s.waiting("waiting for NATS")
	}
	early.terminate()

	server := d.nats()
	processor.says("waiting for work")
	finalizers.says("waiting for work")
	scanner.says("cannot scan yet")
	processor.waiting("waiting for the work stream")
	finalizers.waiting("waiting for the work stream")
	scanner.waiting("no graph service answers")

	graph := d.graph()
	for _, s := range []*service{graph, scanner, finalizers, processor} {
		s.ready()
	}
	tr := d.plant(4, 4, 1)
	tr.fell()
	tr.gone()

	// On a busy machine messages are delivered again when the time of their acknowledgement has passed.
	few := 10 * (1 + d.age()/bus.WorkAckWait.Seconds())
	long := 10 * d.age() // work overlaps
	for _, m := range []struct {
		s           *service
		name        string
		least, most float64
	}{
		{processor, `coppice_processor_redeliveries_total{queue="dirty",realm="default"}`, 0, few},
		{processor, `coppice_processor_messages_total{outcome="parked",queue="dirty",realm="default"}`, 0, 0},
		{processor, `coppice_processor_messages_total{outcome="done",queue="dirty",realm="default"}`, 1, 100},
		{processor, `coppice_processor_message_seconds_sum{queue="dirty",realm="default"}`, 1e-6, long},
		{finalizers, `coppice_finalizers_redeliveries_total{queue="orphan",realm="default"}`, 0, few},
		{finalizers, `coppice_finalizers_redeliveries_total{queue="finish",realm="default"}`, 0, few},
		{scanner, `coppice_scanner_walk_seconds{realm="default"}`, 1e-6, long},
		{scanner, `coppice_scanner_unknown_objects{realm="default"}`, 0, 0},
	} {
		testkit.WaitFor(t, d.ctx, m.name, func() bool { // the scanner has metrics after its first walk
			v, ok := m.s.metrics()[m.name]
			return ok && v >= m.least && v <= m.most
		})
	}

	// NATS ends, as when its host restarts, and comes back.
	server.terminate()
	services := []*service{graph, scanner, processor, finalizers}
	for _, s := range services {
		s.becomes("not connected to NATS")
	}
	server = d.nats()
	for _, s := range services {
		s.ready()
	}
	c := d.application()
	d.create(c, pods, object("again", d.create(c, deployments, object("again"))[0]))
	d.remove(c, deployments, "again", "Background")
	testkit.WaitFor(t, d.ctx, "a cascade after the restart of NATS", func() bool {
		_, err := c.Resource(pods, namespace).Get(d.ctx, "again")
		return errors.Is(err, client.ErrNotFound)
	})

	// NATS ends first: the services must not wait for it when they stop.
	server.terminate()
	for _, s := range services {
		s.terminate()
	}
}

// A service that cannot agree with the NATS server on TLS waits, and says why.
func TestProcessesTLSMismatch(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.nats()
	for _, role := range []string{bus.RoleGraph, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner} {
		args := []string{role, "--server", strings.Replace(d.url(), "nats://", "tls://", 1), "--user", role}
		if role == bus.RoleGraph {
			args = append(args, "--data", filepath.Join(d.dir, "graph"))
		}
		s := start(t, d.ctx, d.dir, "tls-"+role, d.environment(password(role)), program("coppice"), args...).serving()
		s.becomes("secure connection not available")
		s.says("secure connection not available")
		s.terminate()
	}
}

// A connection that is half open, as behind a firewall that has forgotten it, is noticed: nothing answers on it, and
// nothing closes it.
func TestHalfOpenConnection(t *testing.T) {
	nightly.Test(t, nightly.Minutes)
	d := newDeployment(t)
	server := d.nats()
	services := []*service{d.graph(), d.service(bus.RoleProcessor), d.service(bus.RoleFinalizers), d.service(bus.RoleScanner)}
	for _, s := range services {
		s.ready()
	}
	server.signal(syscall.SIGSTOP)
	begun := time.Now()
	for _, s := range services {
		s.becomes("not connected to NATS")
	}
	took := time.Since(begun)
	t.Logf("noticed after %v", took)
	if took > 30*time.Second {
		t.Errorf("a half-open connection was noticed after %v, want 30 s at most", took)
	}
	server.signal(syscall.SIGCONT)
	for _, s := range services {
		s.ready()
	}
}

// An error that waiting cannot resolve ends a service. Otherwise the service reports what
// it waits for.
func TestProcessesRefused(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.nats()
	p := d.command("wrong-password", bus.RoleProcessor, "wrong", "processor")
	if code := p.code(); code != 1 {
		t.Errorf("a wrong password: exit code %d, want 1", code)
	}
	p.says("refuses the password of the user")

	d.graph().ready()
	wrong := d.command("wrong-role", bus.RoleScanner, password(bus.RoleScanner), "processor").serving()
	wrong.says("Permissions Violation")
	wrong.waiting("waiting for the work stream")
	wrong.terminate()
}
