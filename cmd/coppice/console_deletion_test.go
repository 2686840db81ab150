package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// A deletion does what its plan says: it is planned and carried out, and refused with what has changed in between.
func TestConsoleDeletesByPlan(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	b := newBrowser(ctx, t, p.console)
	b.signIn(view.SignIn{Token: p.token})
	create := func(name string, owner *client.Object, finalizers ...string) *client.Object {
		m := &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers}
		if owner != nil {
			m.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: owner.GetMetadata().GetName(), Uid: owner.GetMetadata().GetUid()}}
		}
		o, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: m})
		must.Succeed(t, err)
		return o
	}
	root := create("root", nil)
	middle := create("middle", root)
	for _, name := range []string{"a", "b", "c"} {
		create(name, middle)
	}
	create("kept", root, "example.com/never")
	uid := root.GetMetadata().GetUid()

	const path = "/api/realms/default/plan/configmaps/shop/root"
	var v view.Plan
	b.get(path+"?uid="+uid, &v)
	if v.Counts != (view.PlanCounts{Removed: 5, RemovedLater: 1}) || v.Policy != "Background" || v.Confirm || v.Root.UID != uid || v.Root.Below != 5 || v.Root.Children != 2 || len(v.Notes) != 0 ||
		v.Says != "6 objects removed, 1 of them when others have done their part" || v.Command != "coppice delete configmaps/root -n shop --plan="+v.Plan {
		t.Errorf("the plan is %+v", v)
	}
	if n := v.Below.Nodes; len(n) != 2 || v.Below.Total != 2 || n[0].Name != "middle" || n[0].Children != 1 || n[0].Below != 3 ||
		n[1].Name != "kept" || n[1].Outcome != "RemovedLater" || n[1].Says != "removed after example.com/never (no consumer)" {
		t.Errorf("below the root are %+v", v.Below)
	}
	below := "/api/realms/default/below/" + v.ID + "?uid=" + middle.GetMetadata().GetUid()
	var part view.PlanBelow
	if b.get(below, &part); len(part.Nodes) != 1 || part.Nodes[0].Group != 3 || part.Nodes[0].Resource != "configmaps" || part.Nodes[0].Name != "" || part.Nodes[0].Outcome != "Removed" {
		t.Errorf("below the middle are %+v", part)
	}
	if b.get(below+"&resource=configmaps&from=1", &part); len(part.Nodes) != 2 || part.Total != 3 || part.Nodes[0].Name != "b" || part.Nodes[1].Name != "c" {
		t.Errorf("the group has %+v", part)
	}
	for refused, status := range map[string]int{
		path + "?policy=Sideways": 400, path + "?grace=-1": 400, path + "?grace=x": 400, path + "?uid=another": 409, "/api/realms/default/plan/configmaps/shop/never": 404,
		"/api/realms/default/plan/configmaps/-/root": 400, "/api/realms/default/below/never?uid=" + uid: 404, "/api/realms/default/below/" + v.ID + "?uid=never": 404, below + "&from=x": 400,
	} {
		if got, text := b.ask(http.MethodGet, refused, nil, nil); got != status {
			t.Errorf("GET %s: %d %s, want %d", refused, got, text, status)
		}
	}

	// Something has changed: the deletion is refused, and nothing is deleted.
	create("later", middle)
	var f view.Failure
	if status, text := b.ask(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: v.Object, Plan: v.Plan}, &f); status != http.StatusConflict || len(f.Causes) == 0 || !strings.Contains(f.Causes[0], "later") {
		t.Errorf("a deletion by an old plan: %d %s", status, text)
	}
	if o, err := p.configMaps().Get(ctx, "root"); err != nil || o.GetMetadata().GetDeletionTimestamp() != nil {
		t.Errorf("the root after a deletion that was refused: %v, %v", o, err)
	}
	for _, wrong := range []any{
		map[string]any{"object": v.Object, "plan": v.Plan, "more": 1}, view.Delete{Object: v.Object}, view.Delete{Object: v.Object, Plan: "mixed-0123456789abcdef@7"},
		view.Delete{Object: v.Object, Plan: "unprotect-0123456789abcdef@7"}, view.Delete{Object: v.Object, Plan: "background-with01234567-0123456789abcdef@7"}, strings.Repeat("x", 70_000),
	} {
		b.refused(http.MethodPost, "/api/realms/default/delete", wrong, http.StatusBadRequest, "BadRequest")
	}
	csrf := b.csrf
	b.csrf = ""
	b.refused(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: v.Object, Plan: v.Plan}, http.StatusForbidden, "Forbidden")
	b.csrf = csrf

	b.get(path+"?uid="+uid+"&policy=Foreground&grace=7", &v)
	if !strings.HasPrefix(v.Plan, "foreground-grace7-") {
		t.Errorf("the plan in the foreground is %s", v.Plan)
	}
	var done view.Deleted
	if status, text := b.ask(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: v.Object, Plan: v.Plan}, &done); status != http.StatusOK || !done.Pending || done.Object != v.Object {
		t.Fatalf("the deletion: %d %s", status, text)
	}
	marked := func(uid, kind string) uint64 {
		var h view.History
		b.get("/api/realms/default/history?uid="+uid, &h)
		for _, e := range h.Events {
			if e.Type == kind {
				return e.Revision
			}
		}
		return 0
	}
	if at := marked(uid, "DeletionMarked"); at != done.Revision {
		t.Errorf("the object was marked at revision %d, and the reply says %d", at, done.Revision)
	}
	single := create("single", nil)
	// Another object of the same name, and an object that is deleted without comparing the plan.
	b.get("/api/realms/default/plan/configmaps/shop/single", &v)
	wrong := v.Object
	wrong.UID = uid
	for _, unbound := range []bool{false, true} {
		b.refused(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: wrong, Plan: v.Plan, Unbound: unbound}, http.StatusConflict, "Conflict")
	}
	other := create("other", nil)
	b.get("/api/realms/default/plan/configmaps/shop/other?policy=Orphan", &v)
	create("below", other)
	if status, text := b.ask(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: v.Object, Plan: v.Plan, Unbound: true}, &done); status != http.StatusOK || done.Object != v.Object {
		t.Errorf("a deletion that is not bound to its plan: %d %s", status, text)
	}
	testkit.WaitFor(t, ctx, "the dependent to be orphaned", func() bool {
		o, err := p.configMaps().Get(ctx, "below")
		return err == nil && len(o.GetMetadata().GetOwnerReferences()) == 0
	})
	b.get("/api/realms/default/plan/configmaps/shop/single", &v)
	b.ask(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: v.Object, Plan: v.Plan}, &done)
	if at := marked(single.GetMetadata().GetUid(), "ObjectDeleted"); done.Pending || at == 0 || at != done.Revision {
		t.Errorf("the object was removed at revision %d, and the reply says %+v", at, done)
	}
	p.end(os.Interrupt)
}

