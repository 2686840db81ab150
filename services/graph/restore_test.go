package graph_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/continuation"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// identities returns the uids and revisions of all objects, by resource, namespace and name.
func identities(ctx context.Context, tb testing.TB, c *client.Client) map[string]string {
	tb.Helper()
	all := map[string]string{}
	for _, r := range []client.Resource{configMaps, {Group: "coppice.dev", Plural: "kinds"}} {
		for o, err := range c.Resource(r, "").List(ctx) {
			must.Succeed(tb, err)
			m := o.GetMetadata()
			all[r.Plural+"/"+m.GetNamespace()+"/"+m.GetName()] = fmt.Sprintf("%s@%d %v", m.GetUid(), m.GetResourceVersion(), m.GetDeletionTimestamp())
		}
	}
	return all
}

// creation sends a creation with a command id. It repeats it only while no service has received it:
// a service that has just become the writer may not have subscribed yet.
func creation(ctx context.Context, nc *nats.Conn, id uuid.UUID, name string) (err error) {
	subject := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: bus.VerbCreate, Plural: configMaps.Plural, Namespace: "a"}.Subject()
	header := nats.Header{bus.HeaderCommand: []string{id.String()}}
	polled := poll.Until(ctx, func() (bool, error) {
		err = rpc.Call(ctx, nc, subject, header, &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{configMap(name)}}, &coppicev1.ObjectsReply{})
		return err == nil || !strings.Contains(err.Error(), "no graph service answers"), nil
	})
	return cmp.Or(err, polled)
}

// restore restores the realm from the archive on a NATS server without data.
func (a *archived) restore(last uint64) (begun continuation.Begun) {
	a.Helper()
	dir := filepath.Join(a.TempDir(), "state")
	from := &archivestate.Archive{Store: a.store, Realm: [16]byte(checkpoint(a, a.dir).GetRealmId())}
	if _, err := from.Fold(a.Ctx, dir, last, state.Config{}); err != nil {
		a.Fatal(err)
	}
	a.installation = newInstallation(a.TB)
	s, err := state.Open(dir, state.Config{})
	must.Succeed(a, err)
	defer s.Close()
	c := continuation.Config{Conn: a.Conn(bus.RoleGraph), Realm: realm, Secrets: testkit.Secrets(), Archive: a.store, By: "test"}
	if begun, err = continuation.Begin(a.Ctx, s, c); err != nil {
		a.Fatal(err)
	}
	return begun
}

// A realm that is restored on an empty NATS server from the archive alone has the same objects,
// uids and revisions. It is paused for all its graph services, until it is resumed: then the collector goes on
// where it was, and revisions continue. Commands that were carried out before are not carried
// out again.
func TestRestore(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.snapshot()
	id := uuid.Must(uuid.NewV7())
	var before map[string]string
	func() {
		ctx := testkit.Context(t)
		s := a.serve(a.dir, nil).writing()
		c := a.application()
		must.Succeed(t, creation(ctx, c.Conn(), id, "owner"))
		owner, err := c.Resource(configMaps, "a").Get(ctx, "owner")
		must.Succeed(t, err)
		child := configMap("child")
		child.Metadata.OwnerReferences = []*coppicev1.OwnerReference{client.NewOwnerReference(owner)}
		put(ctx, t, c, child)
		if _, err := c.Resource(configMaps, "a").Delete(ctx, "owner"); err != nil { // without a processor, child stays
			t.Fatal(err)
		}
		before = identities(ctx, t, c)
		s.Stop()
	}()
	a.segments()
	last := checkpoint(t, a.dir)
	begun := a.restore(0)
	if begun.Origin != (lifecycle.Origin{RealmID: [16]byte(last.GetRealmId()), Sequence: last.GetSequence()}) || begun.Sequence != last.GetSequence()+1 || begun.RealmID == begun.Origin.RealmID {
		t.Errorf("begun as %+v after %v", begun, last)
	}
	dir := t.TempDir()
	paused := func() {
		t.Helper()
		c := a.application()
		if got := identities(a.Ctx, t, c); !maps.Equal(got, before) {
			t.Errorf("the restored realm has %v, want %v", got, before)
		}
		err := creation(a.Ctx, c.Conn(), uuid.Must(uuid.NewV7()), "two")
		if !errors.Is(err, api.ErrServiceUnavailable) || !strings.Contains(err.Error(), "coppice realm resume") {
			t.Errorf("a creation in the paused realm: %v", err)
		}
		if status, err := c.Status(a.Ctx); err != nil || !status.GetPaused() || status.GetIdle() {
			t.Errorf("status %v, %v: want paused, with work for the processor", status, err)
		}
		if queued, err := a.JS().Stream(a.Ctx, bus.WorkStream(realm)); err != nil || queued.CachedInfo().State.LastSeq > 0 {
			t.Errorf("work was published while the realm was paused: %v", err)
		}
		var walked coppicev1.WalkReply
		err = rpc.Call(a.Ctx, a.Conn(bus.RoleScanner), bus.InternalSubject(realm, bus.OpWalk), nil, &coppicev1.WalkRequest{Resource: "configmaps", Limit: 10}, &walked)
		if err != nil || len(walked.GetObjects().GetUids()) > 0 {
			t.Errorf("the scanner walks the paused realm: %v, %v", &walked, err)
		}
		if d := a.verify().GetDifference(); d != "" {
			t.Errorf("the state differs from the log: %s", d)
		}
	}
	a.with(dir, nil, paused)
	a.with(dir, nil, paused)         // the pause outlasts the process,
	a.with(t.TempDir(), nil, paused) // and is that of the realm

	a.with(dir, nil, func() {
		operator := a.as(bus.RoleOperator)
		for _, want := range []bool{true, false} {
			if resumed, err := operator.Operations().Resume(a.Ctx); resumed != want || err != nil {
				t.Errorf("resumed: %t, %v; want %t", resumed, err, want)
			}
		}
		c := a.application()
		if err := creation(a.Ctx, c.Conn(), id, "owner"); !errors.Is(err, api.ErrOutcomeUnknown) {
			t.Errorf("a command of the log that the realm continues: %v", err)
		}
		a.WaitFor("work to be published", func() bool {
			s, err := a.JS().Stream(a.Ctx, bus.WorkStream(realm))
			return err == nil && s.CachedInfo().State.LastSeq > 0
		})
		o, err := c.Resource(configMaps, "a").Create(a.Ctx, configMap("two"))
		if err != nil || o.GetMetadata().GetResourceVersion() <= last.GetRevision()+writer.LostAhead {
			t.Errorf("created %v, %v; the last revision before was %d", o, err, last.GetRevision())
		}
	})
	a.startsWith(t.TempDir(), "child", "one", "two")
	if now := checkpoint(t, dir); string(now.GetRealmId()) != string(begun.RealmID[:]) {
		t.Errorf("the realm has id %x, want %x", now.GetRealmId(), begun.RealmID)
	}
}

