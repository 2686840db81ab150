package graph_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// seldom are limits with which an archiver does nothing of its own accord for the time of a test, and a writer does not even become
// the archiver.
var seldom = archiver.Limits{SegmentAge: time.Hour, SnapshotAge: time.Hour, Interval: time.Minute, Pause: time.Hour}

// flush has the log archived, and checks that the archive has what the reply says, and every commit of before.
func (a *archived) flush() *client.Archived {
	a.Helper()
	id, revision := a.at()
	done, err := a.as(bus.RoleOperator).Operations().Archive(a.Ctx)
	must.Succeed(a, err)
	from := &archivestate.Archive{Store: a.store, Realm: id}
	f, err := from.Fold(a.Ctx, filepath.Join(a.TempDir(), "state"), done.GetSequence(), state.Config{})
	if err != nil || f.Revision != done.GetRevision() || f.Revision < revision || [16]byte(done.GetRealmId()) != id || done.GetArchive() != a.store.String() || done.GetPaused() {
		a.Errorf("the reply is %v; the archive gives %+v, %v; the revision was %d", done, f, err, revision)
	}
	return done
}

// The verb archive puts the log into the archive at once, and nothing if that has it. A failure is reported, and the same request
// is carried out when it is repaired. A segment that was deleted is archived again.
func TestArchiveVerb(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	var mu sync.Mutex
	var failure error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failure = err
	}
	store := &archivetest.Hooked{Store: a.store, Before: func(_ context.Context, c archivetest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Of(archivetest.Put, archive.Segment) {
			return failure
		}
		return nil
	}}
	a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = store, seldom }).writing()
	a.create("one")
	a.flush()
	before := a.entries(archive.Segment)
	a.flush()
	if after := a.entries(archive.Segment); len(before) != 1 || len(after) != 1 {
		t.Errorf("segments %v, and then %v", before, after)
	}
	a.create("two")
	fail(errors.New("the disk is full"))
	operations := a.as(bus.RoleOperator).Operations()
	for range 2 {
		if _, err := operations.Archive(a.Ctx); !errors.Is(err, client.ErrInternalError) || !strings.Contains(err.Error(), "cannot put the log into the archive: the disk is full; repair the archive") {
			t.Errorf("%v", err)
		}
	}
	fail(nil)
	a.flush()
	must.Succeed(t, a.store.Delete(a.Ctx, before[0]))
	a.flush()
	if after := a.entries(archive.Segment); len(after) != 2 {
		t.Errorf("after one was deleted, the segments are %v", after)
	}
	err := rpc.Call(a.Ctx, a.Conn(bus.RoleOperator), bus.RealmAPI(realm, bus.RoleOperator, bus.VerbArchive).Subject(), nil, &coppicev1.ArchiveRequest{Until: 1000}, &coppicev1.ArchiveReply{})
	if !errors.Is(err, client.ErrBadRequest) || !strings.Contains(err.Error(), "and commit 1000 is to be archived") {
		t.Errorf("a commit that there is not: %v", err)
	}
	a.flush()
}

// The request is answered by the process that archives: the writer while none does, and a standby that has the lease. A realm
// of which no process has an archive is refused.
func TestArchiveVerbOfSeveral(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	without := a.serve(a.dir, nil).writing()
	a.create("one")
	operations := a.as(bus.RoleOperator).Operations()
	if _, err := operations.Archive(a.Ctx); !errors.Is(err, client.ErrMethodNotAllowed) || !strings.Contains(err.Error(), "has no archive; start it with --archive URL") {
		t.Errorf("without an archive: %v", err)
	}
	with := func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, seldom }
	dir := t.TempDir()
	standby := a.serve(dir, with)
	a.WaitFor("the standby to archive", func() bool {
		_, err := operations.Archive(a.Ctx)
		return err == nil
	})
	a.flush()
	a.create("two")
	a.flush()
	third := a.serve(t.TempDir(), with)
	without.Stop()
	a.create("three")
	a.flush()
	standby.Stop()
	a.WaitFor("the third to write", third.Writing)
	a.create("four")
	a.flush()
	third.Stop()
	a.undamaged()
}

// While a snapshot is verified, which takes very long in a busy process, the log is archived all the same.
func TestArchiveVerbDuringVerification(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	limits := seldom
	limits.SnapshotBytes, limits.Share, limits.Pause, limits.Interval = 1, 1e-7, time.Millisecond, 2*time.Millisecond
	a.serve(a.dir, func(c *graph.Config) { c.Archive, c.ArchiveLimits = a.store, limits }).writing()
	ctx, stop := context.WithCancel(a.Ctx)
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop()
	busy.Go(func() {
		c := a.application()
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = c.Resource(configMaps, "a").Create(ctx, configMap(fmt.Sprintf("busy-%d", i))) // the process is busy
		}
	})
	verifies := func() bool {
		_, err := os.Stat(filepath.Join(a.dir, ".archiver", realm, "snapshot"))
		return err == nil
	}
	// A verification ends soon while the process is not busy.
	a.WaitFor("the log to be archived during a verification", func() bool {
		before := a.entries(archive.Verified)
		if !verifies() {
			return false
		}
		a.flush()
		return verifies() && slices.Equal(a.entries(archive.Verified), before)
	})
}