// asOperator returns a client of the operator of a `coppice up --auth`.
func asOperator(t *testing.T, p *upProcess, data string) *client.Client {
	t.Helper()
	nc, err := nats.Connect(p.server, nats.Timeout(testkit.Timeout), nats.CustomInboxPrefix(bus.InboxPrefix("operator")), nats.UserInfo("operator", passwordOf(t, data, "operator")))
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	return client.New(nc, client.WithActor("operator"))
}

// What a user may not do is not offered, and is refused when it is tried all the same.
func TestConsoleRights(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data, "--auth").awaitReady(ctx, data)
	operator, viewer := newBrowser(ctx, t, p.console), newBrowser(ctx, t, p.console)
	for user, b := range map[string]*browser{"operator": operator, "viewer": viewer} {
		b.signIn(view.SignIn{User: user, Password: passwordOf(t, data, user)})
	}
	configMaps := asOperator(t, p, data).Resource(client.Resource{Plural: "configmaps"}, "shop")
	_, err := configMaps.Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "kept", Finalizers: []string{"example.com/never"}}})
	must.Succeed(t, err)
	const ofObject = "/api/realms/default/rights?resource=configmaps&namespace=shop&finalizer=example.com/never"
	var all, some view.Rights
	operator.get(ofObject, &all)
	if both := []string{"example.com/never"}; !all.Delete || !all.Plan || !slices.Equal(all.RemoveFinalizers, both) || !slices.Equal(all.ForceFinalizers, both) || !all.ListParked || !all.RetryParked || !all.DropParked || !all.Resume || !all.Events {
		t.Errorf("an operator may %+v", all)
	}
	if viewer.get(ofObject, &some); some.Delete || !some.Plan || len(some.RemoveFinalizers)+len(some.ForceFinalizers) != 0 || some.RetryParked || some.DropParked || some.Resume || some.Events {
		t.Errorf("a viewer may %+v", some)
	}
	if operator.get("/api/realms/default/rights", &all); all.Delete || all.Plan || !all.Resume {
		t.Errorf("in the realm an operator may %+v", all)
	}
	for _, wrong := range []string{"?finalizer=example.com/never", "?resource=configmaps", "?resource=configmaps&namespace=shop&finalizer=a%20b"} {
		operator.refused(http.MethodGet, "/api/realms/default/rights"+wrong, nil, http.StatusBadRequest, "BadRequest")
	}
	var v view.Plan
	viewer.get("/api/realms/default/plan/configmaps/shop/kept", &v)
	viewer.refused(http.MethodPost, "/api/realms/default/delete", view.Delete{Object: v.Object, Plan: v.Plan}, http.StatusForbidden, "Forbidden")
	operator.refused(http.MethodGet, "/api/realms/default/below/"+v.ID+"?uid="+v.Object.UID, nil, http.StatusNotFound, "NotFound") // the plans of a user are not those of others
	if o, err := configMaps.Get(ctx, "kept"); err != nil || o.GetMetadata().GetDeletionTimestamp() != nil {
		t.Errorf("the object is %v, %v", o, err)
	}
}