// A restore up to a commit has the objects of that commit. A realm that has a log is not
// replaced, and commits that are missing are named.
func TestRestoreUpTo(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	until := checkpoint(t, a.dir).GetSequence()
	a.creates("two")
	a.segments()
	a.snapshot()
	known := checkpoint(t, a.dir).GetRevision()
	a.restore(until)
	dir := t.TempDir()
	a.startsWith(dir, "one")
	a.with(dir, nil, func() { // clients know revisions of commits that are gone
		if err := resumes(a.Ctx, t, a.application(), known); !errors.Is(err, api.ErrExpired) {
			t.Errorf("a watch from revision %d, which the restored realm has not had: %v", known, err)
		}
	})
	if err := continuation.CheckNew(a.Ctx, a.Conn(bus.RoleGraph), realm); !errors.Is(err, continuation.ErrExists) {
		t.Errorf("a restore over a realm: %v", err)
	}
	from := &archivestate.Archive{Store: a.store, Realm: [16]byte(checkpoint(t, a.dir).GetRealmId())}
	_, err := from.Fold(a.Ctx, filepath.Join(t.TempDir(), "state"), 1000, state.Config{})
	var gap *archivestate.GapError
	if !errors.As(err, &gap) || gap.Last != 1000 || gap.Before != (archivestate.Range{First: gap.First - 1, Last: gap.First - 1}) || gap.Behind != (archivestate.Range{}) {
		t.Errorf("a restore of commits that do not exist: %v", err)
	}
	// Without the first segment, the snapshot after "two" is the first state that can be restored.
	name := func(n archive.Name) bool { return n.Kind == archive.Segment && n.Realm == from.Realm && n.First == 1 }
	for e, err := range a.store.List(a.Ctx, "") {
		if n, ok := archive.ParseName(e.Name); err == nil && ok && name(n) {
			err = a.store.Delete(a.Ctx, e.Name)
		}
		must.Succeed(t, err)
	}
	_, err = from.Fold(a.Ctx, filepath.Join(t.TempDir(), "state"), 1, state.Config{})
	only := checkpoint(t, a.dir).GetSequence()
	if want := (archivestate.GapError{Archive: a.store.String(), First: 1, Last: 1, Behind: archivestate.Range{First: only, Last: only}}); !errors.As(err, &gap) || *gap != want {
		t.Errorf("a restore of a commit that was pruned: %v, want %v", err, want.Error())
	}
	for last, want := range map[uint64]bool{0: true, 1: false, only - 1: false, only: true, only + 1: false} {
		if err := from.Has(a.Ctx, last); (err == nil) != want {
			t.Errorf("before a restore up to commit %d: %v", last, err)
		}
	}
	if _, err := from.Fold(a.Ctx, filepath.Join(t.TempDir(), "state"), only, state.Config{}); err != nil {
		t.Errorf("a restore of the commit that the error names: %v", err)
	}
}

