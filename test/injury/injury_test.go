// Package injury_test damages the stores of an installation at random, starts it again, and
// checks that the damage is survived or refused with its name: never a panic, a start that
// hangs, a wrong object, or an acknowledged object that is missing without an error.
//
// TestInjuries has one NATS server, and TestClusterInjuries a cluster of three, one of which is
// damaged.
//
//	go test ./test/injury -v -injuries=200 -seed=1
package injury_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

var (
	injuries = flag.Int("injuries", 8, "number of injuries of TestInjuries")
	clusters = flag.Int("clusters", 3, "number of injuries of TestClusterInjuries")
	seed     = nightly.SeedFlag("seed", "seed of the injuries")
	only     = flag.String("only", "", "injure only files of this kind, such as \"consumer\"")
)

func TestMain(m *testing.M) {
	testkit.ManyAtOnce()
	flag.Parse()
	testkit.Main(m)
}

const objects = 40

var configMaps = client.Resource{Plural: "configmaps"}

// stores are the kinds of files that are injured: relative paths below the data directory.
var stores = map[string]*regexp.Regexp{
	"log block":      regexp.MustCompile(`^nats/.*coppice-default-log/msgs/\d+\.blk$`),
	"log index":      regexp.MustCompile(`^nats/.*coppice-default-log/msgs/index\.db$`),
	"log meta":       regexp.MustCompile(`^nats/.*coppice-default-log/meta\.`),
	"work stream":    regexp.MustCompile(`^nats/.*coppice-default-work/msgs/`),
	"consumer":       regexp.MustCompile(`^nats/.*/obs/`),
	"state table":    regexp.MustCompile(`^graph/default/.*\.sst$`),
	"state bodies":   regexp.MustCompile(`^graph/default/.*\.blob$`),
	"state manifest": regexp.MustCompile(`^graph/default/MANIFEST`),
	"tail":           regexp.MustCompile(`^graph/default\.tail$`),
}

// pairs are injuries of two files: the state has to be rebuilt, from a log that is damaged too.
var pairs = map[string][]string{
	"log block, state table":    {"log block", "state table"},
	"log block, state manifest": {"log block", "state manifest"},
}

// ways are the injuries. They return nil to remove the file.
var ways = map[string]func(b []byte, r *rand.Rand) []byte{
	"missing":     func([]byte, *rand.Rand) []byte { return nil },
	"cut":         func(b []byte, r *rand.Rand) []byte { return b[:r.IntN(len(b))] },
	"bit flipped": func(b []byte, r *rand.Rand) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b },
}

// start starts an installation. store may be nil.
func start(ctx context.Context, dir string, store archive.Store) (*allinone.Stack, error) {
	return allinone.Start(ctx, allinone.Config{
		Dir: dir, Log: slog.New(slog.DiscardHandler),
		Graph: func(g *graph.Config) {
			g.LeaseTTL, g.State.MemTableSize = time.Second, 1<<20
			g.Archive, g.ArchiveLimits = store, archiver.Limits{SegmentAge: time.Millisecond, Interval: 10 * time.Millisecond}
		},
	})
}

// archiveOf returns the archive in the directory of an installation.
func archiveOf(t *testing.T, dir string) archive.Store {
	t.Helper()
	root := filepath.Join(dir, "archive")
	err := os.MkdirAll(root, 0o700)
	must.Succeed(t, err)
	store, err := dirstore.Open(root)
	must.Succeed(t, err)
	return store
}

// connect returns a client of an installation, as the local user.
func connect(ctx context.Context, t *testing.T, s *allinone.Stack) *client.Client {
	t.Helper()
	nc, err := dial.Service(ctx, s.Server().URL(), "injury", slog.New(slog.DiscardHandler), s.Server().Options(bus.LocalUser)...)
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	return client.New(nc, client.WithActor(bus.LocalUser), client.WithTimeout(5*time.Second))
}