// What blocks a deletion is repaired, and the deletion is followed to its end.
func TestConsoleRepairs(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	b := newBrowser(ctx, t, p.console)
	b.signIn(view.SignIn{Token: p.token})
	const finalizer, path = "example.com/never", "/api/realms/default/"
	root, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "root"}})
	must.Succeed(t, err)
	kept, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: "kept", Finalizers: []string{finalizer},
		OwnerReferences: []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "root", Uid: root.GetMetadata().GetUid()}},
	}})
	must.Succeed(t, err)
	uid, at := root.GetMetadata().GetUid(), view.Ref{Resource: "configmaps", Namespace: "shop", Name: "kept", UID: kept.GetMetadata().GetUid()}
	conn := b.live()
	b.follow(conn, view.Ask{ID: 7, Realm: "default", View: view.ViewDeletion, UID: uid})
	b.news(conn, func(n view.News) bool {
		return n.ID == 7 && n.Deletion != nil && n.Deletion.State == view.NotDeleted && n.Deletion.Root.Name == "root"
	})
	b.follow(conn, view.Ask{ID: 6, Realm: "default", View: view.ViewDeletion, UID: uid, After: 1_000_000})
	b.news(conn, func(n view.News) bool {
		return n.ID == 6 && n.Deletion != nil && n.Deletion.Loading && n.Deletion.State == view.NotDeleted
	})
	b.follow(conn, view.Ask{ID: 8, Realm: "default", View: view.ViewDeletion})
	b.news(conn, func(n view.News) bool { return n.ID == 8 && n.Error != nil && n.Error.Reason == "BadRequest" })
	var progress view.Progress
	if b.get(path+"deletion?uid=never", &progress); progress.State != view.Unknown || progress.Root.UID != "never" || progress.Waiting == nil {
		t.Errorf("an object that is not known: %+v", progress)
	}
	b.refused(http.MethodGet, path+"deletion", nil, http.StatusBadRequest, "BadRequest")

	_, err = p.configMaps().Delete(ctx, "root")
	must.Succeed(t, err)
	b.news(conn, func(n view.News) bool {
		return n.ID == 7 && n.Deletion.State == view.Running && n.Deletion.Gone && n.Deletion.Remaining == 1 && n.Deletion.Removed == 1 && n.Deletion.Blocked == 1 &&
			len(n.Deletion.Waiting) == 1 && n.Deletion.Waiting[0].Ref == at && n.Deletion.Waiting[0].WaitsFor == "finalizer "+finalizer
	})
	wrong := at
	wrong.UID = uid
	for reason, r := range map[string]view.RemoveFinalizer{
		"BadRequest": {Object: at, Finalizer: finalizer, Reason: " \n"}, "Conflict": {Object: wrong, Finalizer: finalizer, Reason: "test"},
	} {
		b.refused(http.MethodPost, path+"finalizer", r, map[string]int{"BadRequest": 400, "Conflict": 409}[reason], reason)
	}
	b.refused(http.MethodPost, path+"finalizer", view.RemoveFinalizer{Object: at, Finalizer: "example.com/other", Reason: "test"}, http.StatusConflict, "Conflict")
	b.refused(http.MethodPost, path+"finalizer", view.RemoveFinalizer{Object: at, Finalizer: finalizer, Reason: "test", Call: 3}, http.StatusBadRequest, "BadRequest")

	// A program works on the call: the refusal names it, and the removal that names it is done.
	program, err := nats.Connect(p.server, nats.Timeout(testkit.Timeout))
	must.Succeed(t, err)
	t.Cleanup(program.Close)
	working, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(done) })
	running, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	go func() {
		_ = client.New(program, client.WithActor("bob")).RunFinalizer(running, finalizer, func(context.Context, *client.Call) error {
			close(working)
			<-done
			return nil
		})
	}()
	testkit.Receive(t, ctx, "the call", working)
	force := view.RemoveFinalizer{Object: at, Finalizer: finalizer, Reason: " the bucket is gone ", Force: true}
	var f view.Failure
	if status, text := b.ask(http.MethodPost, path+"finalizer", force, &f); status != http.StatusConflict || f.Call == 0 || !strings.HasSuffix(f.Message, fmt.Sprintf("name call %d", f.Call)) {
		t.Errorf("while a program works on the call: %d %s", status, text)
	}
	force.Call = f.Call
	var says view.Done
	if status, text := b.ask(http.MethodPost, path+"finalizer", force, &says); status != http.StatusOK || says.Says != "The finalizer "+finalizer+" was removed from configmaps/kept; the object is gone." || len(says.Warnings) != 1 {
		t.Errorf("the removal: %d %s", status, text)
	}
	b.news(conn, func(n view.News) bool {
		return n.ID == 7 && n.Deletion.State == view.Ended && n.Deletion.Removed == 2 && n.Deletion.Remaining == 0 && n.Deletion.Root.UID == uid && !n.Deletion.Began.IsZero()
	})
	if b.get(path+"deletion?uid="+uid, &progress); progress.State != view.Ended || progress.Removed != 2 {
		t.Errorf("after the end: %+v", progress)
	}
	var h view.History
	b.get(path+"history?uid="+at.UID, &h)
	if text, err := json.Marshal(h); err != nil || !strings.Contains(string(text), `the bucket is gone`) || strings.Contains(string(text), " the bucket is gone ") {
		t.Errorf("the history is %s, %v", text, err)
	}

	// Parked work is listed with what it is, put back and dropped.
	broken, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "broken", Finalizers: []string{"example.com/broken"}}, Extra: []byte(`{"data":{"key":"hushhush"}}`)})
	must.Succeed(t, err)
	_, err = p.configMaps().Delete(ctx, "broken")
	must.Succeed(t, err)
	go func() {
		_ = client.New(program, client.WithActor("bob")).RunFinalizer(running, "example.com/broken", func(context.Context, *client.Call) error {
			return client.Permanent(errors.New("no bucket"))
		})
	}()
	var parked view.ParkedPage
	testkit.WaitFor(t, ctx, "the parked work to be listed", func() bool {
		b.get(path+"parked", &parked)
		return len(parked.Work) == 1
	})
	id := parked.Work[0].ID
	if w := parked.Work[0]; w.Says != "the call of finalizer example.com/broken" || w.Error != "no bucket" || w.Attempts == 0 || w.Object == nil ||
		*w.Object != (view.Ref{Resource: "configmaps", Namespace: "shop", Name: "broken", UID: broken.GetMetadata().GetUid()}) {
		t.Errorf("the parked work is %+v", w)
	}
	if _, text := b.ask(http.MethodGet, path+"parked", nil, nil); strings.Contains(text, "hushhush") {
		t.Errorf("the parked work has the contents of the object: %s", text)
	}
	if b.get(fmt.Sprintf("%sparked?after=%d", path, id), &parked); len(parked.Work) != 0 {
		t.Errorf("the parked work after the only piece is %+v", parked)
	}
	var result view.ParkedResult
	if status, text := b.ask(http.MethodPost, path+"parked", view.ChangeParked{Action: "Retry", IDs: []uint64{id, 4711}}, &result); status != http.StatusOK ||
		result.Done != 1 || len(result.Failed) != 1 || !strings.Contains(result.Failed[0], "parked work 4711") {
		t.Errorf("retry: %d %s", status, text)
	}
	testkit.WaitFor(t, ctx, "the work to be parked again", func() bool {
		b.get(path+"parked", &parked)
		return len(parked.Work) == 1 && parked.Work[0].ID != id
	})
	if status, text := b.ask(http.MethodPost, path+"parked", view.ChangeParked{Action: "Drop", IDs: []uint64{parked.Work[0].ID}}, &result); status != http.StatusOK || result.Done != 1 {
		t.Errorf("drop: %d %s", status, text)
	}
	if b.get(path+"parked", &parked); len(parked.Work) != 0 {
		t.Errorf("after it was dropped: %+v", parked)
	}
	for _, wrong := range []view.ChangeParked{{Action: "Drop"}, {Action: "Burn", IDs: []uint64{1}}, {Action: "Drop", IDs: make([]uint64, 101)}} {
		b.refused(http.MethodPost, path+"parked", wrong, http.StatusBadRequest, "BadRequest")
	}
	b.refused(http.MethodGet, path+"parked?after=x", nil, http.StatusBadRequest, "BadRequest")
	if status, text := b.ask(http.MethodPost, path+"resume", nil, &says); status != http.StatusOK || says.Says != "The realm default was not paused." {
		t.Errorf("resume: %d %s", status, text)
	}
}

