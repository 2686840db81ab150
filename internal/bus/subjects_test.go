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
	} {
		if got, err := bus.ParseAPI(a.Subject()); err != nil || got != a {
			t.Errorf("%s is read as %+v, %v; want %+v", a.Subject(), got, err, a)
		}
	}
	for _, s := range []string{
		"", "coppice", "coppice.default.api.ana.get._.pods", "nats.default.api.ana.get._.pods.shop",
		"coppice.default.api.ana.get._.pods.shop.example.com/x", "coppice.default.api.ana.removefinalizer._.pods.shop",
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
