package graph_test

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// archived is an installation with an archive: the directory of a graph service, and a
// store. The server runs until the test ends; the graph service only while it is used.
type archived struct {
	*installation
	nats  string // its directory
	dir   string
	root  string // of the store
	store archive.Store
}

func newArchived(tb testing.TB) *archived {
	tb.Helper()
	a := &archived{nats: tb.TempDir(), dir: tb.TempDir(), root: tb.TempDir()}
	a.installation = installationIn(tb, a.nats)
	var err error
	if a.store, err = dirstore.Open(a.root); err != nil {
		tb.Fatal(err)
	}
	return a
}

// with runs a graph service in a directory with the archive, does something, and ends it. The service does not
// archive or truncate anything by itself.
func (a *archived) with(dir string, out *testkit.Output, do func()) {
	a.Helper()
	s := a.serve(dir, func(c *graph.Config) {
		c.Archive = a.store
		if out != nil {
			c.Log = slog.New(slog.NewTextHandler(out, nil))
		}
	}).writing()
	do()
	s.Stop()
}

// creates creates objects while the graph service runs on its own directory.
func (a *archived) creates(names ...string) {
	a.Helper()
	s := a.serve(a.dir, nil).writing()
	a.create(names...)
	s.Stop()
}

// snapshot stores a snapshot of the state of the graph service, and returns its entry.
func (a *archived) snapshot() string {
	a.Helper()
	snap, closeState := openState(a, filepath.Join(a.dir, realm))
	defer closeState()
	info, err := archivestate.PutSnapshot(a.Ctx, a.store, snap, "", "test", time.Now())
	must.Succeed(a, err)
	return archive.SnapshotName([16]byte(info.Checkpoint.GetRealmId()), info.Checkpoint.GetSequence()).String()
}

// segments stores all commits that no segment has, three in each.
func (a *archived) segments() {
	a.Helper()
	log := a.log()
	last, first, err := log.Last(a.Ctx)
	must.Succeed(a, err)
	var stored uint64
	for e, err := range a.store.List(a.Ctx, "") {
		must.Succeed(a, err)
		if n, ok := archive.ParseName(e.Name); ok && n.Kind == archive.Segment {
			stored = max(stored, n.Last)
		}
	}
	var b bytes.Buffer
	var w *segment.Writer
	put := func() {
		info, err := w.Close()
		must.Succeed(a, err)
		name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
		must.Succeed(a, a.store.Put(a.Ctx, name.String(), &b, int64(b.Len())))
		w = nil
	}
	end := errors.New("the end")
	err = log.Follow(a.Ctx, first, func(m eventlog.Message) error {
		h, foreign := log.Keys().Check(m)
		if foreign == "" && h.Sequence > stored {
			if w == nil {
				b.Reset()
				var err error
				if w, err = segment.NewWriter(&b); err != nil {
					return err
				}
			}
			if err := w.Add(m.Position, m.Data); err != nil {
				return err
			}
			if h.Sequence%3 == 0 {
				put()
			}
		}
		if m.Position == last {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		a.Fatal(err)
	}
	if w != nil {
		put()
	}
}

func (a *archived) log() *eventlog.Log {
	a.Helper()
	log, err := eventlog.OpenExisting(a.Ctx, a.JS(), realm, eventlog.NewKeys(testkit.Secrets(), realm))
	must.Succeed(a, err)
	return log
}

// truncate removes all messages of the log's stream but the last ones.
func (a *archived) truncate(keep uint64) {
	a.Helper()
	stream := a.Stream(bus.LogStream(realm))
	must.Succeed(a, stream.Purge(a.Ctx, jetstream.WithPurgeSequence(stream.CachedInfo().State.LastSeq+1-keep)))
}

// cut cuts the log as the archiver does, but for its last messages.
func (a *archived) cut(keep uint64) {
	a.Helper()
	ctx, log := a.Ctx, a.log()
	last, _, err := log.Last(ctx)
	if err == nil {
		err = errors.Join(log.Announce(ctx, last-keep, time.Now()), log.Cut(ctx, last-keep))
	}
	must.Succeed(a, err)
}

// remove removes an entry of the archive.
func (a *archived) remove(name string) {
	a.Helper()
	must.Succeed(a, a.store.Delete(a.Ctx, name))
}

// replace replaces an entry of the archive.
func (a *archived) replace(name string, content []byte) {
	a.Helper()
	must.Succeed(a, errors.Join(a.store.Delete(a.Ctx, name), a.store.Put(a.Ctx, name, bytes.NewReader(content), int64(len(content)))))
}

// startsWith starts a graph service in a directory, and checks that its realm has just these objects and equals its log.
func (a *archived) startsWith(dir string, names ...string) string {
	a.Helper()
	out := &testkit.Output{}
	a.with(dir, out, func() {
		a.has(names...)
		if v := a.verify(); v.GetDifference() != "" {
			a.Errorf("the state differs from the log: %s", v.GetDifference())
		}
	})
	return out.String()
}
