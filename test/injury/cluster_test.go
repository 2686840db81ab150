package injury_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// servers is the number of NATS servers of a cluster, n1 to n3, and of replicas of each stream.
const servers = 3

// clusterStores are the kinds of files of one NATS server that are injured: relative paths below
// its directory. The streams of work and calls and their consumers are in memory on a cluster.
var clusterStores = map[string]*regexp.Regexp{
	"log block":         regexp.MustCompile(`/coppice-default-log/msgs/\d+\.blk$`),
	"log index":         regexp.MustCompile(`/coppice-default-log/msgs/index\.db$`),
	"log meta":          regexp.MustCompile(`/coppice-default-log/meta\.`),
	"bucket":            regexp.MustCompile(`/KV_coppice-\w+/`),
	"raft of a stream":  regexp.MustCompile(`/_js_/S-R3F-\w+/`),
	"raft of JetStream": regexp.MustCompile(`/_js_/_meta_/`),
}

// all is a user of the test that may do everything.
const all = "all"

// cluster is an installation with three NATS servers.
type cluster struct {
	*allinone.Stack

	said *testkit.Output
}

func startCluster(ctx context.Context, dir string) (*cluster, error) {
	said := &testkit.Output{}
	s, err := allinone.Start(ctx, allinone.Config{
		Dir: dir, Servers: servers, Log: slog.New(slog.NewTextHandler(said, nil)),
		Roles: []bus.Role{{Name: all, Core: true, Publish: []string{">"}, Subscribe: []string{">"}}},
		Graph: func(g *graph.Config) {
			g.LeaseTTL, g.State.MemTableSize = 3*time.Second, 1<<20 // longer than an election of NATS
			g.CheckLog, g.ScrubLog = 200*time.Millisecond, 2*time.Second
		},
	})
	return &cluster{s, said}, err
}

// Objects of a cluster: some large ones fill a file of the log's stream, so that it has two.
const (
	largeObjects = 11
	largeBytes   = 1 << 20
)

// clusterBases is bases for a cluster.
func clusterBases(ctx context.Context, t *testing.T) (clean, killed string, texts map[string]string) {
	t.Helper()
	clean, killed, texts = t.TempDir(), filepath.Join(t.TempDir(), "killed"), map[string]string{}
	s, err := startCluster(ctx, clean)
	must.Succeed(t, err)
	must.Succeed(t, testkit.Await(ctx, s))
	c := connect(ctx, t, s.Stack)
	random := rand.New(rand.NewPCG(28, 12))
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	for i := range objects {
		b := make([]byte, 2000)
		if i < largeObjects {
			b = make([]byte, largeBytes)
		}
		for j := range b {
			b[j] = digits[random.IntN(len(digits))]
		}
		name := fmt.Sprintf("o-%02d", i)
		texts[name] = `"` + string(b) + `"`
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "a"}, Spec: []byte(texts[name])}
		if _, err := c.Resource(configMaps, "a").Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	s.equal(ctx, t)
	testkit.WaitFor(t, ctx, "a copy of the files", func() bool { // NATS may remove one meanwhile
		err := os.CopyFS(killed, os.DirFS(clean))
		if err != nil && (!errors.Is(err, os.ErrNotExist) || os.RemoveAll(killed) != nil) {
			t.Fatal(err)
		}
		return err == nil
	})
	must.Succeed(t, s.Stop())
	return clean, killed, texts
}

// equal waits until the copies of the log of all servers are the same.
func (c *cluster) equal(ctx context.Context, t *testing.T) {
	t.Helper()
	js := c.jetStream(t)
	testkit.WaitFor(t, ctx, "equal copies of the log", func() bool { return copies(ctx, js) })
}

func (c *cluster) jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(c.Server().URL(), append(c.Server().Options(all), nats.Timeout(testkit.Timeout))...)
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	return js
}

