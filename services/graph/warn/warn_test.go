package warn_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit"
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
	if err := listener.Flush(); err != nil {
		t.Fatal(err)
	}
	now := lifecycletest.Start.Time()
	w := warn.New(nc, bus.DefaultRealm, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	realm := lifecycletest.New()
	object := func(name string) *lifecycle.Node {
		return &lifecycle.Node{UID: realm.UIDs()[0], APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name, Finalizers: []string{"example.com/x"}, DeletionTime: 1}
	}
	w.Stuck(realm, object("a"), lifecycle.TimeOf(now.Add(-time.Hour)))
	w.Stuck(realm, object("a"), lifecycle.TimeOf(now.Add(-time.Hour)))
	w.Cycle(realm, object("a"), 3)
	now = now.Add(warn.Again)
	w.Stuck(realm, object("a"), lifecycle.TimeOf(now.Add(-2*time.Hour)))
	ctx := testkit.Context(t)
	for _, want := range []string{"blocked for 1h0m0s by example.com/x", "one of 3 objects that own each other", "blocked for 2h0m0s by example.com/x"} {
		if m := testkit.Receive(t, ctx, want, said); !strings.Contains(string(m.Data), want) {
			t.Errorf("said is %s, want %q", m.Data, want)
		}
	}
	var none *warn.Warner
	none.Cycle(realm, object("a"), 1) // a nil Warner does nothing
}
