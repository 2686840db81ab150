package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// After a realm was deleted and created again, a session that stays has the events of the new one, whose revisions begin
// again; live views of the old one end, and say that the page must ask again.
func TestConsoleEventsOfRealmCreatedAgain(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	b := newBrowser(ctx, t, p.console)
	b.signIn(view.SignIn{Token: p.token})
	nc, err := nats.Connect(p.server, nats.Timeout(testkit.Timeout))
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	operations := client.New(nc, client.WithActor("ana")).Operations()
	const name = "again"
	page := "/api/realms/" + name + "/"
	// Each realm has objects of which one owns others; it is deleted.
	fill := func(actor, object string, before int) {
		t.Helper()
		_, err := operations.CreateRealm(ctx, name)
		must.Succeed(t, err)
		objects := client.New(nc, client.WithActor(actor), client.WithRealm(name), client.WithTimeout(testkit.Timeout), client.WithRetryTimeout(testkit.Timeout)).
			Resource(client.Resource{Plural: "configmaps"}, "shop")
		create := func(name string, owners ...*coppicev1.OwnerReference) *client.Object {
			t.Helper()
			o, err := objects.Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: name, OwnerReferences: owners}})
			must.Succeed(t, err)
			return o
		}
		for i := range before {
			create(fmt.Sprint(object, "-", i))
		}
		owner := create(object)
		for i := range 3 {
			create(fmt.Sprint(object, "-below-", i), &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "ConfigMap", Name: object, Uid: owner.GetMetadata().GetUid()})
		}
		_, err = objects.Delete(ctx, object, client.Foreground)
		must.Succeed(t, err)
	}
	// deletion reads the events until the objects are gone, and returns the row of the deletion.
	deletion := func(actor, object string) (row view.EventRow, last uint64) {
		t.Helper()
		testkit.WaitFor(t, ctx, "the deletion of "+object, func() bool {
			var events view.Events
			b.get(page+"events", &events)
			last = events.Last
			for _, r := range events.Rows {
				if r.Mark == "" && (r.Says != "" || r.Object.Name != "" && r.Object.Resource == "configmaps" && !strings.HasPrefix(r.Object.Name, object)) {
					t.Fatalf("a row is %+v", r)
				}
				if r.Verb == bus.VerbDelete && r.Actor == actor && r.Object.Name == object {
					row = r
				}
			}
			return countsOf(row)["ObjectDeleted"] == 4
		})
		return row, last
	}
	fill("ana", "old", 0)
	old, last := deletion("ana", "old")
	conn := b.live()
	b.follow(conn, view.Ask{ID: 1, Realm: name, View: view.ViewEvents, After: last})
	_, err = operations.DeleteRealm(ctx, name, client.WithoutArchive(true))
	must.Succeed(t, err)
	testkit.WaitFor(t, ctx, "the deletion of the realm", func() bool {
		found, err := operations.ListRealms(ctx, client.ForNames{name}, client.IncludeDeleted(true))
		must.Succeed(t, err)
		return len(found) == 1 && found[0].GetState() == coppicev1.RealmState_REALM_STATE_DELETED && found[0].GetWaiting() == ""
	})
	fill("eve", "new", 20) // the old revisions are those of other events
	b.news(conn, func(n view.News) bool {
		return n.ID == 1 && n.Error != nil && n.Error.Reason == string(client.ErrExpired)
	})

	row, _ := deletion("eve", "new")
	if row.Root == old.Root {
		t.Errorf("both deletions have revision %d", row.Root)
	}
	for _, e := range allCascadeOf(b, name, url.Values{"root": {fmt.Sprint(row.Root)}}) {
		if !strings.HasPrefix(e.Name, "new") || len(e.Because) == 0 || !strings.Contains(e.Because[len(e.Because)-1], "eve deleted") {
			t.Errorf("an event of the deletion is %+v", e)
		}
	}
	p.end(os.Interrupt)
}
