package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// get returns the code and the body of a page.
func get(ctx context.Context, t *testing.T, s *admin.Server, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address()+path, http.NoBody)
	must.Succeed(t, err)
	r.Close = true
	reply, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	must.Succeed(t, err)
	return reply.StatusCode, string(body)
}

// serve serves until stop is called, which returns what Run did.
func serve(t *testing.T, address string, ready func() error, profiles bool) (s *admin.Server, stop func() error) {
	t.Helper()
	r := admin.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "coppice_test_total", Help: "A counter."})
	r.MustRegister(c)
	c.Add(3)
	s, err := admin.Listen(admin.Config{Address: address, Service: "test", Registry: r, Ready: ready, Profiles: profiles})
	must.Succeed(t, err)
	running := testkit.Run(t, s.Run).MayFail()
	return s, func() error {
		running.Cancel()
		return running.Wait()
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	var waiting atomic.Bool
	waiting.Store(true)
	s, stop := serve(t, "127.0.0.1:0", func() error {
		if waiting.Load() {
			return errors.New("waiting for the work stream")
		}
		return nil
	}, false)
	for _, c := range []struct {
		path, says string
		code       int
	}{
		{"/healthz", "ok", 200},
		{"/readyz", "waiting for the work stream", 503},
		{"/metrics", "coppice_test_total 3", 200},
		{"/metrics", "go_goroutines", 200},
		{"/debug/pprof/", "", 404},
		{"/", "", 404},
	} {
		if code, body := get(ctx, t, s, c.path); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.says)
		}
	}
	waiting.Store(false)
	if code, body := get(ctx, t, s, "/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", s.Address()); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	s, _ := serve(t, "127.0.0.1:0", func() error { return nil }, true)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
		if code, body := get(ctx, t, s, path); code != 200 || body == "" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

// Without a host it listens on all interfaces, with a host on that one.
func TestInterfaces(t *testing.T) {
	t.Parallel()
	for address, all := range map[string]bool{":0": true, "127.0.0.1:0": false} {
		s, _ := serve(t, address, func() error { return nil }, false)
		host, _, err := net.SplitHostPort(s.Address())
		if ip := net.ParseIP(host); err != nil || ip.IsUnspecified() != all || ip.IsLoopback() == all {
			t.Errorf("%s: listens on %s", address, s.Address())
		}
	}
}

// A default that is in use gives way to a free port of the same interface, and the server says so. A port
// that was named must be free: TestRefusedAddresses.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	first, _ := serve(t, "127.0.0.1:0", func() error { return nil }, false)
	if first.Taken() != "" {
		t.Errorf("the first one says that %s is in use", first.Taken())
	}
	s, err := admin.Listen(admin.Config{Address: first.Address(), AnyPort: true, Registry: admin.NewRegistry(), Ready: func() error { return nil }})
	must.Succeed(t, err)
	testkit.Run(t, s.Run)
	host, _, err := net.SplitHostPort(s.Address())
	if err != nil || host != "127.0.0.1" || s.Address() == first.Address() || s.Taken() != first.Address() {
		t.Errorf("it listens on %s, and says that %q is in use", s.Address(), s.Taken())
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	var waiting atomic.Bool
	waiting.Store(true)
	s, stop := serve(t, "127.0.0.1:0", func() error {
		if waiting.Load() {
			return errors.New("waiting for NATS")
		}
		return nil
	}, false)
	base := &url.URL{Scheme: "http", Host: s.Address()}
	if got, err := admin.Check(ctx, base); err != nil || got != (admin.Health{Service: "test", Waiting: "waiting for NATS"}) {
		t.Errorf("while it waits: %+v, %v", got, err)
	}
	waiting.Store(false)
	if got, err := admin.Check(ctx, base); err != nil || got != (admin.Health{Service: "test"}) {
		t.Errorf("when it is ready: %+v, %v", got, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := admin.Check(ctx, base); !errors.Is(err, admin.ErrNothingListens) {
		t.Errorf("after its end: %v", err)
	}
	for code, handler := range map[string]http.HandlerFunc{
		"ok": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ready") },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+s.Address(), http.StatusFound)
		},
	} {
		other := httptest.NewServer(handler)
		t.Cleanup(other.Close)
		at, err := url.Parse(other.URL)
		must.Succeed(t, err)
		if _, err := admin.Check(ctx, at); !errors.Is(err, admin.ErrNotCoppice) {
			t.Errorf("another program replies %s: %v", code, err)
		}
	}
}

func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, "127.0.0.1:0", func() error { return nil }, false)
	for address, want := range map[string]string{
		s.Address():  "choose another address with --http",
		"8080":       `"8080" is not an address such as`,
		"":           "is not an address such as",
		":":          "is not an address such as",
		":web-ports": "cannot serve metrics at :web-ports",
	} {
		if _, err := admin.Listen(admin.Config{Address: address, Registry: admin.NewRegistry()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", address, err, want)
		}
	}
}

// The connections of a process have the metrics of their users.
func TestConnectionMetrics(t *testing.T) {
	t.Parallel()
	server, r := testkit.NATS(t), admin.NewRegistry()
	for _, user := range []string{bus.RoleGraph, bus.RoleAnswers} {
		admin.RegisterConnection(r, user, testkit.Conn(t, server, user))
	}
	nc := testkit.Conn(t, server, bus.RoleScanner)
	admin.RegisterConnection(r, bus.RoleScanner, nc)
	value := func(name string, labels ...string) float64 {
		t.Helper()
		v, ok := testkit.Metric(t, r, name, append(labels, "user", bus.RoleScanner)...)
		if !ok {
			t.Errorf("there is no %s", name)
		}
		return v
	}
	if v := value("coppice_nats_connected"); v != 1 {
		t.Errorf("connected: %v", v)
	}
	before := value("coppice_nats_messages_total", "direction", "out")
	must.Succeed(t, nc.Publish(bus.InboxPrefix(bus.RoleScanner)+".x", []byte("hello")))
	if v := value("coppice_nats_messages_total", "direction", "out"); v != before+1 {
		t.Errorf("%v messages out, then %v", before, v)
	}
	if v := value("coppice_nats_bytes_total", "direction", "out"); v < 5 {
		t.Errorf("%v bytes out", v)
	}
	if v := value("coppice_nats_reconnects_total"); v != 0 {
		t.Errorf("%v reconnects", v)
	}
	nc.Close()
	if v := value("coppice_nats_connected"); v != 0 {
		t.Errorf("connected after its end: %v", v)
	}
}
