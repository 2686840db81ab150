package state_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A change of the options holds at once, and when the state is opened again.
func TestOptionsSurvive(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	check := func(want lifecycle.Settings) {
		t.Helper()
		for _, when := range []string{"at once", "opened again"} {
			snap := r.Snapshot()
			for reader, got := range map[string]lifecycle.Settings{"state": r.Settings(), "snapshot": snap.Settings(), "tx": r.State.Begin().Settings()} {
				if got != want {
					t.Errorf("%s, %s: settings %+v, want %+v", reader, when, got, want)
				}
			}
			must.Succeed(t, snap.Close())
			r.Reopen()
		}
	}
	want := lifecycle.DefaultSettings()
	check(want)
	want.OwnerGrace, want.Propagation = 5*time.Minute, lifecycle.Cascade
	r.SetSettings(&lifecycle.SettingsSpec{OwnerGrace: "5m", ProcessorPropagation: lifecycle.Cascade})
	check(want)
	r.SetSettings(nil)
	check(lifecycle.DefaultSettings())
}
