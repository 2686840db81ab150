package client_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// After a realm was deleted and created again, WatchGraph begins again with the revisions of the new log: when it resumes,
// when it reads the first page or a further one, and when it receives changes. It asks no replica of the new log for a
// revision of the old one.
func TestWatchGraphOfRealmCreatedAgain(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	answers := testkit.Conn(t, server, bus.RoleAnswers)
	requests := make(chan *nats.Msg, 10)
	answersTo(t, answers, bus.VerbWatchGraph, func(m *nats.Msg) { requests <- m })
	c := client.New(testkit.Conn(t, server, bus.RoleViewer), client.WithActor(bus.RoleViewer), client.WithTimeout(testkit.Timeout))
	events := make(chan string, 100)
	go func() {
		for e, err := range c.WatchGraph(ctx) {
			switch {
			case err != nil:
				events <- err.Error()
			case e.Object != nil:
				events <- fmt.Sprintf("%s %s@%d", e.Type, e.Object.GetMetadata().GetUid(), e.Revision)
			case e.Synced || e.Restarted:
				events <- fmt.Sprintf("synced %t restarted %t at %d", e.Synced, e.Restarted, e.Revision)
			}
		}
		close(events)
	}()
	request := func(want *coppicev1.WatchGraphRequest) *nats.Msg {
		t.Helper()
		m := testkit.Receive(t, ctx, "a request", requests)
		var r coppicev1.WatchGraphRequest
		want.Protocol = 1
		if err := proto.Unmarshal(m.Data, &r); err != nil || !proto.Equal(&r, want) {
			t.Fatalf("the client asks for %v, %v; want %v", &r, err, want)
		}
		return m
	}
	batch := func(realm string, previous, revision uint64, uids ...string) *coppicev1.GraphBatch {
		b := &coppicev1.GraphBatch{RealmId: []byte(realm), PreviousRevision: previous, Revision: revision, Partial: true}
		for _, uid := range uids {
			b.Changes = append(b.Changes, &coppicev1.GraphChange{
				Type: coppicev1.WatchEvent_TYPE_ADDED, Resource: "pods", Object: &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Uid: uid, ResourceVersion: revision}},
			})
		}
		return b
	}
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := testkit.Receive(t, ctx, w, events); got != w {
				t.Errorf("delivered %q, want %q", got, w)
			}
		}
	}
	first, second := []byte("first"), []byte("second")
	expired := func(stream *nats.Msg) {
		reply(t, stream, &coppicev1.GraphBatch{Error: (&client.Error{Reason: client.ErrExpired, Message: "no longer stored"}).Status()})
	}
	t.Log("the first commit gives the log its id; a watch that ends at revision 0 begins again")
	stream := request(&coppicev1.WatchGraphRequest{})
	reply(t, stream, batch("", 0, 0))
	reply(t, request(&coppicev1.WatchGraphRequest{Page: true}), batch("", 0, 0))
	expect("synced true restarted false at 0")
	expired(stream)
	stream = request(&coppicev1.WatchGraphRequest{})
	reply(t, stream, batch("first", 0, 60))
	reply(t, request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 60, RealmId: first}), batch("first", 0, 60, "a"))
	expect("ADDED a@60", "synced true restarted false at 60")

	t.Log("it resumes")
	reply(t, stream, batch("first", 61, 62)) // a batch was lost
	stream = request(&coppicev1.WatchGraphRequest{FromRevision: 60, RealmId: first})
	reply(t, stream, batch("second", 0, 5))
	stream = request(&coppicev1.WatchGraphRequest{RealmId: second})
	reply(t, stream, batch("second", 0, 6))
	reply(t, request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 6, RealmId: second}), batch("second", 0, 6, "b"))
	expect("synced false restarted true at 0", "ADDED b@6", "synced true restarted false at 6")

	t.Log("the first batch of a watch that begins")
	expired(stream)
	stream = request(&coppicev1.WatchGraphRequest{MinRevision: 6, RealmId: second})
	reply(t, stream, batch("first", 0, 3))
	page := request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 3, RealmId: first})
	expect("synced false restarted true at 0")

	t.Log("a further page")
	b := batch("first", 0, 3, "c")
	b.Continue = "x"
	reply(t, page, b)
	expect("ADDED c@3")
	reply(t, request(&coppicev1.WatchGraphRequest{Page: true, Continue: "x", MinRevision: 3, RealmId: first}), batch("second", 0, 2, "d"))
	stream = request(&coppicev1.WatchGraphRequest{RealmId: second})
	reply(t, stream, batch("second", 0, 2))
	reply(t, request(&coppicev1.WatchGraphRequest{Page: true, MinRevision: 2, RealmId: second}), batch("second", 0, 2, "d"))
	expect("synced false restarted true at 0", "ADDED d@2", "synced true restarted false at 2")

	t.Log("changes of another log, also if their revisions fit")
	reply(t, stream, batch("first", 2, 3, "e"))
	stream = request(&coppicev1.WatchGraphRequest{RealmId: first})
	reply(t, stream, &coppicev1.GraphBatch{Error: (&client.Error{Reason: client.ErrForbidden, Message: "no rule allows it"}).Status()})
	expect("no rule allows it")
}

// A caller has what there is after its realm was deleted and created again with fewer commits than before.
func TestWatchGraphAfterDeletedRealm(t *testing.T) {
	t.Parallel()
	s := start(t)
	const name = "again"
	operations := s.Operations()
	realm := func() *client.Client {
		t.Helper()
		_, err := operations.CreateRealm(s.Ctx, name)
		must.Succeed(t, err)
		return client.New(s.Connect(bus.LocalUser), client.WithRealm(name), client.WithTimeout(testkit.Timeout), client.WithRetryTimeout(testkit.Timeout))
	}
	create := func(c *client.Client, object string) {
		t.Helper()
		_, err := c.Resource(configMaps, "shop").Create(s.Ctx, &client.Object{Metadata: &client.ObjectMeta{Name: object}})
		must.Succeed(t, err)
	}
	c := realm()
	for i := range 20 {
		create(c, fmt.Sprint("old-", i))
	}
	m := newGraphMirror()
	m.watch(s, c, nil)
	s.WaitFor("the caller to have all", func() bool { return m.agrees(s, c) })
	_, err := operations.DeleteRealm(s.Ctx, name, client.WithoutArchive(true))
	must.Succeed(t, err)
	s.WaitFor("the deletion", func() bool {
		found, err := operations.ListRealms(s.Ctx, client.ForNames{name}, client.IncludeDeleted(true))
		must.Succeed(t, err)
		return len(found) == 1 && found[0].GetState() == coppicev1.RealmState_REALM_STATE_DELETED && found[0].GetWaiting() == ""
	})
	c = realm()
	create(c, "new")
	s.WaitFor("the caller to have what the new realm has", func() bool { return m.agrees(s, c) })
	create(c, "newer")
	s.WaitFor("the caller to have a change of the new realm", func() bool { return m.agrees(s, c) })
}
