package replay

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

var crashes = flag.Int("crashes", 1, "number of different crashes at each I/O operation of TestCrashAtEveryOperation")

// crashed is a workload that is interrupted at each of its I/O operations.
type crashed struct {
	t    *testing.T
	log  *commits
	want [][32]byte // by sequence: the content hash of the fold of the log
	// unfinished says that the state may be one whose replay was interrupted, which Open refuses.
	unfinished bool

	mu     sync.Mutex
	synced uint64 // the sequence that a crash must not lose
	points int
	found  map[string]int // results of recoveries
	jobs   chan func()
	done   sync.WaitGroup
}

const crashDir = "default"

func crashConfig(fs vfs.FS) state.Config {
	return state.Config{FS: fs, MemTableSize: 64 << 10, CacheSize: 1 << 20}
}

// newCrashed returns a workload over a log. end must be called.
func newCrashed(t *testing.T, log *commits) *crashed {
	t.Helper()
	c := &crashed{t: t, log: log, found: map[string]int{}, jobs: make(chan func())}
	f := NewFolder(openCrashed(t, vfs.NewMem()), 1, realmKeys)
	c.want = [][32]byte{{}}
	for _, at := range log.at {
		must.Succeed(t, f.FoldTo(t.Context(), log, at))
		c.want = append(c.want, hashOf(t, f.state))
	}
	must.Succeed(t, f.state.Close())
	for range 2 {
		c.done.Go(func() {
			for do := range c.jobs {
				do()
			}
		})
	}
	return c
}

// end waits for the last recoveries, and returns their number and results.
func (c *crashed) end() (points int, found map[string]int) {
	close(c.jobs)
	c.done.Wait()
	return c.points, c.found
}

func openCrashed(t *testing.T, fs vfs.FS) *state.State {
	t.Helper()
	s, err := state.Open(crashDir, crashConfig(fs))
	must.Succeed(t, err)
	return s
}

func hashOf(t *testing.T, s *state.State) [32]byte {
	t.Helper()
	snap := s.Snapshot()
	defer snap.Close()
	h, err := snap.ContentHash(nil)
	must.Succeed(t, err)
	return h
}

// keep notes that the state up to a sequence is on disk.
func (c *crashed) keep(sequence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = sequence
}

// crash crashes, and has the state recovered. In turn nothing, everything, and a part of what
// was not synced is on disk.
func (c *crashed) crash(fs *vfs.MemFS) {
	c.mu.Lock()
	synced := c.synced
	c.mu.Unlock()
	for i := range *crashes { // one operation runs at a time
		number := c.points
		c.points++
		percent := []int{0, 50, 100, 10, 90}[(number+i)%5]
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(28, uint64(number)))})
		c.jobs <- func() {
			c.start(left, synced, fmt.Sprintf("crash %d, %d%% of what was not synced is there", number, percent))
		}
	}
}

// start starts from what a crash has left, and follows the log to its end.
func (c *crashed) start(fs *vfs.MemFS, synced uint64, what string) {
	result, err := func() (result string, err error) {
		s, err := state.Open(crashDir, crashConfig(fs))
		var unfinished *state.UnfinishedError
		if errors.As(err, &unfinished) && c.unfinished {
			if err := fs.RemoveAll(crashDir); err != nil { // as a start does
				return "", err
			}
			result = "unfinished"
			s, err = state.Open(crashDir, crashConfig(fs))
		}
		if errors.Is(err, state.ErrDamaged) && strings.Contains(err.Error(), "could not open manifest file") {
			// Pebble syncs a new manifest and the file that names it in one sync of their
			// directory: a file system may keep the second alone. A start replays the log.
			if err := fs.RemoveAll(crashDir); err != nil {
				return "", err
			}
			result, synced = "without its manifest", 0
			s, err = state.Open(crashDir, crashConfig(fs))
		}
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		at := s.Checkpoint().GetSequence()
		if result == "" {
			if result = "a prefix"; at == 0 {
				result = "empty"
			} else if at == uint64(len(c.want))-1 {
				result = "complete"
			}
		}
		if at < synced {
			return "", fmt.Errorf("the state is at commit %d, and was synced at commit %d", at, synced)
		}
		if at > 0 {
			if h, err := contentHash(s); err != nil || h != c.want[at] {
				return "", fmt.Errorf("the state is not the fold of the log up to commit %d: %w", at, err)
			}
		}
		f := NewFolder(s, 1, realmKeys)
		if err := f.FoldTo(context.Background(), c.log, c.log.last()); err != nil {
			return "", err
		}
		if h, err := contentHash(s); err != nil || h != c.want[len(c.want)-1] {
			return "", fmt.Errorf("from commit %d the state does not become the fold of the log: %w", at, err)
		}
		return result, nil
	}()
	if err != nil {
		c.t.Errorf("%s: %v", what, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[result]++
}

func contentHash(s *state.State) ([32]byte, error) {
	snap := s.Snapshot()
	defer snap.Close()
	return snap.ContentHash(nil)
}

// cascades returns the log of a realm in which owners with dependents are created, updated
// and removed. The bodies are large enough for files of their own, and neighbours
// are removed together, so that their rows are deleted by range.
func cascades(t *testing.T) *commits {
	t.Helper()
	c := &commits{realm: lifecycletest.New()}
	c.realm.UUIDs = true
	c.append(t, lifecycletest.New(), c.realm.Genesis())
	at := lifecycle.Key{Kind: c.configMaps(), Namespace: "default"}
	random := rand.New(rand.NewPCG(28, 5))
	object := func(name string, owners ...*lifecycle.Node) *coppicev1.Object {
		spec := make([]byte, 300+random.IntN(600))
		for i := range spec {
			spec[i] = byte('a' + random.IntN(26))
		}
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(`"` + string(spec) + `"`)}
		for _, owner := range owners {
			refer(o, owner)
		}
		return o
	}
	commit := func(do func() []lifecycle.Event) {
		before := c.realm.Clone()
		c.append(t, before, do())
	}
	create := func(o *coppicev1.Object) []lifecycle.Event {
		out, err := lifecycle.Create(c.realm.Context(), at, o)
		return c.commanded(t, out, err)
	}
	const rounds, dependents = 6, 24
	for round := range rounds {
		var owner *lifecycle.Node
		commit(func() []lifecycle.Event {
			events := create(object(fmt.Sprintf("owner-%d", round)))
			owner = events[0].Object.Node
			return events
		})
		commit(func() (events []lifecycle.Event) {
			for i := range dependents {
				events = append(events, create(object(fmt.Sprintf("dependent-%d-%02d", round, i), owner))...)
			}
			return events
		})
		commit(func() []lifecycle.Event {
			out, err := lifecycle.Update(c.realm.Context(), at, object(fmt.Sprintf("dependent-%d-00", round), owner))
			return c.commanded(t, out, err)
		})
		if round%3 == 2 {
			continue // this family stays
		}
		commit(func() []lifecycle.Event {
			out, err := lifecycle.Delete(c.realm.Context(), lifecycle.KeyOf(c.realm, owner), "", &coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Background})
			return append(c.commanded(t, out, err), c.realm.Settle(lifecycletest.InOrder)...)
		})
	}
	return c
}

