package graph_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/bootstrap"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// archived is a realm with an archive: a NATS server, the directory of a graph service, and a
// store. The server runs until the test ends; the graph service only while it is used.
type archived struct {
	t     *testing.T
	n     *natsd.Server
	nats  string // its directory
	dir   string
	root  string // of the store
	store archive.Store
}

func newArchived(t *testing.T) *archived {
	t.Helper()
	a := &archived{t: t, nats: t.TempDir(), dir: t.TempDir(), root: t.TempDir()}
	a.n = testkit.StartNATS(t, natsd.Config{Dir: a.nats})
	var err error
	if a.store, err = dirstore.Open(a.root); err != nil {
		t.Fatal(err)
	}
	return a
}

// with runs a graph service in a directory with the archive, does something, and ends it. The service does not
// archive or truncate anything by itself.
func (a *archived) with(dir string, logged *logged, do func(ctx context.Context)) {
	a.t.Helper()
	ctx := testkit.Context(a.t)
	s := serve(a.t, graphConn(a.t, a.n), dir, func(c *graph.Config) {
		c.Archive = a.store
		if logged != nil {
			c.Log = slog.New(slog.NewTextHandler(logged, nil))
		}
	}).writing(ctx)
	do(ctx)
	s.stop(ctx)
}

// creates creates objects while the graph service runs on its own directory.
func (a *archived) creates(names ...string) {
	a.t.Helper()
	ctx := testkit.Context(a.t)
	s := serve(a.t, graphConn(a.t, a.n), a.dir, nil).writing(ctx)
	create(ctx, a.t, application(a.t, a.n), names...)
	s.stop(ctx)
}

// snapshot stores a snapshot of the state of the graph service, and returns its entry.
func (a *archived) snapshot() string {
	a.t.Helper()
	s, err := state.Open(filepath.Join(a.dir, realm), state.Config{})
	if err != nil {
		a.t.Fatal(err)
	}
	defer s.Close()
	snap := s.Snapshot()
	defer snap.Close()
	info, err := bootstrap.PutSnapshot(a.t.Context(), a.store, snap, "", "test", time.Now())
	if err != nil {
		a.t.Fatal(err)
	}
	return archive.SnapshotName([16]byte(info.Checkpoint.GetRealmId()), info.Checkpoint.GetSequence()).String()
}

// segments stores all commits that no segment has, three in each.
func (a *archived) segments() {
	a.t.Helper()
	ctx := testkit.Context(a.t)
	log := a.log()
	last, first, err := log.Last(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	var stored uint64
	for e, err := range a.store.List(ctx, "") {
		if err != nil {
			a.t.Fatal(err)
		}
		if n, ok := archive.ParseName(e.Name); ok && n.Kind == archive.Segment {
			stored = max(stored, n.Last)
		}
	}
	var b bytes.Buffer
	var w *segment.Writer
	put := func() {
		info, err := w.Close()
		if err != nil {
			a.t.Fatal(err)
		}
		name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
		if err := a.store.Put(ctx, name.String(), &b, int64(b.Len())); err != nil {
			a.t.Fatal(err)
		}
		w = nil
	}
	end := errors.New("the end")
	err = log.Follow(ctx, first, func(m eventlog.Message) error {
		h, foreign := log.Keys().Check(m)
		if foreign == "" && h.Sequence > stored {
			if w == nil {
				b.Reset()
				var err error
				if w, err = segment.NewWriter(&b); err != nil {
					return err
				}
			}
			if err := w.Add(m.Sequence, m.Data); err != nil {
				return err
			}
			if h.Sequence%3 == 0 {
				put()
			}
		}
		if m.Sequence == last {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		a.t.Fatal(err)
	}
	if w != nil {
		put()
	}
}

func (a *archived) log() *eventlog.Log {
	a.t.Helper()
	log, err := eventlog.OpenExisting(testkit.Context(a.t), testkit.JetStream(a.t, a.n, bus.RoleGraph), realm, eventlog.NewKeys(testkit.Secrets(), realm))
	if err != nil {
		a.t.Fatal(err)
	}
	return log
}

// truncate removes all messages of the log's stream but the last ones.
func (a *archived) truncate(keep uint64) {
	a.t.Helper()
	ctx := testkit.Context(a.t)
	stream, err := testkit.JetStream(a.t, a.n, bus.RoleGraph).Stream(ctx, bus.LogStream(realm))
	if err != nil {
		a.t.Fatal(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(stream.CachedInfo().State.LastSeq+1-keep)); err != nil {
		a.t.Fatal(err)
	}
}

// cut cuts the log as the archiver does, but for its last messages.
func (a *archived) cut(keep uint64) {
	a.t.Helper()
	ctx, log := testkit.Context(a.t), a.log()
	last, _, err := log.Last(ctx)
	if err == nil {
		err = errors.Join(log.Announce(ctx, last-keep, time.Now()), log.Cut(ctx, last-keep))
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// replace replaces an entry of the archive.
func (a *archived) replace(name string, content []byte) {
	a.t.Helper()
	if err := errors.Join(a.store.Delete(a.t.Context(), name), a.store.Put(a.t.Context(), name, bytes.NewReader(content), int64(len(content)))); err != nil {
		a.t.Fatal(err)
	}
}

// has starts a graph service in a directory, and checks that its realm has just these objects and equals its log.
func (a *archived) has(dir string, names ...string) string {
	a.t.Helper()
	out := &logged{}
	a.with(dir, out, func(ctx context.Context) {
		has(ctx, a.t, application(a.t, a.n), names...)
		if v := verify(ctx, a.t, a.n); v.GetDifference() != "" {
			a.t.Errorf("the state differs from the log: %s", v.GetDifference())
		}
	})
	return out.String()
}

// logged is the log of a graph service.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
