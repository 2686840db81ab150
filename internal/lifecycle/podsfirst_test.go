package lifecycle_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// TestPodsUntil: A5.8: with a podDrainTimeout of 0s nothing waits for Pods, and so there is nothing
// to warn of either. The time in which the realm stood still does not count.
func TestPodsUntil(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[string]bool{"10m": true, "0s": false} {
		r := lifecycletest.New()
		do := func(out *lifecycle.Outcome, err *lifecycle.Error) {
			t.Helper()
			must.Succeed(t, err)
			r.Apply(out.Events)
		}
		create := func(resource, namespace, name, spec string) {
			t.Helper()
			do(lifecycle.Create(r.Context(), lifecycle.Key{Kind: r.Kinds().Resource(resource), Namespace: namespace, Name: name},
				&coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(spec)}))
		}
		create("realms.coppice.dev", "", "settings", `{"podDrainTimeout":"`+timeout+`"}`)
		create("namespaces", "", "shop", "")
		create("pods", "shop", "web", "")
		namespace := lifecycle.Key{Kind: r.Kinds().Resource("namespaces"), Name: "shop"}
		do(lifecycle.Delete(r.Context(), namespace, "", nil))
		n, err := lifecycle.Find(r, namespace)
		must.Succeed(t, err)
		if until := lifecycle.PodsUntil(r, n); (until != 0) != want {
			t.Errorf("with %s, contents wait until %d", timeout, until)
		}
		before := lifecycle.PodsUntil(r, n)
		r.ChangeRealm(lifecycle.RealmChange{Paused: true, Since: r.Clock})
		r.Clock = r.Clock.Add(time.Hour)
		r.ChangeRealm(lifecycle.RealmChange{})
		if until := lifecycle.PodsUntil(r, n); want && until != before.Add(time.Hour) {
			t.Errorf("after an hour's pause contents wait until %d, and before until %d", until, before)
		}
	}
}
