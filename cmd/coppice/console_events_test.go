package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// allRows reads rows of the log to its beginning, and adds up the rows of a command as pages do.
func (b *browser) allRows(query url.Values) (rows []view.EventRow, replies int) {
	b.t.Helper()
	query.Del("before")
	for {
		var page view.Events
		b.get("/api/realms/default/events?"+query.Encode(), &page)
		replies++
		if len(page.Missing) > 0 || page.Last == 0 {
			b.t.Errorf("events of %v: last %d, missing %v", query, page.Last, page.Missing)
		}
		rows = addRows(rows, page.Rows)
		if page.Before == 0 {
			return rows, replies
		}
		query.Set("before", fmt.Sprint(page.Before))
	}
}

func addRows(rows, more []view.EventRow) []view.EventRow {
next:
	for _, m := range more {
		for i := range rows {
			if r := &rows[i]; m.Mark == "" && r.Mark == "" && r.Root == m.Root {
				counts := countsOf(*r)
				for typ, n := range countsOf(m) {
					counts[typ] += n
				}
				r.Begins, r.Counts = r.Begins || m.Begins, nil
				for typ, n := range counts {
					r.Counts = append(r.Counts, view.EventCount{Type: typ, Count: n})
				}
				continue next
			}
		}
		rows = append(rows, m)
	}
	return rows
}

func countsOf(r view.EventRow) map[string]int {
	counts := map[string]int{}
	for _, c := range r.Counts {
		counts[c.Type] = c.Count
	}
	return counts
}

// rowsWith returns the rows of commands with a verb.
func rowsWith(rows []view.EventRow, verb string) (found []view.EventRow) {
	for _, r := range rows {
		if r.Verb == verb && r.Mark == "" {
			found = append(found, r)
		}
	}
	return found
}

// A command with all that followed from it is one row of the events, in however many replies; filters select events, and
// what is new arrives.
func TestConsoleEvents(t *testing.T) { //nolint:tparallel // the parts share a realm
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	b := newBrowser(ctx, t, p.console)
	b.signIn(view.SignIn{Token: p.token})
	objects := p.configMaps()
	create := func(name string, owner *coppicev1.Object) *coppicev1.Object {
		t.Helper()
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
		if owner != nil {
			o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: owner.GetMetadata().GetName(), Uid: owner.GetMetadata().GetUid()}}
		}
		o, err := objects.Create(ctx, o)
		must.Succeed(t, err)
		return o
	}
	// Each is owned by the one before, and owns two others.
	const depth = 6
	root := create("c0", nil)
	last := root
	for i := 1; i < depth; i++ {
		last = create(fmt.Sprint("c", i), last)
		create(fmt.Sprintf("c%da", i), last)
		create(fmt.Sprintf("c%db", i), last)
	}
	const below = 3 * (depth - 1)

	var page view.Events
	b.get("/api/realms/default/events", &page)
	conn := b.live()
	b.follow(conn, view.Ask{ID: 1, Realm: "default", View: view.ViewEvents, Events: &view.EventFilter{}, After: page.Last})
	b.follow(conn, view.Ask{ID: 2, Realm: "default", View: view.ViewEvents, Events: &view.EventFilter{Name: "c3"}, After: page.Last})
	_, err := objects.Delete(ctx, "c0", client.Background)
	must.Succeed(t, err)

	rows := map[int][]view.EventRow{}
	done := func() bool {
		deleted, ofC3 := rowsWith(rows[1], bus.VerbDelete), rowsWith(rows[2], bus.VerbDelete)
		return len(deleted) == 1 && countsOf(deleted[0])["ObjectDeleted"] == below+1 && len(ofC3) == 1 && countsOf(ofC3[0])["ObjectDeleted"] == 1
	}
	b.news(conn, func(n view.News) bool {
		if n.Error != nil {
			t.Fatalf("the live view fails: %+v", n.Error)
		}
		if n.Events != nil {
			rows[n.ID] = addRows(rows[n.ID], n.Events.Rows)
		}
		return done()
	})
	deleted := rowsWith(rows[1], bus.VerbDelete)[0]
	if !deleted.Begins || deleted.Actor != "ana" || deleted.Object.Name != "c0" || deleted.Objects != 1 {
		t.Errorf("the row of the deletion is %+v", deleted)
	}
	if r := rowsWith(rows[2], bus.VerbDelete)[0]; r.Root != deleted.Root || r.Actor != "ana" {
		t.Errorf("the row of what the deletion did to c3 is %+v", r)
	}

	all, replies := b.allRows(url.Values{})
	small, more := b.allRows(url.Values{"limit": {"1"}, "search": {"2"}})
	if replies != 1 || more < depth {
		t.Errorf("%d replies, and %d with small limits", replies, more)
	}
	for name, list := range map[string][]view.EventRow{"one reply": all, "many replies": small} {
		is := rowsWith(list, bus.VerbDelete)
		if len(is) != 1 || is[0].Root != deleted.Root || countsOf(is[0])["ObjectDeleted"] != below+1 || !is[0].Begins {
			t.Errorf("%s: the deletion is %+v", name, is)
		}
		if created := rowsWith(list, bus.VerbCreate); len(created) < below+1 {
			t.Errorf("%s: %d creations", name, len(created))
		}
	}
	t.Run("filters", func(t *testing.T) { testEventFilters(t, b, deleted, last, below) })
	t.Run("cascade", func(t *testing.T) { testEventCascade(t, b, deleted, below) })
	p.end(os.Interrupt)
}