// A realm that was replayed is paused until it is resumed.
func TestConsoleResumes(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir := t.TempDir()
	data, recording, archive := filepath.Join(dir, "data"), filepath.Join(dir, "recording"), "file://"+filepath.Join(dir, "archive")
	p := startUp(ctx, t, "--data", data, "--archive", archive, "--auth").awaitReady(ctx, data)
	_, err := asOperator(t, p, data).Resource(client.Resource{Plural: "configmaps"}, "shop").Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "one"}})
	must.Succeed(t, err)
	for _, c := range []struct {
		user string
		args []string
	}{
		{"operator", []string{"record", "--out", recording}},
		{"graph", []string{"replay", recording, "--realm", "again", "--archive", archive, "--secret", filepath.Join(data, "coppice.secret")}},
		{"operator", []string{"realm", "create", "again"}},
	} {
		args := slices.Concat(c.args, []string{"--server", p.server, "--user", c.user, "--password", passwordOf(t, data, c.user)})
		if text, err := exec.CommandContext(ctx, program(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("coppice %s: %v: %s", args[0], err, text)
		}
	}
	b := newBrowser(ctx, t, p.console)
	b.signIn(view.SignIn{User: "operator", Password: passwordOf(t, data, "operator")})
	overview := func() (o view.Overview) {
		b.get("/api/realms/again/overview", &o)
		return o
	}
	testkit.WaitFor(t, ctx, "the overview to say that the realm is paused", func() bool {
		o := overview()
		return o.Paused && slices.ContainsFunc(o.Stuck, func(s view.Stuck) bool { return s.Blocker == "Paused" })
	})
	var says view.Done
	if status, text := b.ask(http.MethodPost, "/api/realms/again/resume", nil, &says); status != http.StatusOK || !strings.Contains(says.Says, "The realm again") || strings.Contains(says.Says, "not paused") {
		t.Errorf("resume: %d %s", status, text)
	}
	testkit.WaitFor(t, ctx, "the overview to say that the realm is not paused", func() bool { return !overview().Paused })
}