// A process is killed and its machine loses power at any I/O operation: while it follows the
// log, while it replays the log from the beginning, and while it loads a snapshot. The next
// start always has the fold of a prefix of the log, with all that was synced, and becomes the
// fold of the log.
func TestCrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	log := cascades(t)
	last := log.last()
	log.applied = slices.Repeat([]bool{true}, len(log.all))
	for name, run := range map[string]struct {
		least int // operations
		do    func(t *testing.T, c *crashed, fs *crashFS)
		want  []string // results of recoveries that must occur
	}{
		"follow": {300, follow, []string{"empty", "a prefix", "complete"}},
		"replay": {50, func(t *testing.T, c *crashed, fs *crashFS) {
			t.Helper()
			c.unfinished = true
			f := NewFolder(openCrashed(t, fs), 1, realmKeys)
			must.Succeed(t, errors.Join(f.FoldFromEmpty(t.Context(), log, last), f.state.Sync(), f.state.Close()))
		}, []string{"empty"}},
		"load": {50, func(t *testing.T, _ *crashed, fs *crashFS) {
			t.Helper()
			f := NewFolder(openCrashed(t, vfs.NewMem()), 1, realmKeys)
			must.Succeed(t, f.FoldTo(t.Context(), log, last))
			file, _ := written(t, f.state)
			must.Succeed(t, f.state.Close())
			if _, err := snapshot.Build(t.Context(), bytes.NewReader(file), crashDir, snapshot.Stream{Created: 1}, crashConfig(fs)); err != nil {
				t.Fatal(err)
			}
		}, []string{"empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrashed(t, log)
			fs := newCrashFS(c.crash)
			run.do(t, c, fs)
			points, found := c.end()
			t.Logf("%d crashes, after which the state was %v", points, found)
			if points < run.least {
				t.Errorf("%d operations, want at least %d", points, run.least)
			}
			for _, result := range run.want {
				if found[result] == 0 {
					t.Errorf("after no crash the state was %s", result)
				}
			}
		})
	}
}

// follow folds one commit after another, in processes that end now and then.
func follow(t *testing.T, c *crashed, fs *crashFS) {
	t.Helper()
	var bodies, compactions int
	f := NewFolder(openCrashed(t, fs), 1, realmKeys)
	for i, at := range c.log.at {
		must.Succeed(t, f.FoldTo(t.Context(), c.log, at))
		must.Succeed(t, f.state.Sync())
		c.keep(f.Sequence())
		if i%5 != 4 {
			continue
		}
		m := f.state.Metrics()
		compactions += int(m.Compact.Count)
		must.Succeed(t, f.state.Close())
		f = NewFolder(openCrashed(t, fs), 1, realmKeys)
	}
	names, err := fs.List(crashDir)
	must.Succeed(t, err)
	for _, name := range names {
		if strings.HasSuffix(path.Base(name), ".blob") {
			bodies++
		}
	}
	compactions += int(f.state.Metrics().Compact.Count)
	must.Succeed(t, f.state.Close())
	if bodies == 0 || compactions == 0 {
		t.Errorf("the workload has %d files of bodies and %d compactions", bodies, compactions)
	}
}
