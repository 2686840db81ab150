package access_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// The table follows its file: a change counts, comments do not, and a file that is wrong or gone leaves the table as it was.
func TestFollow(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	name := filepath.Join(t.TempDir(), "users.yaml")
	write := func(text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	const shop = "version: 1\nusers: {shop: {roles: [application], namespaces: [shop]}}\n"
	write(shop)
	f, err := access.ReadFile(name)
	must.Succeed(t, err)
	var c access.Current
	c.Set(f.Table())
	first := c.Table()

	var log bytes.Buffer
	tick, ended := make(chan time.Time), make(chan struct{})
	following, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		c.Follow(following, name, tick, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	looks := func() { // has it look twice, so that one look is complete
		for range 2 {
			select {
			case tick <- time.Time{}:
			case <-ctx.Done():
				t.Fatal("nothing follows the file")
			}
		}
	}
	write("# A comment.\n" + shop)
	looks()
	if c.Table() != first {
		t.Error("a comment has replaced the table")
	}
	write("version: 1\nusers: {shop: {role: [application]}}\n")
	looks()
	must.Succeed(t, os.Remove(name))
	looks()
	if c.Table() != first {
		t.Error("a file that is wrong has replaced the table")
	}
	if got := metric(t, &c, "coppice_graph_users_file_stale"); got != 1 {
		t.Errorf("coppice_graph_users_file_stale is %v", got)
	}
	write("version: 1\nusers: {shop: {roles: [viewer], namespaces: [shop]}, other: {roles: [viewer]}}\n")
	looks()
	rules, _ := c.Table().Of("shop", bus.DefaultRealm)
	if rules.May(bus.VerbCreate, "pods", "shop") || !rules.May(bus.VerbGet, "pods", "shop") {
		t.Error("the table is not that of the changed file")
	}
	if stale, users := metric(t, &c, "coppice_graph_users_file_stale"), metric(t, &c, "coppice_graph_users_file_users"); stale != 0 || users != 2 {
		t.Errorf("coppice_graph_users_file_stale is %v, coppice_graph_users_file_users %v", stale, users)
	}
	stop()
	testkit.Receive(t, ctx, "the end", ended)
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 {
		t.Errorf("%d errors are logged, want 1:\n%s", got, &log)
	}
}

// metric returns the value of a metric without labels.
func metric(t *testing.T, c *access.Current, name string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	must.Succeed(t, r.Register(c.Collector()))
	value, ok := testkit.Metric(t, r, name)
	if !ok {
		t.Errorf("there is no metric %s", name)
	}
	return value
}

// A rule in one line is the rule that a file has, and the words of a file are understood again.
func TestParseRule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"get,list: pods": "get,list: pods",
		" get , list :pods , deployments.apps@ shop ": "get,list: pods,deployments.apps @ shop",
		"read: * @ team-*,_ in default, other":        "read: * @ team-*,_ in default,other",
		"create: in in default":                       "",
		"get pods":                                    "",
		"get:":                                        "",
		": pods":                                      "",
		"get: pods @":                                 "",
		"get: pods in":                                "",
		"get: *.example.com @ shop, prod in default": "get: *.example.com @ shop,prod in default",
	} {
		r, err := access.ParseRule(text)
		got := ""
		if err == nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	f, err := access.Single("shop", []access.Rule{{Verbs: []string{"read"}, Kinds: []string{"pods"}, Namespaces: []string{"shop"}}})
	must.Succeed(t, err)
	var b bytes.Buffer
	must.Succeed(t, f.Write(&b))
	again, err := access.Parse("written", b.Bytes())
	must.Succeed(t, err)
	if got, want := again.Table().Digest(), f.Table().Digest(); got != want {
		t.Errorf("the file that was written has the digest %s, not %s:\n%s", got, want, &b)
	}
	if _, err := access.Single("shop", []access.Rule{{Verbs: []string{"fly"}}}); err == nil {
		t.Error("a rule with an unknown verb is accepted")
	}
}
