package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// browser is what a page of the console does.
type browser struct {
	t      testing.TB
	ctx    context.Context //nolint:containedctx // of the test
	base   string
	client http.Client
	header http.Header // of every request
	csrf   string
}

func newBrowser(ctx context.Context, tb testing.TB, base string) *browser {
	tb.Helper()
	jar, err := cookiejar.New(nil)
	must.Succeed(tb, err)
	return &browser{t: tb, ctx: ctx, base: base, client: http.Client{Jar: jar}, header: http.Header{"Origin": {base}, "Sec-Fetch-Site": {"same-origin"}}}
}

// ask sends a request, and reads a reply in JSON into v, if v is not nil.
func (b *browser) ask(method, path string, body, v any) (status int, text string) {
	b.t.Helper()
	var content io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		must.Succeed(b.t, err)
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(b.ctx, method, b.base+path, content)
	must.Succeed(b.t, err)
	r.Header = b.header.Clone()
	if b.csrf != "" {
		r.Header.Set("Coppice-CSRF", b.csrf)
	}
	reply, err := b.client.Do(r)
	must.Succeed(b.t, err)
	defer reply.Body.Close()
	data, err := io.ReadAll(reply.Body)
	must.Succeed(b.t, err)
	if v != nil {
		if err := json.Unmarshal(data, v); err != nil {
			b.t.Errorf("%s %s: %d %q: %v", method, path, reply.StatusCode, data, err)
		}
	}
	return reply.StatusCode, string(data)
}

// get is ask for a page that must be there.
func (b *browser) get(path string, v any) {
	b.t.Helper()
	if status, text := b.ask(http.MethodGet, path, nil, v); status != http.StatusOK {
		b.t.Errorf("GET %s: %d %s", path, status, text)
	}
}

// refused is ask for what must be refused with a status and a reason.
func (b *browser) refused(method, path string, body any, status int, reason string) {
	b.t.Helper()
	var f view.Failure
	if got, text := b.ask(method, path, body, &f); got != status || f.Reason != reason || f.Message == "" {
		b.t.Errorf("%s %s: %d %s, want %d %s", method, path, got, text, status, reason)
	}
}

func (b *browser) signIn(in view.SignIn) view.Session {
	b.t.Helper()
	var s view.Session
	if status, text := b.ask(http.MethodPost, "/api/session", in, &s); status != http.StatusOK {
		b.t.Fatalf("sign in: %d %s", status, text)
	}
	b.csrf = s.CSRF
	return s
}

// live opens the WebSocket of a tab.
func (b *browser) live() *websocket.Conn {
	b.t.Helper()
	conn, reply, err := websocket.Dial(b.ctx, b.base+"/api/live", &websocket.DialOptions{HTTPClient: &b.client, HTTPHeader: b.header}) //nolint:bodyclose // the connection has it
	must.Succeed(b.t, err)
	_ = reply
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn
}

// news reads from a WebSocket until a message is as wanted.
func (b *browser) news(conn *websocket.Conn, is func(view.News) bool) {
	b.t.Helper()
	for {
		_, data, err := conn.Read(b.ctx)
		if err != nil {
			b.t.Fatalf("news: %v", err)
		}
		var n view.News
		must.Succeed(b.t, json.Unmarshal(data, &n))
		if is(n) {
			return
		}
	}
}

func (b *browser) follow(conn *websocket.Conn, a view.Ask) {
	b.t.Helper()
	data, err := json.Marshal(a)
	must.Succeed(b.t, err)
	must.Succeed(b.t, conn.Write(b.ctx, websocket.MessageText, data))
}

