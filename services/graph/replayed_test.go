package graph_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/continuation"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/recording"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// recorded is a recording of a realm, and what clients of the realm read.
type recorded struct {
	file    string
	objects map[string]string
	log     []string
}

// recordRealm makes a realm with removed objects and one that waits for its collector, and
// records it.
func recordRealm(tb testing.TB) (r recorded) {
	tb.Helper()
	run(tb, tb.TempDir(), tb.TempDir(), func(n *installation) {
		ctx, c := testkit.Context(tb), n.application()
		create(ctx, tb, c, "one", "two", "owner")
		owner, err := c.Resource(configMaps, "a").Get(ctx, "owner")
		must.Succeed(tb, err)
		child := configMap("child")
		child.Metadata.OwnerReferences = []*client.OwnerReference{client.NewOwnerReference(owner)}
		put(ctx, tb, c, child)
		for _, name := range []string{"two", "owner"} { // without a processor, child stays
			remove(ctx, tb, c, name)
		}
		r.objects, r.log, r.file = identities(ctx, tb, c), events(ctx, tb, n), record(tb, n, 1)
	})
	return r
}

// events returns the events of the log of a realm, as a client reads them from its beginning.
func events(ctx context.Context, tb testing.TB, n *installation) (all []string) {
	tb.Helper()
	c := n.as(bus.RoleReader)
	for c, err := range c.Log().Read(ctx, client.FromSequence(1)) {
		must.Succeed(tb, err)
		for _, e := range c.GetEvents() {
			all = append(all, fmt.Sprintf("commit %d at %d: %v because of %d, %v", c.GetSequence(), c.Sequence, e.GetReason(), e.GetCause(), e.GetEvent()))
		}
	}
	return all
}

// begin begins a realm that continues the recording.
func (r *recorded) begin(tb testing.TB, n *installation, store archive.Store) (recording.Folded, continuation.Begun, error) {
	tb.Helper()
	in, err := os.Open(r.file)
	must.Succeed(tb, err)
	defer in.Close()
	info, err := in.Stat()
	must.Succeed(tb, err)
	c := continuation.Config{Conn: n.Conn(bus.RoleGraph), Realm: realm, Secrets: testkit.Secrets(), Archive: store, By: "test"}
	return recording.Begin(testkit.Context(tb), in, info.Size(), filepath.Join(tb.TempDir(), "work"), c, noProgress)
}

// rows returns the content of the state in a directory.
func rows(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	snap, closeState := openState(tb, dir)
	defer closeState()
	all := map[string]string{}
	err := snap.EachRow(func(key, value []byte) error {
		all[string(key)] = string(value)
		return nil
	})
	must.Succeed(tb, err)
	return all
}

