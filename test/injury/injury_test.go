// Package injury_test damages the stores of an installation at random, starts it again, and
// checks that the damage is survived or refused with its name: never a panic, a start that
// hangs, a wrong object, or an acknowledged object that is missing without an error.
//
//	go test ./test/injury -v -injuries=200 -seed=1
package injury_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

var (
	injuries = flag.Int("injuries", 8, "number of injuries")
	seed     = flag.Uint64("seed", 1, "seed of the injuries")
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.Main(m)
}

const objects = 40

var configMaps = client.Resource{Plural: "configmaps"}

// stores are the kinds of files that are injured: relative paths below the data directory.
var stores = map[string]*regexp.Regexp{
	"log block":      regexp.MustCompile(`^nats/.*coppice-default-log/msgs/\d+\.blk$`),
	"log index":      regexp.MustCompile(`^nats/.*coppice-default-log/msgs/index\.db$`),
	"work stream":    regexp.MustCompile(`^nats/.*coppice-default-work/msgs/`),
	"state table":    regexp.MustCompile(`^graph/default/.*\.sst$`),
	"state bodies":   regexp.MustCompile(`^graph/default/.*\.blob$`),
	"state manifest": regexp.MustCompile(`^graph/default/MANIFEST`),
	"tail":           regexp.MustCompile(`^graph/default\.tail$`),
}

// ways are the injuries. They return nil to remove the file.
var ways = map[string]func(b []byte, r *rand.Rand) []byte{
	"missing":     func([]byte, *rand.Rand) []byte { return nil },
	"cut":         func(b []byte, r *rand.Rand) []byte { return b[:r.IntN(len(b))] },
	"bit flipped": func(b []byte, r *rand.Rand) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b },
}

func start(ctx context.Context, dir string) (*allinone.Stack, error) {
	return allinone.Start(ctx, allinone.Config{
		Dir: dir, Log: slog.New(slog.DiscardHandler),
		Graph: func(g *graph.Config) { g.LeaseTTL, g.State.MemTableSize = time.Second, 1<<20 },
	})
}

// connect returns a client of an installation, as the local user.
func connect(ctx context.Context, t *testing.T, s *allinone.Stack) *client.Client {
	t.Helper()
	nc, err := dial.Service(ctx, s.Server().URL(), "injury", slog.New(slog.DiscardHandler), s.Server().Options(bus.LocalUser)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return client.New(nc, client.WithActor(bus.LocalUser), client.WithTimeout(5*time.Second))
}

// bases returns the directories of an installation after a clean stop, and as a SIGKILL
// leaves it: a copy while it runs and is idle, since a SIGKILL loses nothing that a process
// has written.
func bases(ctx context.Context, t *testing.T) (clean, killed string, texts map[string]string) {
	t.Helper()
	clean, killed, texts = t.TempDir(), filepath.Join(t.TempDir(), "killed"), map[string]string{}
	s, err := start(ctx, clean)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Await(ctx); err != nil {
		t.Fatal(err)
	}
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
	tail := filepath.Join(clean, "graph", "default.tail")
	before, err := os.ReadFile(tail)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	testkit.WaitFor(t, ctx, "the end of the log to be written", func() bool {
		b, err := os.ReadFile(tail)
		return err == nil && string(b) != string(before)
	})
	if err := os.CopyFS(killed, os.DirFS(clean)); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(file)
}

// outcome starts an injured installation and returns "survived", or "refused" with the
// error. It fails the test for everything else.
//
// A block of the log may be damaged where the state needs it no more. Verification must
// then report it.
func outcome(ctx context.Context, t *testing.T, dir string, texts map[string]string, ofLog bool) (string, error) {
	t.Helper()
	s, err := start(ctx, dir)
	if err != nil {
		return "refused", err
	}
	awaited, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	if err := s.Await(awaited); err != nil {
		if awaited.Err() != nil {
			t.Errorf("the start hangs: %v; ready: %v", err, s.Ready())
		}
		return "refused", errors.Join(err, s.Stop())
	}
	c := connect(ctx, t, s)
	for name, text := range texts {
		for {
			o, err := c.Resource(configMaps, "a").Get(awaited, name)
			if err != nil && awaited.Err() == nil && !errors.Is(err, client.ErrNotFound) {
				continue // the state is being rebuilt
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if string(o.GetSpec()) != text {
				t.Errorf("%s is wrong", name)
			}
			break
		}
	}
	if !ofLog {
		return "survived", s.Stop()
	}
	v, err := c.Operations().Verify(awaited)
	if err == nil && v.GetDifference() == "" {
		t.Error("a block of the log is damaged, and verification finds nothing")
	}
	t.Logf("verification: %v", err)
	return "survived, reported by verify", s.Stop()
}

func TestInjuries(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*injuries)*90*time.Second)
	defer cancel()
	clean, killed, texts := bases(ctx, t)
	r := rand.New(rand.NewPCG(*seed, 0))
	var kinds, manners []string
	for k := range stores {
		kinds = append(kinds, k)
	}
	for w := range ways {
		manners = append(manners, w)
	}
	slices.Sort(kinds)
	slices.Sort(manners)
	count := map[string]int{}
	for i := range *injuries {
		store, way := kinds[r.IntN(len(kinds))], manners[r.IntN(len(manners))]
		base, from := "clean stop", clean
		if r.IntN(2) == 1 {
			base, from = "SIGKILL", killed
		}
		t.Run(fmt.Sprintf("%d/%s/%s/%s", i, base, store, way), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			err := os.CopyFS(dir, os.DirFS(from))
			if err == nil {
				err = os.Chmod(filepath.Join(dir, "coppice.secret"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			file := injure(t, dir, stores[store], ways[way], r)
			if file == "" {
				return // this base has no such file
			}
			result, err := outcome(ctx, t, dir, texts, store == "log block")
			if result == "refused" && (!strings.HasPrefix(store, "log") || !strings.Contains(err.Error(), "realm default: ")) {
				t.Errorf("refused: %v", err)
			}
			if result != "refused" && err != nil {
				t.Errorf("at the stop: %v", err)
			}
			t.Logf("%s: %s: %v", file, result, err)
			count[strings.Join([]string{base, store, way, result}, " | ")]++
		})
	}
	var rows []string
	for row, n := range count {
		rows = append(rows, fmt.Sprintf("| %s | %d |", row, n))
	}
	slices.Sort(rows)
	t.Logf("seed %d:\n%s", *seed, strings.Join(rows, "\n"))
}
