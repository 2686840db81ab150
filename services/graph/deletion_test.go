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
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/registry"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// never are limits with which an archiver archives nothing of a small log.
var never = archiver.Limits{SegmentBytes: 1 << 30, SegmentAge: 24 * time.Hour, Interval: 2 * time.Millisecond, Pause: time.Millisecond}

// operations returns the operations of an operator.
func (a *archived) operations() client.OperationsClient {
	a.Helper()
	return a.as(bus.RoleOperator).Operations()
}

// deleteRealm requests the deletion of the realm.
func (a *archived) deleteRealm(opts ...client.DeleteRealmOption) {
	a.Helper()
	if _, err := a.operations().DeleteRealm(a.Ctx, realm, opts...); err != nil {
		a.Fatal(err)
	}
}

// listed returns the realm as the list of realms has it.
func (a *archived) listed() *client.Realm {
	a.Helper()
	realms, err := a.operations().ListRealms(a.Ctx, client.IncludeDeleted(true))
	if err != nil || len(realms) != 1 {
		a.Fatalf("the realms are %v, %v", realms, err)
	}
	return realms[0]
}

// isDeleted waits until the realm is deleted.
func (a *archived) isDeleted() {
	a.Helper()
	a.WaitFor("the deletion", func() bool {
		r := a.listed()
		return r.GetState() == coppicev1.RealmState_REALM_STATE_DELETED && r.GetWaiting() == ""
	})
	if _, err := a.JS().Stream(a.Ctx, bus.LogStream(realm)); err == nil {
		a.Error("the log is still there")
	}
}

// hasAll checks that the archive has the whole log of a realm up to a revision, undamaged.
func (a *archived) hasAll(id [16]byte, revision uint64) {
	a.Helper()
	if report := a.undamaged(); report.Last.Revision != revision {
		a.Errorf("the archive is verified as %+v; want revision %d", report, revision)
	}
	from := &archivestate.Archive{Store: a.store, Realm: id, Log: slog.New(slog.DiscardHandler)}
	if f, err := from.Fold(a.Ctx, filepath.Join(a.TempDir(), "state"), 0, state.Config{}); err != nil || f.Revision != revision {
		a.Errorf("the archive gives %+v, %v; want revision %d", f, err, revision)
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
			s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, limits }).writing()
			a.create("one", "two", "three")
			id, revision := a.at()
			a.deleteRealm()
			a.isDeleted()
			a.hasAll(id, revision)
			s.Stop()
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
			store := newBreaking(a.store, how)
			config := func(c *graph.Config) { c.Archive, c.ArchiveLimits = store, never }
			s := a.serve(a.dir, config).writing()
			a.create("one", "two")
			id, revision := a.at()
			a.deleteRealm()
			says := how.Error()
			if errors.Is(how, errHangs) {
				says = "archives the log, up to commit"
			}
			a.WaitFor("the deletion to wait", func() bool {
				return strings.Contains(a.listed().GetWaiting(), says) && store.puts.Load() > 0
			})
			s.Stop()
			if _, err := a.log().LastCommit(a.Ctx); err != nil {
				t.Errorf("the log: %v", err)
			}
			store.how.Store(nil)
			s = a.serve(t.TempDir(), config)
			a.isDeleted()
			a.hasAll(id, revision)
			s.Stop()
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
			store := newBreaking(a.store, errors.New("the archive fails"))
			with := func(secrets secret.Secrets, store archive.Store) func(c *graph.Config) {
				return func(c *graph.Config) { c.Archive, c.ArchiveLimits, c.Secrets = store, never, secrets }
			}
			a.creates("zero") // with the older secret
			s := a.serve(a.dir, with(c.secrets, store)).writing()
			a.create("one", "two")
			id, revision := a.at()
			a.deleteRealm()
			a.WaitFor("the deletion to wait", func() bool { return store.puts.Load() > 0 })
			s.Stop()
			s = a.serve(t.TempDir(), with(c.other, a.store))
			a.WaitFor("the deletion to wait for the secret", func() bool {
				r := a.listed()
				if r.GetState() == coppicev1.RealmState_REALM_STATE_DELETED {
					t.Fatal("the realm is deleted, and its log is not archived")
				}
				return strings.Contains(r.GetWaiting(), "start it with the secret") && strings.Contains(r.GetWaiting(), "--without-archive")
			})
			if c.without {
				a.deleteRealm(client.WithoutArchive(true))
				a.isDeleted()
				s.Stop()
				return
			}
			s.Stop()
			s = a.serve(t.TempDir(), with(c.secrets, a.store))
			a.isDeleted()
			a.hasAll(id, revision)
			s.Stop()
		})
	}
}