// A realm that is replayed from a recording has the objects, uids and revisions of the recorded
// one, and its log with the causes, from the first commit on. It is paused until it is
// resumed: then its collector and its clients go on.
func TestReplayIntoRealm(t *testing.T) {
	t.Parallel()
	r := recordRealm(t)
	n, root, dir := newInstallation(t), t.TempDir(), t.TempDir()
	store, err := dirstore.Open(root)
	must.Succeed(t, err)
	folded, begun, err := r.begin(t, n, store)
	must.Succeed(t, err)
	last := folded.Last
	if begun.Origin != (lifecycle.Origin{RealmID: folded.RealmID, Sequence: last.Sequence}) || begun.Sequence != last.Sequence+1 || begun.RealmID == folded.RealmID || begun.Revision != last.Revision {
		t.Errorf("begun as %+v after %+v", begun, folded.Info)
	}
	a := &archived{installation: n, dir: dir, root: root, store: store}
	a.with(dir, nil, func() {
		c := n.application()
		if got := identities(a.Ctx, t, c); !maps.Equal(got, r.objects) {
			t.Errorf("the realm has %v, want %v", got, r.objects)
		}
		all := events(a.Ctx, t, n)
		if len(all) < len(r.log) || strings.Join(all[:len(r.log)], "\n") != strings.Join(r.log, "\n") {
			t.Errorf("the log of the realm is\n%s\nwant first\n%s", strings.Join(all, "\n"), strings.Join(r.log, "\n"))
		}
		for _, revision := range []uint64{1, last.Revision / 2, last.Revision} {
			reader := n.as(bus.RoleReader)
			for c, err := range reader.Log().Read(a.Ctx, client.FromRevision(revision), client.Limit(1)) {
				if err != nil || c.GetFirstRevision() > revision {
					t.Errorf("revision %d is read from %d on, %v", revision, c.GetFirstRevision(), err)
				}
			}
		}
		if err := creation(a.Ctx, c.Conn(), uuid.Must(uuid.NewV7()), "new"); !errors.Is(err, api.ErrServiceUnavailable) {
			t.Errorf("a creation in the paused realm: %v", err)
		}
		if d := n.verify().GetDifference(); d != "" {
			t.Errorf("the state differs from the log: %s", d)
		}
	})
	offline := filepath.Join(t.TempDir(), "offline")
	if _, err := recording.Fold(t.Context(), r.file, offline, noProgress); err != nil {
		t.Fatal(err)
	}
	fold, now := rows(t, filepath.Join(offline, "state")), rows(t, filepath.Join(dir, realm))
	changed := 0
	for key, value := range now {
		if was, ok := fold[key]; !ok {
			changed++ // the origin, that the realm is paused, its pauses, and the commit at which its revisions continue
		} else if was != value {
			t.Errorf("row %q is %q, and in the fold of the recording %q", key, value, was)
		}
		delete(fold, key)
	}
	if changed != 4 || len(fold) > 0 {
		t.Errorf("the state of the realm has %d more rows than the fold of the recording, and lacks %v", changed, fold)
	}
	a.with(dir, nil, func() {
		if resumed, err := n.as(bus.RoleOperator).Operations().Resume(a.Ctx); !resumed || err != nil {
			t.Errorf("resumed: %t, %v", resumed, err)
		}
		testkit.WaitFor(t, a.Ctx, "work to be published", func() bool {
			s, err := n.JS().Stream(a.Ctx, bus.WorkStream(realm))
			return err == nil && s.CachedInfo().State.LastSeq > 0
		})
		o, err := n.application().Resource(configMaps, "a").Create(a.Ctx, configMap("new"))
		if err != nil || o.GetMetadata().GetResourceVersion() <= last.Revision+writer.LostAhead {
			t.Errorf("created %v, %v; the last revision before was %d", o, err, last.Revision)
		}
	})

	// The realm is recorded with its past, and replayed again.
	var again recorded
	a.with(t.TempDir(), nil, func() {
		again = recorded{objects: identities(a.Ctx, t, n.application()), log: events(a.Ctx, t, n), file: record(t, n, 1)}
	})
	other := newInstallation(t)
	if _, second, err := again.begin(t, other, store); err != nil || second.Origin.RealmID != begun.RealmID {
		t.Fatalf("begun as %+v, %v", second, err)
	}
	a = &archived{installation: other, root: root, store: store}
	a.with(t.TempDir(), nil, func() {
		if got := identities(a.Ctx, t, other.application()); !maps.Equal(got, again.objects) {
			t.Errorf("the realm has %v, want %v", got, again.objects)
		}
		if all := events(a.Ctx, t, other); len(all) < len(again.log) || strings.Join(all[:len(again.log)], "\n") != strings.Join(again.log, "\n") {
			t.Errorf("the log of the realm is\n%s\nwant first\n%s", strings.Join(all, "\n"), strings.Join(again.log, "\n"))
		}
	})
}

// Wherever a replay into a realm ends early, there is no realm afterwards, the error names what is left in the
// archive, and the same replay succeeds later.
func TestReplayIntoRealmFails(t *testing.T) {
	t.Parallel()
	r := recordRealm(t)
	ctx := testkit.Context(t)
	n, root := newInstallation(t), t.TempDir()
	js := n.JS()
	store, err := dirstore.Open(root)
	must.Succeed(t, err)
	for left := range 3 { // the segment, the snapshot, and its verification
		room := left
		_, _, err := r.begin(t, n, &archivetest.Hooked{Store: store, Before: func(_ context.Context, c archivetest.Call) error {
			switch c.Op {
			case archivetest.Put:
				if room--; room < 0 {
					return errNoRoom
				}
			case archivetest.Delete: // it fails too: what is left is what a crash leaves
				return errNoRoom
			}
			return nil
		}})
		if !errors.Is(err, errNoRoom) || strings.Contains(err.Error(), "/segment/") != (left == 1) {
			t.Errorf("with room for %d entries: %v", left, err)
		}
		if _, err := js.Stream(ctx, bus.LogStream(realm)); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("with room for %d entries, there is a log: %v", left, err)
		}
	}
	// A crash between the creation of the stream and the first commit.
	if _, err := eventlog.Begin(ctx, js, realm, 1, 7, eventlog.NewKeys(testkit.Secrets(), realm)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.begin(t, n, store); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.begin(t, n, store); !errors.Is(err, continuation.ErrExists) {
		t.Errorf("a realm was replayed twice: %v", err)
	}

	b, err := os.ReadFile(r.file)
	if err == nil {
		b[len(b)/2] ^= 1
		r.file = filepath.Join(t.TempDir(), "damaged")
		err = os.WriteFile(r.file, b, 0o600)
	}
	must.Succeed(t, err)
	fresh := newInstallation(t)
	empty := t.TempDir()
	if store, err = dirstore.Open(empty); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.begin(t, fresh, store); err == nil || !strings.Contains(err.Error(), "damaged segment: byte ") {
		t.Errorf("a damaged recording: %v", err)
	}
	for e, err := range store.List(ctx, "") {
		t.Errorf("a damaged recording leaves %v, %v", e, err)
	}
}
