package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receive waits for a value. The test has no other limit.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("no %s within a minute", what)
		panic("unreachable")
	}
}

// A reader that is slower than the changes of a topic skips some, and never the last one.
func TestTopic(t *testing.T) {
	t.Parallel()
	var of topic[int]
	of.init(0)
	_, version := of.get()
	for i := range 100 {
		of.set(i + 1)
	}
	value, version, err := of.next(t.Context(), version)
	if err != nil || value != 100 {
		t.Fatalf("the value is %d (%v), want the last", value, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := of.next(ended, version); err == nil {
		t.Error("next returns without a change")
	}
	got := make(chan int)
	go func() {
		v, _, _ := of.next(context.Background(), version)
		got <- v
	}()
	of.set(101)
	if v := receive(t, "change", got); v != 101 {
		t.Errorf("the value is %d", v)
	}
}

// A run begins with the first that needs it, is the same for all, outlasts the last one for a time, and begins again.
func TestShared(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	begun, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	values := 0
	s := shared[int]{begin: func() int {
		values++
		return values
	}, run: func(ctx context.Context, _ int) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
	}, linger: time.Hour}
	_, first := s.join(ctx)
	_, second := s.join(ctx)
	receive(t, "run", begun)
	first()
	first() // again: it counts once
	second()
	value, third := s.join(ctx)
	third()
	if len(begun) > 0 || len(ended) > 0 || value != 1 || s.now() != 1 {
		t.Error("a run that lingers was ended or begun again")
	}
	s.linger = 0
	_, last := s.join(ctx)
	last()
	receive(t, "end of the run", ended)
	value, fourth := s.join(ctx)
	if value != 2 {
		t.Errorf("the second run has the value %d", value)
	}
	receive(t, "second run", begun)
	fourth()
	receive(t, "end of the second run", ended)
}

// The manifest of a Secret has no value, wherever tools put one, until it is asked for. Names are shown, and its type.
func TestHiddenValues(t *testing.T) {
	t.Parallel()
	secret := func() *coppicev1.Object {
		return &coppicev1.Object{
			ApiVersion: "v1", Kind: "Secret",
			Metadata: &coppicev1.ObjectMeta{Name: "login", Namespace: "shop", Annotations: map[string]string{"last-applied": "hunter2"}, Labels: map[string]string{"app": "web"}},
			Spec:     []byte(`{"rotate":"hunter2"}`), Status: []byte(`["hunter2",7]`),
			Extra: []byte(`{"type":"Opaque","data":{"password":"hunter2"},"stringData":{"nested":[{"x":"hunter2"}]},"immutable":true}`),
		}
	}
	kind := client.Kind{Kind: "Secret", Plural: "secrets"}
	text, hidden, err := manifestOf(kind, secret(), false)
	must.Succeed(t, err)
	if !hidden || strings.Contains(text, "hunter2") || strings.Contains(text, "7") {
		t.Errorf("hidden %v:\n%s", hidden, text)
	}
	for _, shown := range []string{"password: (hidden)", "type: Opaque", "app: web", "name: login"} {
		if !strings.Contains(text, shown) {
			t.Errorf("%q is not in\n%s", shown, text)
		}
	}
	if text, hidden, err = manifestOf(kind, secret(), true); err != nil || hidden || strings.Count(text, "hunter2") != 5 {
		t.Errorf("revealed: hidden %v, %v:\n%s", hidden, err, text)
	}
	if text, hidden, err = manifestOf(client.Kind{Group: "example.com", Kind: "Secret"}, secret(), false); err != nil || hidden || !strings.Contains(text, "hunter2") {
		t.Errorf("of another group: hidden %v, %v:\n%s", hidden, err, text)
	}
}

// Paths of views are index.html; the files of another version of the console are not there.
func TestPages(t *testing.T) {
	t.Parallel()
	p, err := newPages(fstest.MapFS{
		"index.html": {Data: []byte("<!doctype html>")}, "assets/a-1234.js": {Data: []byte(strings.Repeat("let a = 1;\n", 100))},
	})
	must.Succeed(t, err)
	for _, c := range []struct {
		method, path, encoding     string
		status                     int
		contentType, cache, coding string
	}{
		{"GET", "/", "gzip", 200, "text/html; charset=utf-8", "no-cache", ""},
		{"GET", "/r/default/o/pods/shop/assets", "", 200, "text/html; charset=utf-8", "no-cache", ""},
		{"GET", "/assets/a-1234.js", "br, gzip", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "gzip"},
		{"GET", "/assets/a-1234.js", "", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", ""},
		{"HEAD", "/assets/a-1234.js", "", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", ""},
		{"GET", "/assets/a-5678.js", "", 404, "text/plain; charset=utf-8", "", ""},
		{"POST", "/", "", 405, "application/json; charset=utf-8", "no-store", ""},
	} {
		r := httptest.NewRequest(c.method, c.path, http.NoBody)
		r.Header.Set("Accept-Encoding", c.encoding)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		h := w.Header()
		if w.Code != c.status || h.Get("Content-Type") != c.contentType || h.Get("Cache-Control") != c.cache || h.Get("Content-Encoding") != c.coding {
			t.Errorf("%s %s: status %d, %v", c.method, c.path, w.Code, h)
		}
	}
	if _, err := newPages(fstest.MapFS{}); err == nil {
		t.Error("a console without index.html")
	}
}

// Readers of a cached value wait for the first one alone, and none of them ends a read by going away.
func TestCached(t *testing.T) {
	t.Parallel()
	reads, answer := make(chan context.Context), make(chan int)
	c := cached[int]{time: time.Hour, read: func(ctx context.Context) (int, bool) {
		reads <- ctx
		v := <-answer
		return v, v != 0
	}}
	gone, leave := context.WithCancel(t.Context())
	type result struct {
		value int
		has   bool
	}
	results := make(chan result)
	get := func(ctx context.Context) {
		v, has := c.get(ctx)
		results <- result{v, has}
	}
	go get(gone)
	read := receive(t, "read", reads)
	leave()
	if r := receive(t, "result of a reader that is gone", results); r.has || read.Err() != nil {
		t.Errorf("a reader that is gone receives %+v; the read ends with %v", r, read.Err())
	}
	go get(t.Context())
	answer <- 1
	if r := receive(t, "first value", results); r != (result{1, true}) {
		t.Errorf("the first value is %+v", r)
	}
	for _, next := range []struct{ answer, want int }{{2, 1}, {0, 2}, {3, 2}} { // the last value, while another is read; one that cannot be read is left out
		go get(t.Context())
		receive(t, "read", reads)
		if r := receive(t, "last value", results); r != (result{next.want, true}) {
			t.Errorf("while it is read again the value is %+v, want %d", r, next.want)
		}
		answer <- next.answer
		for c.reads() {
			runtime.Gosched()
		}
	}
}

// reads reports whether a read is in progress.
func (c *cached[T]) reads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reading != nil
}

// A user who signs in too often ends the session that was used least recently, and no session of others. A full console
// refuses a sign-in, and leaves the sessions as they are.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, "9450", false)
	defer s.close()
	userOf := func(actor string) *user {
		u := &user{actor: actor, sessions: 1 << 20}
		u.ctx, u.cancel = context.WithCancel(t.Context())
		return u
	}
	ana := userOf("ana")
	w := httptest.NewRecorder()
	other := s.begin(w, userOf("bob"))
	var all []*session
	for range maxOfUser {
		all = append(all, s.begin(w, ana))
	}
	s.used(all[0], httptest.NewRequest(http.MethodGet, "/api/session", http.NoBody))
	s.begin(w, ana)
	for i, n := range append(all, other) {
		if (n.ctx.Err() != nil) != (i == 1) {
			t.Errorf("session %d: %v", i, n.ctx.Err())
		}
	}
	for s.count() < maxSessions {
		s.begin(w, userOf("one of many"))
	}
	if n := s.begin(w, userOf("late")); n != nil || other.ctx.Err() != nil {
		t.Error("a full console begins a session, or ends that of another user")
	}
}

// Requests that a page sends by itself, and its WebSocket, do not keep a session alive.
func TestUsed(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, "9450", false)
	defer s.close()
	u := &user{sessions: 2}
	u.ctx, u.cancel = context.WithCancel(t.Context())
	n := s.begin(httptest.NewRecorder(), u)
	for _, c := range []struct {
		header, value string
		counts        bool
	}{{"Coppice-Background", "1", false}, {"Upgrade", "websocket", false}, {"Accept", "*/*", true}} {
		was := n.last
		r := httptest.NewRequest(http.MethodGet, "/api/live", http.NoBody)
		r.Header.Set(c.header, c.value)
		s.used(n, r)
		if n.last.After(was) != c.counts {
			t.Errorf("%s: counts as use %v, want %v", c.header, !c.counts, c.counts)
		}
	}
}

