package oracle_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/oracle"
)

// The rules reply to requests as the recordings of Kubernetes do.
func TestReplay(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/requests", func(t *testing.T, path string) {
		t.Helper()
		t.Parallel()
		checkRecording(t, path)
		replay(t, path, lifecycletest.InOrder)
	})
}

// replayOrders is the number of orders of work in which each recording of the collector is
// replayed.
const replayOrders = 12

// TestReplayCollector compares Coppice with the recordings of Kubernetes' collector.
// Processors and finalizers take their steps independently of each other, so the test plays
// several orders.
func TestReplayCollector(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/collector", func(t *testing.T, path string) {
		t.Helper()
		t.Parallel()
		checkRecording(t, path)
		t.Run("in order", func(t *testing.T) { replay(t, path, lifecycletest.InOrder) })
		for seed := range uint64(replayOrders) {
			t.Run(fmt.Sprintf("order %d", seed), func(t *testing.T) { replay(t, path, lifecycletest.Shuffled(seed)) })
		}
	})
}

func replay(t *testing.T, path string, order lifecycletest.Order) {
	t.Helper()
	script := oracle.New(filepath.Base(strings.TrimSuffix(path, filepath.Ext(path))), newCoppice(t, order), "")
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		got, err := script.Run(t.Context(), d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if script.Done() {
			return d.Expected // Check has compared it
		}
		input, err := oracle.ParseInput(d.Input)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if err := input.CheckRaces(d.Expected); err != nil {
			d.Fatalf(t, "%v", err)
		}
		want, err := input.Deviated(d.Expected)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if got != want {
			t.Errorf("\n%s: Coppice answers\n%s\nand not\n%s", d.Pos, got, want)
		}
		return d.Expected // -rewrite must not change recordings
	})
}

// checkRecording fails if a script was changed after it was recorded.
func checkRecording(t *testing.T, path string) {
	t.Helper()
	var sum oracle.Sum
	checked := false
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if checked = d.Cmd == "recorded"; !checked {
			sum.Add(d)
		} else if err := sum.Check(d.Expected); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return d.Expected
	})
	if !checked {
		t.Fatalf("%s does not end with 'recorded'", path)
	}
}