// bases returns the directories of an installation after a clean stop, and as a SIGKILL
// leaves it: a copy while it runs and is idle, since a SIGKILL loses nothing that a process
// has written.
func bases(ctx context.Context, t *testing.T) (clean, killed string, texts map[string]string) {
	t.Helper()
	clean, killed, texts = t.TempDir(), filepath.Join(t.TempDir(), "killed"), map[string]string{}
	store := archiveOf(t, clean)
	s, err := start(ctx, clean, store)
	must.Succeed(t, err)
	must.Succeed(t, testkit.Await(ctx, s))
	c := connect(ctx, t, s)
	random := rand.New(rand.NewPCG(28, 12))
	for i := range objects {
		b := make([]byte, 2000)
		for j := range b {
			b[j] = byte('a' + random.IntN(26))
		}
		name := fmt.Sprintf("o-%02d", i)
		texts[name] = `"` + string(b) + `"`
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "a"}, Spec: []byte(texts[name])}
		if _, err := c.Resource(configMaps, "a").Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	// The file of the log's end is written once a second.
	file := tail.File(filepath.Join(clean, "graph"), bus.DefaultRealm)
	var mark tail.Mark
	testkit.WaitFor(t, ctx, "the end of the log to be written", func() bool {
		mark, err = tail.Read(file)
		return err == nil && mark.Revision >= c.Revision()
	})
	testkit.WaitFor(t, ctx, "segments with all commits", func() bool {
		segments, err := archive.Segments(ctx, store, mark.Realm())
		must.Succeed(t, err)
		return len(segments) > 0 && segments[len(segments)-1].Last >= mark.Sequence
	})
	testkit.WaitFor(t, ctx, "a copy of the files", func() bool { // a store may remove one meanwhile
		err := os.CopyFS(killed, os.DirFS(clean))
		if err != nil && (!errors.Is(err, os.ErrNotExist) || os.RemoveAll(killed) != nil) {
			t.Fatal(err)
		}
		return err == nil
	})
	must.Succeed(t, s.Stop())
	return clean, killed, texts
}

// injure changes one file of a store, and returns its name; "" if there is none.
func injure(t *testing.T, dir string, store *regexp.Regexp, way func([]byte, *rand.Rand) []byte, r *rand.Rand) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		rel, fail := filepath.Rel(dir, path)
		if info, infoErr := os.Stat(path); err == nil && fail == nil && infoErr == nil && !d.IsDir() && info.Size() > 0 && store.MatchString(filepath.ToSlash(rel)) {
			files = append(files, path)
		}
		return err
	})
	must.Succeed(t, err)
	if len(files) == 0 {
		return ""
	}
	file := files[r.IntN(len(files))]
	b, err := os.ReadFile(file)
	if err == nil {
		if b = way(b, r); b == nil {
			err = os.Remove(file)
		} else {
			err = os.WriteFile(file, b, 0o600)
		}
	}
	must.Succeed(t, err)
	return filepath.Base(file)
}

// outcome starts an injured installation and returns "survived", or "refused" with the
// error. It fails the test for everything else.
//
// A block of the log may be damaged where the state needs it no more. Verification must
// then report it, unless the archive has what the block had.
func outcome(ctx context.Context, t *testing.T, dir string, store archive.Store, texts map[string]string, ofLog bool) (string, error) {
	t.Helper()
	s, err := start(ctx, dir, store)
	if err != nil {
		return "refused", err
	}
	if err := testkit.Await(ctx, s); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the start hangs: %v; ready: %v", err, s.Ready())
		}
		return "refused", errors.Join(err, s.Stop())
	}
	c := connect(ctx, t, s)
	for name, text := range texts {
		var o *coppicev1.Object
		var err error
		testkit.WaitFor(t, ctx, "a reply to get "+name, func() bool { // an error while the state is being rebuilt
			o, err = c.Resource(configMaps, "a").Get(ctx, name)
			return err == nil || errors.Is(err, client.ErrNotFound)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if string(o.GetSpec()) != text {
			t.Errorf("%s is wrong", name)
		}
	}
	deletes(ctx, t, c.Resource(configMaps, "a"))
	if !ofLog {
		return "survived", s.Stop()
	}
	v, err := c.Operations().Verify(ctx)
	if store != nil {
		if err != nil || v.GetDifference() != "" {
			t.Errorf("verification with the archive: %v, %v", v, err)
		}
		return "survived", s.Stop()
	}
	if err == nil && v.GetDifference() == "" {
		t.Error("a block of the log is damaged, and verification finds nothing")
	}
	t.Logf("verification: %v", err)
	return "survived, reported by verify", s.Stop()
}

// tables returns the names of the files with the content of the state.
func tables(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.sst", "*.blob"} {
		files, err := filepath.Glob(filepath.Join(dir, "graph", bus.DefaultRealm, pattern))
		must.Succeed(t, err)
		names = append(names, files...)
	}
	return names
}

