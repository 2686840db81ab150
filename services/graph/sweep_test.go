package graph

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Calls about notices are no surplus of calls of finalizers: without that no sweep reads the subjects of all calls.
func TestSweepCountsNotices(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js, err := jetstream.New(testkit.Conn(t, testkit.NATS(t), bus.RoleGraph))
	must.Succeed(t, err)
	if _, err := js.CreateStream(ctx, bus.WorkConfigs(bus.DefaultRealm, 1)[1]); err != nil {
		t.Fatal(err)
	}
	publish := func(subject string) {
		t.Helper()
		if _, err := js.Publish(ctx, subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() (asked int) {
		t.Helper()
		s := callStream{js: js, realm: bus.DefaultRealm}
		must.Succeed(t, s.Sweep(ctx, 0, func(uid.UID, string) bool { asked++; return true }))
		return asked
	}
	call := func() string { return uid.New().String() }
	for range sweepSlack {
		publish(bus.Expire{Realm: bus.DefaultRealm, Plural: "configmaps", UID: call(), Name: bus.ExampleFinalizer}.Subject())
	}
	publish(bus.Finalize{Realm: bus.DefaultRealm, Plural: "configmaps", UID: call(), Finalizer: bus.ExampleFinalizer}.Subject())
	if n := sweep(); n != 0 {
		t.Errorf("%d calls are a surplus because of notices", n)
	}
	for range sweepSlack {
		publish(bus.Finalize{Realm: bus.DefaultRealm, Plural: "configmaps", UID: call(), Finalizer: bus.ExampleFinalizer}.Subject())
	}
	if n := sweep(); n != sweepSlack+1 {
		t.Errorf("%d calls are a surplus, want %d", n, sweepSlack+1)
	}
}