// copies reads the copy of the log of each server up to its present end, and reports whether they are the
// same and have every message.
func copies(ctx context.Context, js jetstream.JetStream) bool {
	// A request that is lost in an election of a leader gets no reply.
	ctx, cancel := context.WithTimeout(ctx, testkit.Timeout/4)
	defer cancel()
	stream, err := js.Stream(ctx, bus.LogStream(bus.DefaultRealm))
	if err != nil {
		return false
	}
	sums := map[string][sha256.Size]byte{}
	for range 10 * servers { // NATS draws the server
		server, sum, ok := copyOf(ctx, stream, stream.CachedInfo().State.LastSeq, sums)
		if !ok {
			return false
		}
		if sums[server] = sum; len(sums) == servers {
			break
		}
	}
	distinct := map[[sha256.Size]byte]bool{}
	for _, sum := range sums {
		distinct[sum] = true
	}
	return len(sums) == servers && len(distinct) == 1
}

// copyOf reads the copy of a server that is not among those which were read. It reports false if the
// copy lacks a message, or cannot be read now.
func copyOf(ctx context.Context, stream jetstream.Stream, last uint64, known map[string][sha256.Size]byte) (server string, sum [sha256.Size]byte, ok bool) {
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Replicas: 1, MemoryStorage: true, AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 30 * time.Second,
	})
	if err != nil || consumer.CachedInfo().Cluster == nil {
		return "", sum, false
	}
	server = consumer.CachedInfo().Cluster.Leader
	defer func() { _ = stream.DeleteConsumer(context.WithoutCancel(ctx), consumer.CachedInfo().Name) }()
	if sum, ok = known[server]; ok {
		return server, sum, true
	}
	hash := sha256.New()
	for at := uint64(0); at < last; {
		batch, err := consumer.FetchBytes(8<<20, jetstream.FetchMaxWait(20*time.Second))
		if err != nil {
			return server, sum, false
		}
		before := at
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil || meta.Sequence.Stream != at+1 {
				return server, sum, false
			}
			if at++; at <= last {
				_ = binary.Write(hash, binary.BigEndian, at) // never fails
				_, _ = hash.Write(m.Data())
			}
		}
		if at == before {
			return server, sum, false
		}
	}
	return server, [sha256.Size]byte(hash.Sum(nil)), true
}

const survivedNamed = "survived, the server is named"

// clusterOutcome starts a cluster of which one server is injured, and returns what has become of
// it: the copies of the log are the same again, or the server is named. It fails the test for
// everything else.
func clusterOutcome(ctx context.Context, t *testing.T, dir, server string, texts map[string]string) string {
	t.Helper()
	s, err := startCluster(ctx, dir)
	if err != nil {
		return cureMeta(ctx, t, dir, server, texts, fmt.Errorf("%w: %s", err, s.said))
	}
	refused := false
	defer func() {
		if err := s.Stop(); err != nil && !refused {
			t.Errorf("at the stop: %v", err)
		}
		if t.Failed() {
			t.Log(s.said)
		}
	}()
	if err := testkit.Await(ctx, s); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the start hangs: %v; ready: %v", err, s.Ready())
		}
		if !strings.Contains(err.Error(), "NATS server "+server) {
			t.Errorf("refused without the name of %s: %v", server, err)
		}
		refused = true
		return "refused, the server is named"
	}
	c := connect(ctx, t, s.Stack).Resource(configMaps, "a")
	for name, text := range texts {
		o, err := c.Get(ctx, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if string(o.GetSpec()) != text {
			t.Errorf("%s is wrong", name)
		}
	}
	deletes(ctx, t, c)
	named := regexp.MustCompile(`the copy of the NATS server (n\d) lacks`)
	result := ""
	js := s.jetStream(t)
	testkit.WaitFor(t, ctx, "equal copies of the log, or the name of "+server, func() bool {
		if m := named.FindStringSubmatch(s.said.String()); m != nil {
			if m[1] != server {
				t.Errorf("%s is injured, and %s is named", server, m[1])
			}
			result = survivedNamed
		} else if copies(ctx, js) {
			result = "survived, the copies are equal"
		}
		return result != ""
	})
	v, err := connect(ctx, t, s.Stack).Operations().Verify(ctx)
	if err != nil && result == survivedNamed && strings.Contains(err.Error(), "the log is broken") {
		return survivedNamed + "; it leads, and verification fails"
	}
	if err != nil || v.GetDifference() != "" {
		t.Errorf("verification: %v: %v", v, err)
	}
	return result
}