// kindsOf returns the kinds of files that are injured, of all kinds.
func kindsOf(t *testing.T, kinds []string) []string {
	t.Helper()
	if *only == "" {
		return kinds
	}
	if !slices.Contains(kinds, *only) {
		t.Fatalf("-only=%s: %s injures %s; choose one of them, or another test with -run", *only, t.Name(), strings.Join(kinds, ", "))
	}
	return []string{*only}
}

// injury is a damage to the files of an installation.
type injury struct {
	killed, archived bool
	store, way       string
}

func (i injury) base() string {
	base := "clean stop"
	if i.killed {
		base = "SIGKILL"
	}
	if i.archived {
		base += ", archive"
	}
	return base
}

// always are injuries that each run has: after a kill the log is damaged, and perhaps the state too, and the archive has
// the commits.
func always(kinds []string) (list []injury) {
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		for _, store := range []string{"log block", "log block, state manifest"} {
			if slices.Contains(kinds, store) {
				list = append(list, injury{true, true, store, way})
			}
		}
	}
	return list
}

func TestInjuries(t *testing.T) {
	ctx := testkit.Context(t)
	clean, killed, texts := bases(ctx, t)
	r := rand.New(rand.NewPCG(*seed, 0))
	kinds, manners := kindsOf(t, slices.Concat(slices.Sorted(maps.Keys(stores)), slices.Sorted(maps.Keys(pairs)))), slices.Sorted(maps.Keys(ways))
	list := always(kinds)
	fixed := len(list)
	for range *injuries {
		list = append(list, injury{store: kinds[r.IntN(len(kinds))], way: manners[r.IntN(len(manners))], archived: r.IntN(2) == 1, killed: r.IntN(2) == 1})
	}
	count := map[string]int{}
	for i, of := range list {
		from := clean
		if of.killed {
			from = killed
		}
		t.Run(fmt.Sprintf("%d/%s/%s/%s", i, of.base(), of.store, of.way), func(t *testing.T) {
			result := of.test(ctx, t, from, texts, r)
			if result == "" && i < fixed {
				t.Error("there is no such file")
			}
			if result != "" {
				count[strings.Join([]string{of.base(), of.store, of.way, result}, " | ")]++
			}
		})
	}
	var rows []string
	for row, n := range count {
		rows = append(rows, fmt.Sprintf("| %s | %d |", row, n))
	}
	slices.Sort(rows)
	t.Logf("seed %d:\n%s", *seed, strings.Join(rows, "\n"))
}

// test injures a copy of an installation, and returns the outcome; "" if it has no file of this kind.
func (i injury) test(ctx context.Context, t *testing.T, from string, texts map[string]string, r *rand.Rand) (result string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	err := os.CopyFS(dir, os.DirFS(from))
	if err == nil {
		err = os.Chmod(filepath.Join(dir, "coppice.secret"), 0o600)
	}
	must.Succeed(t, err)
	var entries archive.Store
	if i.archived {
		entries = archiveOf(t, dir)
	}
	var files []string
	of, paired := pairs[i.store]
	if !paired {
		of = []string{i.store}
	}
	for _, of := range of {
		file := injure(t, dir, stores[of], ways[i.way], r)
		if file == "" {
			return "" // this base has no such file
		}
		files = append(files, file)
	}
	state, ofLog := tables(t, dir), strings.HasPrefix(i.store, "log block")
	result, err = outcome(ctx, t, dir, entries, texts, ofLog)
	if result == "refused" && i.archived && strings.Contains(err.Error(), "restart the server") {
		if result, err = outcome(ctx, t, dir, entries, texts, ofLog); result == "survived" {
			result = "survived after a restart"
		}
	}
	if result == "refused" && (!strings.HasPrefix(i.store, "log") || !strings.Contains(err.Error(), "realm default: ")) {
		t.Errorf("refused: %v", err)
	}
	if result == "refused" && ofLog && i.archived {
		t.Errorf("refused, although the archive has all commits: %v", err)
	}
	if result == "refused" && len(state) > 0 && !slices.ContainsFunc(tables(t, dir), func(name string) bool { return slices.Contains(state, name) }) {
		t.Errorf("the refused start has left nothing of the state: %v", err)
	}
	if result != "refused" && err != nil {
		t.Errorf("at the stop: %v", err)
	}
	t.Logf("%s: %s: %v", strings.Join(files, ", "), result, err)
	return result
}