// A local `coppice up` serves its console to browsers that know the token of its address, and to no others.
func TestConsoleOfUp(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data).awaitReady(ctx, data)
	b := newBrowser(ctx, t, p.console)
	var ways view.Ways
	if status, text := b.ask(http.MethodGet, "/api/session", nil, &ways); status != http.StatusUnauthorized || !ways.Local {
		t.Errorf("without a session: %d %s", status, text)
	}
	for _, wrong := range []view.SignIn{{Token: "x"}, {}, {User: "operator", Password: "operator"}} {
		b.refused(http.MethodPost, "/api/session", wrong, http.StatusUnauthorized, "Unauthorized")
	}
	b.refused(http.MethodGet, "/api/realms/default/overview", nil, http.StatusUnauthorized, view.ReasonSignedOut)
	s := b.signIn(view.SignIn{Token: p.token})
	if len(s.Realms) != 1 || s.Realms[0].Name != "default" || s.User == "" || s.CSRF == "" || s.IdleSeconds != 1800 {
		t.Errorf("the session is %+v", s)
	}

	owner, err := p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "owner"}})
	must.Succeed(t, err)
	_, err = p.configMaps().Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: "kept", Finalizers: []string{"example.com/never"},
		OwnerReferences: []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "owner", Uid: owner.GetMetadata().GetUid()}},
	}})
	must.Succeed(t, err)
	uid := owner.GetMetadata().GetUid()
	conn := b.live()
	b.follow(conn, view.Ask{ID: 1, Realm: "default", View: view.ViewOverview})
	b.news(conn, func(n view.News) bool { return n.ID == 1 && n.Overview != nil && len(n.Overview.Finalizers) == 1 })
	b.follow(conn, view.Ask{ID: 2, Realm: "default", View: view.ViewObject, UID: uid})
	var family view.Family
	testkit.WaitFor(t, ctx, "the dependent to be in the tree", func() bool {
		b.get("/api/realms/default/family?uid="+uid, &family)
		return len(family.Dependents) == 1
	})
	if d := family.Dependents[0]; d.Name != "kept" || d.State != "Present" || family.Self.Name != "owner" {
		t.Errorf("the family is %+v", family)
	}
	var found view.Found
	if b.get("/api/realms/default/search?q=kep", &found); len(found.Matches) != 1 || found.Matches[0].Name != "kept" {
		t.Errorf("the search finds %+v", found)
	}

	_, err = p.configMaps().Delete(ctx, "owner")
	must.Succeed(t, err)
	b.news(conn, func(n view.News) bool { return n.ID == 2 && n.Changed })
	b.news(conn, func(n view.News) bool {
		return n.ID == 1 && n.Overview != nil && len(n.Overview.Stuck) == 1 && n.Overview.Stuck[0].Subject == "example.com/never" && n.Overview.Stuck[0].Examples[0].Name == "kept"
	})
	var o view.ObjectPage
	b.get("/api/realms/default/objects/configmaps/shop/kept", &o)
	if o.State != "Terminating" || !strings.Contains(o.Explanation.Summary, "example.com/never") || !strings.Contains(o.Manifest, "name: kept") || !strings.Contains(o.Text, o.Explanation.Summary) {
		t.Errorf("the object is %+v", o)
	}
	o = view.ObjectPage{}
	b.get("/api/realms/default/objects/configmaps/shop/owner", &o)
	if o.State != "Removed" || o.UID != uid || o.Manifest != "" {
		t.Errorf("the removed object is %+v", o)
	}
	var h view.History
	b.get("/api/realms/default/history?uid="+uid, &h)
	if len(h.Events) < 2 || h.Events[len(h.Events)-1].Type != "ObjectCreated" || h.Events[0].Type != "ObjectDeleted" || !h.Complete {
		t.Errorf("the history is %+v", h)
	}
	for path, status := range map[string]int{
		"/api/realms/default/objects/configmaps/shop/never": 404, "/api/realms/default/objects/unknown/shop/x": 404, "/api/realms/default/objects/configmaps/-/x": 400,
		"/api/realms/No/overview": 400, "/api/realms/default/family?uid=x": 404, "/api/realms/default/family?uid=" + uid + "&from=x": 400, "/api/realms/default/history": 400, "/api/other": 404,
	} {
		if got, text := b.ask(http.MethodGet, path, nil, nil); got != status {
			t.Errorf("GET %s: %d %s, want %d", path, got, text, status)
		}
	}

	csrf := b.csrf
	b.csrf = ""
	b.refused(http.MethodDelete, "/api/session", nil, http.StatusForbidden, "Forbidden")
	b.csrf = csrf
	if status, text := b.ask(http.MethodDelete, "/api/session", nil, nil); status != http.StatusNoContent {
		t.Errorf("sign out: %d %s", status, text)
	}
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			if websocket.CloseStatus(err) != 4401 {
				t.Errorf("the WebSocket ends with %v", err)
			}
			break
		}
	}
	b.refused(http.MethodGet, "/api/realms/default/kinds", nil, http.StatusUnauthorized, view.ReasonSignedOut)
	p.end(os.Interrupt)
}

var consoleURL = regexp.MustCompile(`msg=console .*url=(\S+)`)

// startConsole starts a `coppice console`, and returns its address.
func startConsole(ctx context.Context, t *testing.T, flags ...string) (base string) {
	t.Helper()
	c := exec.CommandContext(ctx, program(t), append([]string{"console"}, flags...)...)
	out, err := c.StderrPipe()
	must.Succeed(t, err)
	must.Succeed(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	lines := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if m := consoleURL.FindStringSubmatch(s.Text()); m != nil {
				lines <- m[1]
			}
		}
	}()
	return testkit.Receive(t, ctx, "the address of the console", lines)
}

// passwordOf returns the password of a user of a `coppice up --auth`.
func passwordOf(t *testing.T, data, user string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "users", "nats", "context", user+".json"))
	must.Succeed(t, err)
	var of struct{ Password string }
	must.Succeed(t, json.Unmarshal(text, &of))
	return of.Password
}