// metaSnapshot is what a NATS server says that does not start because its snapshot of the metadata of
// JetStream is damaged.
var metaSnapshot = regexp.MustCompile("Can't start JetStream: raft: snapshot corrupt")

// cureMeta removes the metadata of JetStream from a server that does not start because of them, as
// docs/operations.md says, and starts the cluster again.
func cureMeta(ctx context.Context, t *testing.T, dir, server string, texts map[string]string, refusal error) string {
	t.Helper()
	meta, err := filepath.Glob(filepath.Join(dir, "nats", server, "jetstream", "*", "_js_", "_meta_"))
	if err != nil || !strings.Contains(refusal.Error(), "NATS server "+server) || !metaSnapshot.MatchString(refusal.Error()) || len(meta) != 1 {
		t.Fatalf("refused: %v", refusal)
	}
	must.Succeed(t, os.RemoveAll(meta[0]))
	if result := clusterOutcome(ctx, t, dir, server, texts); !strings.HasPrefix(result, "survived") {
		t.Errorf("without its metadata: %s", result)
	}
	return "NATS refuses to start the server; survived when its metadata were removed"
}

// deletes deletes an owner, and waits until its dependent is gone: commands are committed, and
// the work queues deliver.
func deletes(ctx context.Context, t *testing.T, c client.ResourceClient) {
	t.Helper()
	object := func(name string, owners ...*client.OwnerReference) *coppicev1.Object {
		return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "a", OwnerReferences: owners}}
	}
	owner, err := c.Create(ctx, object("owner"))
	must.Succeed(t, err)
	if _, err := c.Create(ctx, object("dependent", client.NewOwnerReference(owner))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(ctx, "owner"); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, ctx, "the dependent to be gone", func() bool {
		_, err := c.Get(ctx, "dependent")
		return errors.Is(err, client.ErrNotFound)
	})
}

func TestClusterInjuries(t *testing.T) {
	nightly.Test(t, nightly.Minutes) // a server counts the messages of a copy, and is named, within a minute
	t.Parallel()
	ctx := testkit.Context(t)
	clean, killed, texts := clusterBases(ctx, t)
	kinds, manners := kindsOf(t, slices.Sorted(maps.Keys(clusterStores))), slices.Sorted(maps.Keys(ways))
	seeds := rand.New(rand.NewPCG(*seed, 0))
	var mu sync.Mutex
	count := map[string]int{}
	t.Cleanup(func() {
		var rows []string
		for row, n := range count {
			rows = append(rows, fmt.Sprintf("| %s | %d |", row, n))
		}
		slices.Sort(rows)
		t.Logf("seed %d:\n%s", *seed, strings.Join(rows, "\n"))
	})
	for i := range *clusters {
		r := rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64())) // injuries run at once
		store, way, server := kinds[r.IntN(len(kinds))], manners[r.IntN(len(manners))], fmt.Sprint("n", 1+r.IntN(servers))
		base, from := "clean stop", clean
		if r.IntN(2) == 1 {
			base, from = "SIGKILL", killed
		}
		replay := r.IntN(2) == 1
		t.Run(fmt.Sprintf("%d/%s/%s/%s/%s", i, base, server, store, way), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			err := os.CopyFS(dir, os.DirFS(from))
			if err == nil {
				err = os.Chmod(filepath.Join(dir, "coppice.secret"), 0o600)
			}
			if err == nil && replay {
				err = os.RemoveAll(filepath.Join(dir, "graph", bus.DefaultRealm))
			}
			must.Succeed(t, err)
			file := injure(t, filepath.Join(dir, "nats", server), clusterStores[store], ways[way], r)
			if file == "" {
				return // this base has no such file
			}
			result := clusterOutcome(ctx, t, dir, server, texts)
			t.Logf("%s of %s, replayed %t: %s", file, server, replay, result)
			mu.Lock()
			defer mu.Unlock()
			count[strings.Join([]string{base, store, way, result}, " | ")]++
		})
	}
}
