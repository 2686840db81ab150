package warn_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/warn"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A warning is said once, and again when some time has passed; another object's
// is another.
func TestSay(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	nc := testkit.Conn(t, server, bus.RoleGraph)
	said := make(chan *nats.Msg, 10)
	listener := testkit.Conn(t, server, bus.LocalUser)
	if _, err := listener.ChanSubscribe(bus.WarningFilter(bus.DefaultRealm, ""), said); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, listener.Flush())
	now := lifecycletest.Start.Time()
	w := warn.New(nc, bus.DefaultRealm, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	realm := lifecycletest.New()
	object := func(name string) *lifecycle.Node {
		return &lifecycle.Node{UID: realm.UIDs()[0], APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name, Finalizers: []string{"example.com/x"}, DeletionTime: 1}
	}
	asked := 0
	state := func(finalizer string) string {
		asked++
		return "state of " + finalizer
	}
	w.Stuck(realm, object("a"), lifecycle.TimeOf(now.Add(-time.Hour)), state)
	w.Stuck(realm, object("a"), lifecycle.TimeOf(now.Add(-time.Hour)), state)
	if asked != 1 {
		t.Errorf("the state of a call was read %d times for one warning", asked)
	}
	w.Cycle(realm, object("a"), 3)
	now = now.Add(warn.Again)
	w.Stuck(realm, object("a"), lifecycle.TimeOf(now.Add(-2*time.Hour)), func(string) string { return "" })
	many := object("many")
	for i := range 100 {
		many.Finalizers = append(many.Finalizers, fmt.Sprint("example.com/x", i))
	}
	asked = 0
	many.UID = uid.New()
	w.Stuck(realm, many, lifecycle.TimeOf(now.Add(-time.Hour)), state)
	ctx := testkit.Context(t)
	for _, want := range []string{"blocked for 1h0m0s by example.com/x (state of example.com/x)", "one of 3 objects that own each other", "blocked for 2h0m0s by example.com/x\"", "example.com/x8 (state of example.com/x8), and 91 more"} {
		if m := testkit.Receive(t, ctx, want, said); !strings.Contains(string(m.Data), want) {
			t.Errorf("said is %s, want %q", m.Data, want)
		}
	}
	var none *warn.Warner
	none.Cycle(realm, object("a"), 1) // a nil Warner does nothing
}