// A console next to an installation has the rights of the user who signs in, and ends the session of one who does nothing.
func TestConsoleSignIn(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data, "--auth", "--console", "none").awaitReady(ctx, data)
	base := startConsole(ctx, t, "--server", p.server, "--service-url", p.address)
	b := newBrowser(ctx, t, base)
	var ways view.Ways
	if status, text := b.ask(http.MethodGet, "/api/session", nil, &ways); status != http.StatusUnauthorized || ways.Local {
		t.Errorf("without a session: %d %s", status, text)
	}
	b.refused(http.MethodPost, "/api/session", view.SignIn{User: "operator", Password: "wrong"}, http.StatusUnauthorized, "Unauthorized")
	b.refused(http.MethodPost, "/api/session", view.SignIn{User: "operator"}, http.StatusBadRequest, "BadRequest")
	b.refused(http.MethodPost, "/api/session", view.SignIn{Token: "x"}, http.StatusBadRequest, "BadRequest")
	b.refused(http.MethodPost, "/api/session", view.SignIn{Credentials: "-----BEGIN NATS USER JWT-----\nx"}, http.StatusBadRequest, "BadRequest")
	if s := b.signIn(view.SignIn{User: "operator", Password: passwordOf(t, data, "operator")}); s.User != "operator" || s.Local || len(s.Realms) != 1 || s.Realms[0].State != "active" {
		t.Errorf("the session is %+v", s)
	}
	var o view.Overview
	b.get("/api/realms/default/overview", &o)
	if len(o.Services) != 1 || o.Services[0].Name != "up" || o.Writer == "" || o.Storage == nil {
		t.Errorf("the overview is %+v", o)
	}

	// A page that reads by itself keeps no session alive.
	idle := newBrowser(ctx, t, startConsole(ctx, t, "--server", p.server, "--idle", "1s"))
	idle.signIn(view.SignIn{User: "operator", Password: passwordOf(t, data, "operator")})
	idle.header.Set("Coppice-Background", "1")
	testkit.WaitFor(t, ctx, "the session to end", func() bool {
		status, _ := idle.ask(http.MethodGet, "/api/session", nil, nil)
		return status == http.StatusUnauthorized
	})

	// Two browsers of one user: one signs out, the other stays.
	other := newBrowser(ctx, t, base)
	for _, one := range []*browser{b, other} {
		one.csrf = ""
		one.signIn(view.SignIn{User: "viewer", Password: passwordOf(t, data, "viewer")})
	}
	if status, text := b.ask(http.MethodDelete, "/api/session", nil, nil); status != http.StatusNoContent {
		t.Errorf("sign out: %d %s", status, text)
	}
	if status, text := other.ask(http.MethodGet, "/api/session", nil, nil); status != http.StatusOK {
		t.Errorf("the other browser: %d %s", status, text)
	}
}

// A user has one watch of a realm, whatever the tabs and sessions.
func TestConsoleWatchesOnce(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data, "--auth", "--console", "none").awaitReady(ctx, data)
	watches := func() float64 { return sumOfMetric(ctx, t, p.address, "coppice_graph_watches") }
	before := watches()
	base := startConsole(ctx, t, "--server", p.server)
	for i, name := range []string{"operator", "operator", "viewer"} {
		user := newBrowser(ctx, t, base)
		user.signIn(view.SignIn{User: name, Password: passwordOf(t, data, name)})
		for range 2 {
			conn := user.live()
			user.follow(conn, view.Ask{ID: 1, Realm: "default", View: view.ViewOverview})
			user.follow(conn, view.Ask{ID: 2, Realm: "default", View: view.ViewObject, UID: "00000000-0000-4000-8000-000000000000"})
			user.news(conn, func(n view.News) bool { return n.ID == 1 && n.Overview != nil && !n.Overview.Loading })
		}
		if has, want := watches()-before, []float64{1, 1, 2}[i]; has != want {
			t.Errorf("with session %d, the graph service has %v watches of consoles, want %v", i+1, has, want)
		}
	}
}

// A console next to a NATS server that accepts any user signs in no one: it could not know who that is.
func TestConsoleOfOpenServer(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	open, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true})
	must.Succeed(t, err)
	open.Start()
	t.Cleanup(open.Shutdown)
	testkit.WaitFor(t, ctx, "the server to accept clients", func() bool { return open.ReadyForConnections(testkit.Timeout) })
	b := newBrowser(ctx, t, startConsole(ctx, t, "--server", open.ClientURL()))
	var f view.Failure
	if status, text := b.ask(http.MethodPost, "/api/session", view.SignIn{User: "operator", Password: "anything"}, &f); status != http.StatusBadRequest || !strings.Contains(f.Message, "asks for no password") {
		t.Errorf("sign in: %d %s", status, text)
	}
}

// Passwords do not cross a network unencrypted.
func TestConsoleRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "browsers of other machines would send passwords unencrypted: give the console a certificate with --https-cert and --https-key"},
		{[]string{"--listen", ":0", "--url", "http://coppice.example.com"}, "unencrypted"},
		{[]string{"--listen", "127.0.0.1:0", "--url", "http://coppice.example.com"}, "unencrypted"},
		{[]string{"--server", "nats://operator:secret@127.0.0.1:4222"}, "--server names a user"},
		{[]string{"--url", "https://coppice.example.com/path"}, "write an address without a path"},
		{[]string{"--https-cert", "x"}, "give both"},
		{[]string{"--service-url", "ftp://x"}, "write a URL such as"},
		{[]string{"--idle", "0s"}, "--idle"},
	} {
		var out strings.Builder
		if code := Main(append([]string{"console"}, c.flags...), strings.NewReader(""), io.Discard, &out); code == 0 || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: exit code %d, %q", c.flags, code, out.String())
		}
	}
}
