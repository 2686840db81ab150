package model_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/drawn"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

var (
	ops    = flag.Int("ops", 1000, "how many operations TestModel draws, at least")
	replay = flag.String("script", "", "a file with a script that TestScripts runs beside those in testdata")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Each worker draws scripts until the limit of operations. A script that fails is
	// printed, so rapid need not write a file.
	checks := max(1, min(20, *ops/(workers*longest)))
	if testing.Short() {
		checks *= 5 // of which rapid then draws a fifth: -ops is the limit
	}
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(checks), "rapid.nofailfile": "true", "rapid.shrinktime": "60s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	testkit.Main(m)
}

// longest is the maximum number of operations of a script, and workers the number of
// scripts that run at the same time.
const (
	longest = 40
	workers = 8
	// perWorld is the number of operations after which the world is created again.
	perWorld = 5000
)

// TestModel draws scripts, and runs them in a world of services and in the model.
//
// S1, S2: an object that the collector deletes has, in the state just before, no solid and no
// unknown owner.
// S3, S4, S5: a terminating object is removed only when nothing blocks it, stays
// terminating until then, and gets no finalizers.
// S6: a uid that was another object's is refused.
// S7, S8: foregroundDeletion is removed only when no dependent with a valid reference blocks.
// S9: only an owner that orphans removes references to it, and an orphaned object is not deleted
// because of it.
// S10: no object ever has both built-in finalizers.
// S11: the objects and the pending work that the API returns follow from its log.
// S12: a command that is repeated, or answered late, is in the log once.
// S13: dry runs and plans are not in the log.
// S14: which of the services acts makes no difference, while they stop and start.
// S15: a command that changes nothing is not in the log.
//
// L1, L2, L3: in the end the model finds no object to collect, to strip or to finish.
// L4, L5: in the end there is no cycle that waits, or that the realm settings have collected.
// L6: in the end all work is acknowledged, also where owners are unknown.
// L7: kinds that are registered and removed stop no others.
// L8: services that are stopped or rebuilt make no difference to the outcome.
//
// R1: the outcome is one to which the rules lead in some order of work. If there is only one,
// it is that.
//
//nolint:tparallel // worlds come one after the other, and are looked at when their scripts have ended
func TestModel(t *testing.T) {
	t.Parallel()
	events := map[string]int{}
	seed := nightly.Seed(t)
	t.Logf("seed %d", seed)
	moments := rand.New(rand.NewPCG(seed, 0))
	var scripts atomic.Uint64
	for done := int64(0); done < int64(*ops) && !t.Failed(); {
		t.Run(fmt.Sprint("world ", done/perWorld), func(t *testing.T) {
			ctx := t.Context()
			w := newWorld(t, testkit.Context(t))
			want := min(int64(*ops)-done, perWorld)
			begun := time.Now()
			cut := 1 + moments.Int64N(want) // after so many operations
			for _, until := range []int64{cut, want} {
				t.Run("scripts", func(t *testing.T) {
					for i := range workers {
						t.Run(fmt.Sprint(i), func(t *testing.T) {
							t.Parallel()
							for w.operations.Load() < until && !t.Failed() {
								drawn.Check(t, scripts.Add(1)-1, w.property)
							}
						})
					}
				})
				if !t.Failed() {
					w.atRest(t)
				}
				if until == cut && !t.Failed() {
					w.restore()
					at := time.Now()
					if err := w.cut(ctx); err != nil {
						t.Error(err)
					}
					t.Logf("after %d operations the log was cut, and all services started again, in %.1f s", w.operations.Load(), time.Since(at).Seconds())
				}
			}
			done += w.operations.Load()
			t.Logf("%d operations, %d disturbances in %.1f s; %d settled slowly; %d outcomes were the only one, %d one of several",
				w.operations.Load(), w.disturbed.Load(), time.Since(begun).Seconds(), w.slow.Load(), w.confluent.Load(), w.racy.Load())
			w.a.mu.Lock()
			for what, n := range w.a.events {
				events[what] += n
			}
			w.a.mu.Unlock()
		})
	}
	for _, what := range slices.Sorted(maps.Keys(events)) {
		t.Logf("%7d %s", events[what], what)
	}
	// With this many operations, each of these must have happened at least once.
	for _, what := range happens {
		if *ops >= 4*perWorld && events[what] == 0 && !t.Failed() {
			t.Errorf("nothing was %s", what)
		}
	}
}

// happens lists the events that drawn scripts must cause, because a test without them would
// not test their rules.
var happens = []string{
	"created for REQUESTED", "updated for REQUESTED", "updated for CYCLE", "updated for PROTECTED", "updated for UNPROTECTED", "updated for USE_BOUND", "marked for CYCLE", "marked for REQUESTED", "marked for OWNER_ABSENT", "marked for OWNER_WAITING",
	"marked for FINALIZED", "marked for CONTAINER", "marked for INITIALIZATION_FAILED", "deleted for REQUESTED", "deleted for OWNER_ABSENT", "deleted for OWNER_WAITING",
	"deleted for FINALIZED", "deleted for CONTAINER", "stripped for OWNER_ORPHANS", "stripped for SOLID_OWNER_REMAINS", "unfinalized for REQUESTED", "unfinalized for FINALIZED",
	"create: Forbidden", "create: MethodNotAllowed", "create: UnknownKind", "import: Conflict", "import: AlreadyExists", "removefinalizer: 200", "updatestatus: 200",
	"protect: 200", "protect: Conflict", "unprotect: 200", "delete: Forbidden", "brake: released", "undo", "expired by expiry", "expired by expiry policy",
}

// property draws a script, and fails if the services do not behave as the model.
func (w *world) property(t *rapid.T) {
	lines := drawnScript.Draw(t, "script")
	if err := w.run(w.tb.Context(), lines); err != nil {
		tell := func(tb interface{ Logf(string, ...any) }) {
			tb.Logf("%v\nthe script:\n\n%s\n", err, strings.Join(lines, "\n"))
		}
		w.first.Do(func() { tell(w.tb) }) // the script as it was drawn; later failures are shrunk scripts
		tell(t)
		t.Fatal("a script did not go by the model") // the same message for all failures, because rapid shrinks only while the message is the same
	}
}

// TestScripts runs the scripts in testdata, or one of another file: what a
// failure of TestModel printed.
//
// R4: the policy changes several times while no service runs; the last one applies.
// L4: objects that wait for each other are removed, and one outside that waits for them.
//
//nolint:tparallel // the world is looked at when the scripts have ended
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if *replay != "" {
		files = []string{*replay}
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	w := newWorld(t, testkit.Context(t))
	t.Run("files", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				t.Parallel()
				if err := w.run(t.Context(), readScript(t, file)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	w.atRest(t)
}

// readScript reads the lines of a file without empty lines and comments.
func readScript(t *testing.T, file string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}
