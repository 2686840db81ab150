package graph_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/bootstrap"
	"github.com/coppice-gc/coppice/services/graph/registry"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// never are limits with which an archiver archives nothing of a small log.
var never = archiver.Limits{SegmentBytes: 1 << 30, SegmentAge: 24 * time.Hour, Interval: 2 * time.Millisecond, Pause: time.Millisecond}

// operations returns the operations of an operator.
func (a *archived) operations() client.OperationsClient {
	a.t.Helper()
	return client.New(testkit.Conn(a.t, a.n, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithRealm(realm)).Operations()
}

// listed returns the realm as the list of realms has it.
func (a *archived) listed(ctx context.Context) *client.Realm {
	a.t.Helper()
	realms, err := a.operations().ListRealms(ctx, client.IncludeDeleted(true))
	if err != nil || len(realms) != 1 {
		a.t.Fatalf("the realms are %v, %v", realms, err)
	}
	return realms[0]
}

// isDeleted waits until the realm is deleted.
func (a *archived) isDeleted(ctx context.Context) {
	a.t.Helper()
	testkit.WaitFor(a.t, ctx, "the deletion", func() bool {
		r := a.listed(ctx)
		return r.GetState() == coppicev1.RealmState_REALM_STATE_DELETED && r.GetWaiting() == ""
	})
	if _, err := testkit.JetStream(a.t, a.n, bus.RoleGraph).Stream(ctx, bus.LogStream(realm)); err == nil {
		a.t.Error("the log is still there")
	}
}

// hasAll checks that the archive has the whole log of a realm up to a revision, undamaged.
func (a *archived) hasAll(ctx context.Context, id [16]byte, revision uint64) {
	a.t.Helper()
	var entries []archive.Entry
	for e, err := range a.store.List(ctx, "") {
		if err != nil {
			a.t.Fatal(err)
		}
		entries = append(entries, e)
	}
	reports, err := archive.Verify(ctx, a.store, entries, snapshot.CheckEntry, func(int64) {})
	if err != nil || len(reports) != 1 || len(reports[0].Problems) > 0 || reports[0].First != 1 || reports[0].Last.Revision != revision {
		a.t.Errorf("the archive is verified as %+v, %v; want revision %d", reports, err, revision)
	}
	from := &bootstrap.Archive{Store: a.store, Realm: id, Log: slog.New(slog.DiscardHandler)}
	if f, err := from.Fold(ctx, filepath.Join(a.t.TempDir(), "state"), 0, state.Config{}); err != nil || f.Revision != revision {
		a.t.Errorf("the archive gives %+v, %v; want revision %d", f, err, revision)
	}
}

// The log of a realm is archived up to its last commit before it is deleted, with and without segments
// that the archive had before.
func TestDeletionArchives(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]archiver.Limits{"empty archive": never, "segments and snapshots": soon} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchived(t)
			ctx := testkit.Context(t)
			s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, limits }).writing(ctx)
			create(ctx, t, application(t, a.n), "one", "two", "three")
			id, revision := a.at(ctx)
			if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
				t.Fatal(err)
			}
			a.isDeleted(ctx)
			a.hasAll(ctx, id, revision)
			s.stop(ctx)
		})
	}
}

// breaking is an archive in which puts of segments fail, or do not end before their context, while
// how is set.
type breaking struct {
	archivetest.Hooked
	how  atomic.Pointer[error] // errHangs: the put does not end
	puts atomic.Int32
}

var errHangs = errors.New("hangs")

func newBreaking(store archive.Store, how error) *breaking {
	b := &breaking{Hooked: archivetest.Hooked{Store: store}}
	b.how.Store(&how)
	b.Before = func(ctx context.Context, c archivetest.Call) error {
		how := b.how.Load()
		if c.Op != archivetest.Put || how == nil {
			return nil
		}
		b.puts.Add(1)
		if errors.Is(*how, errHangs) {
			<-ctx.Done()
			return ctx.Err()
		}
		return *how
	}
	return b
}