func testEventFilters(t *testing.T, b *browser, deleted view.EventRow, last *coppicev1.Object, below int) {
	t.Helper()
	at := func(d time.Duration) string { return deleted.Time.Add(d).Format(time.RFC3339Nano) }
	for _, c := range []struct {
		query            url.Values
		creates, deletes int // events
	}{
		{url.Values{"name": {"c3"}}, 1, 1},
		{url.Values{"uid": {last.GetMetadata().GetUid()}}, 1, 1},
		{url.Values{"resource": {"configmaps"}, "namespace": {"shop"}}, below + 1, below + 1},
		{url.Values{"resource": {"secrets"}}, 0, 0},
		{url.Values{"namespace": {"other"}}, 0, 0},
		{url.Values{"actor": {"ana"}, "resource": {"configmaps"}}, below + 1, below + 1},
		{url.Values{"actor": {"ana"}, "name": {"c5a"}}, 1, 1},
		{url.Values{"actor": {"eve"}}, 0, 0},
		{url.Values{"cause": {fmt.Sprint(deleted.Root)}}, 0, below + 1},
		{url.Values{"cause": {fmt.Sprint(deleted.Root)}, "name": {"c4b"}}, 0, 1},
		{url.Values{"since": {at(0)}}, 0, below + 1},
		{url.Values{"until": {at(0)}, "resource": {"configmaps"}}, below + 1, 0},
		{url.Values{"since": {at(time.Hour)}}, 0, 0},
	} {
		for _, search := range []string{"", "3"} {
			if search != "" {
				c.query.Set("search", search)
			}
			rows, _ := b.allRows(c.query)
			creates, deletes := 0, 0
			for _, r := range rowsWith(rows, bus.VerbCreate) {
				creates += countsOf(r)["ObjectCreated"]
			}
			for _, r := range rowsWith(rows, bus.VerbDelete) {
				if r.Root != deleted.Root || r.Actor != "ana" {
					t.Errorf("%v: a row is %+v", c.query, r)
				}
				deletes += countsOf(r)["ObjectDeleted"]
			}
			if creates != c.creates || deletes != c.deletes {
				t.Errorf("%v: %d creations and %d deletions, want %d and %d", c.query, creates, deletes, c.creates, c.deletes)
			}
		}
	}
	for _, query := range []string{"before=x", "cause=0", "since=monday", "limit=-1"} {
		b.refused(http.MethodGet, "/api/realms/default/events?"+query, nil, http.StatusBadRequest, "BadRequest")
	}
	b.refused(http.MethodGet, "/api/realms/default/events?cause=1000000", nil, http.StatusNotFound, "NotFound")
	b.refused(http.MethodGet, "/api/realms/default/cascade", nil, http.StatusBadRequest, "BadRequest")
	for _, from := range []string{"", "&from=1", "&from=1&skip=1", "&from=1000000"} {
		b.refused(http.MethodGet, "/api/realms/default/cascade?root=1000000"+from, nil, http.StatusNotFound, "NotFound")
	}
	for _, query := range []string{"name=none", "actor=eve", "since=" + at(time.Hour)} {
		var page map[string]any
		b.get("/api/realms/default/events?"+query, &page)
		if rows, is := page["rows"].([]any); !is || len(rows) > 0 {
			t.Errorf("%s: rows is %v", query, page["rows"])
		}
	}
	var removals view.Events // of dependents: the filter leaves out the command itself
	b.get("/api/realms/default/events?name=c5a", &removals)
	for _, r := range rowsWith(removals.Rows, bus.VerbDelete) {
		for _, n := range r.Counts {
			if n.Own > 0 {
				t.Errorf("name=c5a: the row has an event of the command itself: %+v", r)
			}
		}
	}
	for _, e := range allCascade(b, url.Values{"root": {fmt.Sprint(deleted.Root)}}) {
		var page view.Events
		b.get(fmt.Sprintf("/api/realms/default/events?cause=%d", e.Revision), &page)
		own := 0
		for _, n := range page.Rows[0].Counts {
			own += n.Own
		}
		if is := e.Revision == deleted.Root; len(page.Rows) != 1 || page.Rows[0].Begins != is || own > 0 != is {
			t.Errorf("cause=%d of %s: %+v", e.Revision, e.Type, page.Rows)
		}
	}
}

