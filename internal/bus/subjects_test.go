package bus_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
)

// A subject of the object API is read as it was spelled.
func TestParseAPI(t *testing.T) {
	t.Parallel()
	for _, a := range []bus.API{
		{Realm: "default", Actor: "ana", Verb: bus.VerbCreate, Plural: "pods", Namespace: "shop"},
		{Realm: "r-1", Actor: "a_b", Verb: bus.VerbList, Group: "apps", Plural: "deployments"},
		{Realm: "default", Actor: "ana", Verb: bus.VerbRemoveFinalizer, Group: "storage.example.com", Plural: "buckets", Namespace: "shop", Finalizer: "example.com/a.b"},
		{Realm: "default", Actor: "ana", Verb: bus.VerbReadLog},
		{Realm: "default", Actor: "ana", Verb: bus.VerbConsumeAgent, Group: "apps", Plural: "deployments"},
		{Realm: "default", Actor: "ana", Verb: bus.VerbConsumeFinalizer, Finalizer: "example.com/a.b"},
	} {
		if got, err := bus.ParseAPI(a.Subject()); err != nil || got != a {
			t.Errorf("%s is read as %+v, %v; want %+v", a.Subject(), got, err, a)
		}
	}
	for _, s := range []string{
		"", "coppice", "coppice.default.api.ana.get._.pods", "nats.default.api.ana.get._.pods.shop",
		"coppice.default.api.ana.get._.pods.shop.example.com/x", "coppice.default.api.ana.removefinalizer._.pods.shop",
		"coppice.default.api.ana.consumefinalizer._._._", "coppice.default.api.ana.readlog._._._.example.com/x",
	} {
		if a, err := bus.ParseAPI(s); err == nil {
			t.Errorf("%s is read as %+v", s, a)
		}
	}
}

// What is read from any subject has a subject that is read the same.
func FuzzParseAPI(f *testing.F) {
	f.Add("coppice.default.api.ana.create._.pods.shop")
	f.Add("coppice.default.api.ana.list.apps.deployments._")
	f.Add("coppice.default.api.ana.removefinalizer.a_b.buckets.shop.example.com/x.y")
	f.Fuzz(func(t *testing.T, subject string) {
		a, err := bus.ParseAPI(subject)
		if err != nil {
			return
		}
		if again, err := bus.ParseAPI(a.Subject()); err != nil || again != a {
			t.Fatalf("%q is read as %+v, whose subject is read as %+v, %v", subject, a, again, err)
		}
	})
}

// The subject that work was parked from is read from the one that it is parked
// on, and from no other subject: what is parked cannot be published elsewhere.
func TestUnparked(t *testing.T) {
	t.Parallel()
	for _, from := range []string{
		bus.WorkSubject("default", bus.QueueDirty),
		bus.Finalize{Realm: "default", Group: "apps", Plural: "deployments", UID: "u", Finalizer: "example.com/a.b"}.Subject(),
		bus.Terminate{Realm: "default", Plural: "pods", UID: "u"}.Subject(),
	} {
		parked := bus.ParkedSubject("default", from, 7)
		if got, ok := bus.Unparked("default", parked); !ok || got != from {
			t.Errorf("%s was parked from %s, %t; want %s", parked, got, ok, from)
		}
		if got, ok := bus.Unparked("other", parked); ok {
			t.Errorf("%s is of another realm, and was parked from %s", parked, got)
		}
	}
	for _, s := range []string{
		"", "coppice.default.parked", "coppice.default.parked.log", "coppice.default.parked.work", "coppice.default.parked.work.dirty",
		"coppice.default.parked.finalize", "coppice.default.parked.api.ana.delete._.pods.shop", "coppice.default.work.dirty",
	} {
		if got, ok := bus.Unparked("default", s); ok {
			t.Errorf("%s was parked from %s", s, got)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	if f, ok := bus.FinalizerOfFilter(bus.FinalizeFilter("default", "example.com/a.b")); !ok || f != "example.com/a.b" {
		t.Errorf("got %q, %t", f, ok)
	}
	if g, p, ok := bus.AgentOfFilter(bus.TerminateFilter("default", "apps", "deployments")); !ok || g != "apps" || p != "deployments" {
		t.Errorf("got %q %q, %t", g, p, ok)
	}
	if _, ok := bus.FinalizerOfFilter(bus.TerminateFilter("default", "", "pods")); ok {
		t.Error("an agent's filter names a finalizer")
	}
	if _, _, ok := bus.AgentOfFilter(bus.FinalizeFilter("default", "x")); ok {
		t.Error("a finalizer's filter names a kind")
	}
}