// While the archive fails, the deletion waits and says why. A graph service that starts
// after a crash continues it, and the archive has the whole log in the end.
func TestDeletionWaitsForArchive(t *testing.T) {
	t.Parallel()
	for _, how := range []error{errors.New("the disk of the archive is full"), errHangs} {
		t.Run(how.Error(), func(t *testing.T) {
			t.Parallel()
			a := newArchived(t)
			ctx := testkit.Context(t)
			store := newBreaking(a.store, how)
			config := func(c *graph.Config) { c.Archive, c.ArchiveLimits = store, never }
			s := serve(t, graphConn(t, a.n), a.dir, config).writing(ctx)
			create(ctx, t, application(t, a.n), "one", "two")
			id, revision := a.at(ctx)
			if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
				t.Fatal(err)
			}
			says := how.Error()
			if errors.Is(how, errHangs) {
				says = "archives the log, up to commit"
			}
			testkit.WaitFor(t, ctx, "the deletion to wait", func() bool {
				return strings.Contains(a.listed(ctx).GetWaiting(), says) && store.puts.Load() > 0
			})
			s.stop(ctx)
			if _, err := a.log().LastCommit(ctx); err != nil {
				t.Errorf("the log: %v", err)
			}
			store.how.Store(nil)
			s = serve(t, graphConn(t, a.n), t.TempDir(), config)
			a.isDeleted(ctx)
			a.hasAll(ctx, id, revision)
			s.stop(ctx)
		})
	}
}

// A graph service without the secret of the realm's last commits does not delete their log: the deletion
// waits for a service that has it, or until it is requested without archive.
func TestDeletionWithOtherSecret(t *testing.T) {
	t.Parallel()
	rotated := testkit.Secrets().Draw()
	for name, c := range map[string]struct {
		secrets, other secret.Secrets
		without        bool
	}{
		"another secret":                    {testkit.Secrets(), secret.Secrets{}.Draw(), false},
		"another secret, without archive":   {testkit.Secrets(), secret.Secrets{}.Draw(), true},
		"the secret before the newest one":  {rotated, testkit.Secrets(), false},
		"another secret of the same number": {rotated, testkit.Secrets().Draw(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchived(t)
			ctx := testkit.Context(t)
			store := newBreaking(a.store, errors.New("the archive fails"))
			with := func(secrets secret.Secrets, store archive.Store) func(c *graph.Config) {
				return func(c *graph.Config) { c.Archive, c.ArchiveLimits, c.Secrets = store, never, secrets }
			}
			a.creates("zero") // with the older secret
			s := serve(t, graphConn(t, a.n), a.dir, with(c.secrets, store)).writing(ctx)
			create(ctx, t, application(t, a.n), "one", "two")
			id, revision := a.at(ctx)
			if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
				t.Fatal(err)
			}
			testkit.WaitFor(t, ctx, "the deletion to wait", func() bool { return store.puts.Load() > 0 })
			s.stop(ctx)
			s = serve(t, graphConn(t, a.n), t.TempDir(), with(c.other, a.store))
			testkit.WaitFor(t, ctx, "the deletion to wait for the secret", func() bool {
				r := a.listed(ctx)
				if r.GetState() == coppicev1.RealmState_REALM_STATE_DELETED {
					t.Fatal("the realm is deleted, and its log is not archived")
				}
				return strings.Contains(r.GetWaiting(), "start it with the secret") && strings.Contains(r.GetWaiting(), "--without-archive")
			})
			if c.without {
				if _, err := a.operations().DeleteRealm(ctx, realm, client.WithoutArchive(true)); err != nil {
					t.Fatal(err)
				}
				a.isDeleted(ctx)
				s.stop(ctx)
				return
			}
			s.stop(ctx)
			s = serve(t, graphConn(t, a.n), t.TempDir(), with(c.secrets, a.store))
			a.isDeleted(ctx)
			a.hasAll(ctx, id, revision)
			s.stop(ctx)
		})
	}
}