// One address that guesses passwords keeps no other from signing in.
func TestSignInLimits(t *testing.T) {
	t.Parallel()
	l := newSignInLimits()
	refused := 0
	for range 2 * signInBurst {
		leave, err := l.take(t.Context(), "192.0.2.1:1234")
		if err != nil {
			refused++
			continue
		}
		leave()
	}
	if refused == 0 {
		t.Error("one address has no limit")
	}
	if leave, err := l.take(t.Context(), "192.0.2.2:1234"); err != nil {
		t.Errorf("another address: %v", err)
	} else {
		leave()
	}
	for i := range 2 * maxAddresses {
		if leave, err := l.take(t.Context(), fmt.Sprintf("%d:1", i)); err == nil {
			leave()
		}
	}
	if len(l.from) > maxAddresses+1 {
		t.Errorf("%d addresses are kept", len(l.from))
	}
}

// The time for a message begins when the one before is sent: a large one does not make the next one fail.
func TestSendingWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tab := &tab{ctx: ctx, cancel: cancel, sending: make(chan struct{}, 1)}
	sending, sent := make(chan struct{}), make(chan struct{})
	go tab.using(time.Minute, func(context.Context) error {
		close(sending)
		<-sent
		return nil
	})
	receive(t, "first message", sending)
	ends := make(chan time.Time, 1)
	go tab.using(time.Minute, func(ctx context.Context) error {
		end, _ := ctx.Deadline()
		ends <- end
		return nil
	})
	released := time.Now()
	close(sent)
	if end := receive(t, "second message", ends); end.Before(released.Add(time.Minute)) {
		t.Errorf("the second message had lost %s when it could be sent", released.Add(time.Minute).Sub(end))
	}
	if ctx.Err() != nil {
		t.Error("the WebSocket is closed")
	}
}
