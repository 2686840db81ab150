package state_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A change of the options holds at once, and when the state is opened again.
func TestOptionsSurvive(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	check := func(want lifecycle.Options) {
		t.Helper()
		for _, when := range []string{"at once", "opened again"} {
			snap := r.Snapshot()
			for who, got := range map[string]lifecycle.Options{"state": r.Options(), "snapshot": snap.Options(), "tx": r.State.Begin().Options()} {
				if got != want {
					t.Errorf("%s, %s: options %+v, want %+v", who, when, got, want)
				}
			}
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
			r.Reopen()
		}
	}
	want := lifecycle.DefaultOptions()
	check(want)
	want.OwnerGrace, want.Propagation = 5*time.Minute, lifecycle.Cascade
	r.SetOptions(&lifecycle.OptionsSpec{OwnerGrace: "5m", ProcessorPropagation: lifecycle.Cascade})
	check(want)
	r.SetOptions(nil)
	check(lifecycle.DefaultOptions())
}
