//go:build unix

package processes_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
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

	// NATS ends first: the services must not wait for it when they stop.
	server.terminate()
	for _, s := range []*service{graph, scanner, processor, finalizers} {
		s.terminate()
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
	p.says("refuses these credentials")

	d.graph().ready()
	wrong := d.command("wrong-role", bus.RoleScanner, password(bus.RoleScanner), "processor").serving()
	wrong.says("Permissions Violation")
	wrong.waiting("waiting for the work stream")
	wrong.terminate()
}