// Reading the log of a restored realm again finds no damage, although the first message of its
// stream is not commit 1, and follows the last position of the log that the realm continues.
func TestScrubOfRestoredRealm(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	a.restore(0)
	a.startsWith(t.TempDir(), "one")
	log, err := eventlog.Open(a.Ctx, a.JS(), realm, 1, eventlog.NewKeys(testkit.Secrets(), realm))
	must.Succeed(t, err)
	last, first, err := log.Last(a.Ctx)
	if err != nil || first != checkpoint(t, a.dir).GetPosition()+1 {
		t.Fatalf("the stream begins at %d, %v", first, err)
	}
	if done, err := replay.NewScrub(log, first).Step(a.Ctx, last); err != nil || !done {
		t.Errorf("read up to %d: %t, %v", last, done, err)
	}
}

// A hole at the end of what is read is found by the message behind it.
func TestScrubOfHoleAtEnd(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js := newInstallation(t).JS()
	c := bus.LogConfig(realm, 1)
	c.DenyDelete = false
	stream, err := js.CreateStream(ctx, c)
	must.Succeed(t, err)
	for range 5 {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), []byte("no commit")); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, stream.DeleteMsg(ctx, 4))
	if _, err := js.UpdateStream(ctx, bus.LogConfig(realm, 1)); err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.OpenExisting(ctx, js, realm, eventlog.NewKeys(testkit.Secrets(), realm))
	must.Succeed(t, err)
	for _, ofCopy := range []bool{false, true} {
		var broken *eventlog.BrokenError
		testkit.WaitFor(t, ctx, "the hole to be found", func() bool { // on a busy machine a read may fail, and says so
			ctx, cancel := testkit.Attempt(ctx)
			defer cancel()
			scrub := replay.NewScrub(log, 1)
			if ofCopy {
				copy, err := log.OpenCopy(ctx, 1)
				if err != nil {
					return false
				}
				defer copy.Close(ctx)
				scrub = replay.ScrubCopy(copy, log, 1)
			}
			done, err := scrub.Step(ctx, 4)
			for !done && err == nil {
				done, err = scrub.Step(ctx, 4)
			}
			if done {
				t.Fatalf("of a copy: %t: the log was read up to 4, which is missing", ofCopy)
			}
			return errors.As(err, &broken)
		})
		if broken.Position != 4 || broken.Last != 4 {
			t.Errorf("of a copy: %t: %v, want message 4 missing", ofCopy, broken)
		}
	}
}

// A restored realm refuses a graph service without its archive, and another secret cannot
// continue it.
func TestRestoredWithoutArchive(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	a.restore(0)
	err := a.serve(t.TempDir(), func(c *graph.Config) { c.LeaseTTL = time.Second }).Wait()
	if err == nil || !strings.Contains(err.Error(), "--archive") {
		t.Errorf("got %v", err)
	}
}

var errNoRoom = errors.New("no room")

// If the snapshot of a restored realm cannot be stored, the realm does not exist, and can be
// restored again. A realm that a graph service has begun meanwhile is not continued.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	a.creates("one")
	a.segments()
	ctx := testkit.Context(t)
	from := &archivestate.Archive{Store: a.store, Realm: [16]byte(checkpoint(t, a.dir).GetRealmId())}
	begin := func(n *installation, store archive.Store, meanwhile func() error) error {
		dir := filepath.Join(t.TempDir(), "state")
		if _, err := from.Fold(ctx, dir, 0, state.Config{}); err != nil {
			t.Fatal(err)
		}
		s, err := state.Open(dir, state.Config{})
		must.Succeed(t, err)
		defer s.Close()
		during := &archivetest.Hooked{Store: store, Before: func(_ context.Context, c archivetest.Call) error {
			if c.Op == archivetest.Put {
				return meanwhile()
			}
			return nil
		}}
		_, err = continuation.Begin(ctx, s, continuation.Config{Conn: n.Conn(bus.RoleGraph), Realm: realm, Secrets: testkit.Secrets(), Archive: during, By: "test"})
		return err
	}
	n := newInstallation(t)
	if err := begin(n, a.store, func() error { return errNoRoom }); !errors.Is(err, errNoRoom) {
		t.Errorf("without room in the archive: %v", err)
	}
	if last := lastOf(t, n.JS()); last > 0 {
		t.Errorf("the log has %d messages", last)
	}
	a.installation, a.dir = n, t.TempDir()
	err := begin(n, a.store, sync.OnceValue(func() error { a.creates("another"); return nil }))
	if !errors.Is(err, continuation.ErrExists) {
		t.Errorf("a realm that exists was continued: %v", err)
	}
	fresh := newInstallation(t)
	if err := begin(fresh, a.store, func() error { return nil }); err != nil {
		t.Error(err)
	}
}