// A deletion that waits for an archive ends when it is requested again without archive, also
// while a put hangs. Without any archive, a request must say so.
func TestDeletionWithoutArchive(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	store := newBreaking(a.store, errHangs)
	s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = store, never }).writing(ctx)
	if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, ctx, "the put to hang", func() bool { return store.puts.Load() > 0 })
	if _, err := a.operations().DeleteRealm(ctx, realm, client.WithoutArchive(true)); err != nil {
		t.Fatal(err)
	}
	a.isDeleted(ctx)
	if got := a.entries(ctx, archive.Segment); len(got) > 0 {
		t.Errorf("the archive has %v", got)
	}
	s.stop(ctx)
}

// A process that is paused before it deletes the streams of a realm does not delete a log that
// was created meanwhile.
func TestDeletionAfterPause(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	js := testkit.JetStream(t, a.n, bus.RoleGraph)
	paused := make(chan struct{})
	var once sync.Once
	again := make(chan struct{})
	s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits = a.store, never
		c.Failpoint = func(step string) {
			if step == "delete streams" {
				once.Do(func() { close(paused) })
				<-again
			}
		}
	}).writing(ctx)
	if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, ctx, "the deletion to reach the streams", paused)
	if err := bus.DeleteStreams(ctx, js, realm, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	g := registry.New(js, 1)
	if err := g.Deleted(ctx, realm); err != nil {
		t.Fatal(err)
	}
	if _, err := a.operations().CreateRealm(ctx, realm); err != nil {
		t.Fatal(err)
	}
	var created time.Time
	testkit.WaitFor(t, ctx, "another log", func() bool {
		ctx, cancel := testkit.Attempt(ctx)
		defer cancel()
		stream, err := js.Stream(ctx, bus.LogStream(realm))
		if err == nil {
			created = stream.CachedInfo().Created
		}
		return err == nil
	})
	close(again)
	s.writing(ctx)
	create(ctx, t, application(t, a.n), "one")
	has(ctx, t, application(t, a.n), "one")
	if stream, err := js.Stream(ctx, bus.LogStream(realm)); err != nil || stream.CachedInfo().Created != created {
		t.Errorf("the log was created at %v; now: %v", created, err)
	}
	s.stop(ctx)
}

// A log is not deleted if its first commits are in a snapshot alone, and that is damaged.
func TestDeletionBehindDamagedSnapshot(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	a.segments()
	pruned := a.entries(t.Context(), archive.Segment)
	snapshot := a.snapshot()
	a.creates("three")
	a.cut(2)
	for _, name := range pruned {
		if err := a.store.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(a.root, filepath.FromSlash(snapshot))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, never }).writing(ctx)
	a.damage(snapshot)
	if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, ctx, "the realm to name the damaged snapshot", func() bool {
		waiting := a.listed(ctx).GetWaiting()
		return strings.Contains(waiting, snapshot) && strings.Contains(waiting, "damaged")
	})
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	a.isDeleted(ctx)
	s.stop(ctx)
}

// A log whose beginning was cut and is not in the archive is not deleted: another archive has it.
func TestDeletionWithoutBeginning(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two", "three")
	a.segments()
	a.snapshot()
	a.cut(2)
	first, err := dirstore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, a.store = a.store.(*dirstore.Store), first
	ctx := testkit.Context(t)
	s := serve(t, graphConn(t, a.n), a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, never }).writing(ctx)
	id, _ := a.at(ctx)
	if _, err := a.operations().DeleteRealm(ctx, realm); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, ctx, "the realm to say what the archive lacks", func() bool {
		return strings.Contains(a.listed(ctx).GetWaiting(), "no segment has commit 1,")
	})
	// When the archive has it, the realm is deleted.
	segments, err := archive.Segments(ctx, first, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range segments {
		in, err := first.Open(ctx, item.Entry.Name, 0, item.Entry.Size)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.store.Put(ctx, item.Entry.Name, in, item.Entry.Size), in.Close()); err != nil && !errors.Is(err, archive.ErrExists) {
			t.Fatal(err)
		}
	}
	a.isDeleted(ctx)
	s.stop(ctx)
}