// A deletion that waits for an archive ends when it is requested again without archive, also
// while a put hangs. Without any archive, a request must say so.
func TestDeletionWithoutArchive(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	store := newBreaking(a.store, errHangs)
	s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = store, never }).writing()
	a.deleteRealm()
	a.WaitFor("the put to hang", func() bool { return store.puts.Load() > 0 })
	a.deleteRealm(client.WithoutArchive(true))
	a.isDeleted()
	if got := a.entries(archive.Segment); len(got) > 0 {
		t.Errorf("the archive has %v", got)
	}
	s.Stop()
}

// A process that is paused before it deletes the streams of a realm does not delete a log that
// was created meanwhile.
func TestDeletionAfterPause(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	ctx := testkit.Context(t)
	js := a.JS()
	paused := make(chan struct{})
	var once sync.Once
	again := make(chan struct{})
	s := a.serve(a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits = a.store, never
		c.Failpoint = func(step string) {
			if step == "delete streams" {
				once.Do(func() { close(paused) })
				<-again
			}
		}
	}).writing()
	a.deleteRealm()
	testkit.Receive(t, ctx, "the deletion to reach the streams", paused)
	must.Succeed(t, bus.DeleteStreams(ctx, js, realm, func() error { return nil }))
	g := registry.New(js, 1)
	must.Succeed(t, g.Deleted(ctx, realm))
	if _, err := a.operations().CreateRealm(ctx, realm); err != nil {
		t.Fatal(err)
	}
	var created time.Time
	a.WaitFor("another log", func() bool {
		ctx, cancel := testkit.Attempt(ctx)
		defer cancel()
		stream, err := js.Stream(ctx, bus.LogStream(realm))
		if err == nil {
			created = stream.CachedInfo().Created
		}
		return err == nil
	})
	close(again)
	s.writing()
	a.create("one")
	a.has("one")
	if stream, err := js.Stream(ctx, bus.LogStream(realm)); err != nil || stream.CachedInfo().Created != created {
		t.Errorf("the log was created at %v; now: %v", created, err)
	}
	s.Stop()
}

// A log is not deleted if its first commits are in a snapshot alone, and that is damaged.
func TestDeletionBehindDamagedSnapshot(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one", "two")
	a.segments()
	pruned := a.entries(archive.Segment)
	snapshot := a.snapshot()
	a.creates("three")
	a.cut(2)
	for _, name := range pruned {
		a.remove(name)
	}
	file := filepath.Join(a.root, filepath.FromSlash(snapshot))
	whole, err := os.ReadFile(file)
	must.Succeed(t, err)
	s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, never }).writing()
	a.damage(snapshot)
	a.deleteRealm()
	a.WaitFor("the realm to name the damaged snapshot", func() bool {
		waiting := a.listed().GetWaiting()
		return strings.Contains(waiting, snapshot) && strings.Contains(waiting, "damaged")
	})
	must.Succeed(t, os.WriteFile(file, whole, 0o600))
	a.isDeleted()
	s.Stop()
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
	must.Succeed(t, err)
	first, a.store = a.store.(*dirstore.Store), first
	s := a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, never }).writing()
	id, _ := a.at()
	a.deleteRealm()
	a.WaitFor("the realm to say what the archive lacks", func() bool {
		return strings.Contains(a.listed().GetWaiting(), "no segment has commit 1,")
	})
	// When the archive has it, the realm is deleted.
	segments, err := archive.Segments(a.Ctx, first, id)
	must.Succeed(t, err)
	for _, item := range segments {
		in, err := first.Open(a.Ctx, item.Entry.Name, 0, item.Entry.Size)
		must.Succeed(t, err)
		if err := errors.Join(a.store.Put(a.Ctx, item.Entry.Name, in, item.Entry.Size), in.Close()); err != nil && !errors.Is(err, archive.ErrExists) {
			t.Fatal(err)
		}
	}
	a.isDeleted()
	s.Stop()
}