// allCascade reads all events of a row.
func allCascade(b *browser, query url.Values) (events []view.LogEvent) {
	b.t.Helper()
	return allCascadeOf(b, "default", query)
}

func allCascadeOf(b *browser, realm string, query url.Values) (events []view.LogEvent) {
	b.t.Helper()
	for {
		var c view.Cascade
		b.get("/api/realms/"+realm+"/cascade?"+query.Encode(), &c)
		events = append(events, c.Events...)
		if c.From == 0 {
			return events
		}
		query.Set("from", fmt.Sprint(c.From))
		query.Del("skip")
		if c.Skip > 0 {
			query.Set("skip", fmt.Sprint(c.Skip))
		}
	}
}

// The events of a row come once each, the oldest first, with their causes, in however many replies.
func testEventCascade(t *testing.T, b *browser, deleted view.EventRow, below int) {
	t.Helper()
	for _, limits := range []url.Values{{}, {"limit": {"2"}}, {"search": {"1"}}, {"limit": {"1"}, "name": {"c4a"}}} {
		limits.Set("root", fmt.Sprint(deleted.Root))
		events := allCascade(b, limits)
		removed := 0
		for i, e := range events {
			if i > 0 && e.Revision <= events[i-1].Revision {
				t.Errorf("%v: revision %d after %d", limits, e.Revision, events[i-1].Revision)
			}
			if len(e.Because) == 0 || !strings.Contains(e.Because[len(e.Because)-1], "ana deleted") {
				t.Errorf("%v: revision %d happened because %q", limits, e.Revision, e.Because)
			}
			if e.Type == "ObjectDeleted" {
				removed++
			}
		}
		want := below + 1
		if limits.Get("name") != "" {
			want = 1
		}
		if removed != want {
			t.Errorf("%v: %d removals, want %d", limits, removed, want)
		}
	}
}

// A user who may not read the log is refused, by pages and by the live connection.
func TestConsoleEventsRefused(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data, "--auth", "--console", "none").awaitReady(ctx, data)
	b := newBrowser(ctx, t, startConsole(ctx, t, "--server", p.server))
	b.signIn(view.SignIn{User: "viewer", Password: passwordOf(t, data, "viewer")})
	b.refused(http.MethodGet, "/api/realms/default/events", nil, http.StatusForbidden, "Forbidden")
	b.refused(http.MethodGet, "/api/realms/default/cascade?root=1", nil, http.StatusForbidden, "Forbidden")
	conn := b.live()
	b.follow(conn, view.Ask{ID: 1, Realm: "default", View: view.ViewEvents})
	b.news(conn, func(n view.News) bool { return n.ID == 1 && n.Error != nil && n.Error.Reason == "Forbidden" })
}