// A console that is started while a deletion in the background is in progress has never seen its root, and shows it all the
// same: under the name that its dependents have for it.
func TestConsoleDeletionOfUnseenRoot(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data, "--auth", "--console", "none").awaitReady(ctx, data)
	configMaps := asOperator(t, p, data).Resource(client.Resource{Plural: "configmaps"}, "shop")
	uids := map[string]string{}
	create := func(name, owner string, finalizers ...string) {
		m := &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers}
		if owner != "" {
			m.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: owner, Uid: uids[owner]}}
		}
		o, err := configMaps.Create(ctx, &coppicev1.Object{Metadata: m})
		must.Succeed(t, err)
		uids[name] = o.GetMetadata().GetUid()
	}
	for _, owner := range []string{"one", "two"} {
		create(owner, "")
		for i := range 3 {
			create(fmt.Sprintf("%s-%d", owner, i), owner, "example.com/never")
		}
		_, err := configMaps.Delete(ctx, owner)
		must.Succeed(t, err)
		testkit.WaitFor(t, ctx, "the dependents to be marked", func() bool {
			for i := range 3 {
				o, err := configMaps.Get(ctx, fmt.Sprintf("%s-%d", owner, i))
				must.Succeed(t, err)
				if o.GetMetadata().GetDeletionTimestamp() == nil {
					return false
				}
			}
			return true
		})
	}
	b := newBrowser(ctx, t, startConsole(ctx, t, "--server", p.server))
	b.signIn(view.SignIn{User: "operator", Password: passwordOf(t, data, "operator")})
	for _, owner := range []string{"one", "two"} { // the first waits until the objects are read
		var progress view.Progress
		if b.get("/api/realms/default/deletion?uid="+uids[owner], &progress); progress.State != view.Running || progress.Loading || progress.Partial || !progress.Gone ||
			progress.Remaining != 3 || progress.Blocked != 3 || progress.Root != (view.Ref{Resource: "configmaps", Namespace: "shop", Name: owner, UID: uids[owner]}) {
			t.Errorf("the deletion of %s: %+v", owner, progress)
		}
	}
	var o view.Overview
	if b.get("/api/realms/default/overview", &o); len(o.Deletions) != 2 {
		t.Errorf("deletions in progress: %+v", o.Deletions)
	}
}
