package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// parsed returns a command with its flags set by arguments and by the environment.
func parsed(t *testing.T, args ...string) (*cobra.Command, error) {
	t.Helper()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	c, rest, err := rootOf(a).Find(args)
	must.Succeed(t, err)
	must.Succeed(t, c.ParseFlags(rest))
	return c, setFromEnvironment(a, c)
}

// valueFor returns a value that a flag takes, and that is not its default.
func valueFor(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true"
	case "duration":
		return "17s"
	}
	switch f.Name {
	case "log-format":
		return "json"
	case cli.LogLevelFlag:
		return "error"
	}
	return "17"
}

// Each flag of a command that runs services is set by the variable that its help names; a flag has precedence.
func TestEnvironment(t *testing.T) {
	names := regexp.MustCompile(`\(\$([A-Z_]+)[;)]`)
	eachCommand(func(command string, c *cobra.Command) {
		if !hasEnvironment(c) {
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			named := names.FindAllStringSubmatch(f.Usage, -1)
			if len(named) == 0 {
				t.Errorf("coppice %s --%s: the help names no variable", command, f.Name)
				return
			}
			variable := named[len(named)-1][1]
			if strings.HasPrefix(variable, "NATS_") {
				return // dial.Config.Complete
			}
			value := valueFor(f)
			t.Setenv(variable, value)
			defer t.Setenv(variable, "")
			c, err := parsed(t, command)
			must.Succeed(t, err)
			if got := strings.Trim(c.Flag(f.Name).Value.String(), "[]"); got != value || !c.Flag(f.Name).Changed {
				t.Errorf("coppice %s with $%s=%s: --%s is %s", command, variable, value, f.Name, got)
			}
			c, err = parsed(t, command, "--"+f.Name+"="+f.DefValue)
			if f.DefValue == "" || f.DefValue == "[]" || f.DefValue == "[default]" {
				return
			}
			must.Succeed(t, err)
			if got := c.Flag(f.Name).Value.String(); got != f.DefValue && got != f.DefValue+"s" {
				t.Errorf("coppice %s --%s=%s with $%s=%s: it is %s", command, f.Name, f.DefValue, variable, value, got)
			}
		})
	})
}

func TestEnvironmentValues(t *testing.T) {
	t.Setenv("COPPICE_REALM", "shop, ops")
	t.Setenv("COPPICE_DATA", "")
	t.Setenv("COPPICE_LOG_LEVEL", "error")
	c, err := parsed(t, "graph", "-v")
	must.Succeed(t, err)
	realms, err := c.Flags().GetStringArray("realm")
	if err != nil || !slices.Equal(realms, []string{"shop", "ops"}) {
		t.Errorf("$COPPICE_REALM: %q, %v", realms, err)
	}
	if f := c.Flag("data"); f.Changed || f.Value.String() != f.DefValue {
		t.Errorf("an empty $COPPICE_DATA: %s", f.Value)
	}
	if f := c.Flag(cli.LogLevelFlag); f.Changed {
		t.Errorf("--verbose with $COPPICE_LOG_LEVEL: %s", f.Value)
	}
	for name, value := range map[string]string{"COPPICE_LEASE": "soon", "COPPICE_LOG_FORMAT": "xml", "COPPICE_REPLICAS": "three"} {
		t.Setenv(name, value)
		if _, err := parsed(t, "graph"); err == nil || !strings.HasPrefix(err.Error(), "$"+name+": invalid argument \""+value+"\"") {
			t.Errorf("$%s=%s: %v", name, value, err)
		}
		t.Setenv(name, "")
	}
	// Commands that change objects have no such variables.
	t.Setenv("COPPICE_PORT", "tcp://10.96.0.5:9440")
	if c, err = parsed(t, "up"); err != nil || c.Flag("port").Changed {
		t.Errorf("what Kubernetes sets for a Service with the name coppice: %v", err)
	}
	t.Setenv("COPPICE_ANSWERS_PASSWORD", "x")
	if c, err = parsed(t, "graph", "--answers-password-file=f"); err != nil || c.Flag("answers-password").Changed {
		t.Errorf("--answers-password-file with $COPPICE_ANSWERS_PASSWORD: %v", err)
	}
	t.Setenv("COPPICE_ALL", "true")
	if c, err = parsed(t, "delete", "pods"); err != nil || c.Flag("all").Changed {
		t.Errorf("$COPPICE_ALL sets --all of delete: %v", err)
	}
}

// A variable that is almost that of a flag is named; those of Kubernetes and of others are not.
func TestMisspelledVariables(t *testing.T) {
	for _, name := range []string{"COPPICE_HTPP", "COPPICE_PORT_9440_TCP", "COPPICE_GRAPH_SERVICE_HOST", "COPPICE_EDITOR", "COPPICE_DATA", "COPPICE_SHOP_PASSWORD"} {
		t.Setenv(name, "17")
	}
	for format, want := range map[string]string{
		"text": `^warning: Coppice does not read \$COPPICE_HTPP; did you mean \$COPPICE_HTTP\?\n$`,
		"json": `^\{.*"level":"WARN","msg":"Coppice does not read \$COPPICE_HTPP; did you mean \$COPPICE_HTTP\?"\}\n$`,
	} {
		var out strings.Builder
		a := newApp(strings.NewReader(""), io.Discard, &out)
		c, rest, err := rootOf(a).Find([]string{"processor", "--log-level=warn"})
		must.Succeed(t, err)
		must.Succeed(t, c.ParseFlags(rest))
		t.Setenv("COPPICE_LOG_FORMAT", format)
		must.Succeed(t, setFromEnvironment(a, c))
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s: %q, want %s", format, out.String(), want)
		}
	}
}

// A named address must be free, and a default need not be.
func TestHTTPFlag(t *testing.T) {
	for name, port := range map[string]string{"graph": "9440", "processor": "9441", "finalizers": "9442", "scanner": "9443", "up": "9440"} {
		t.Setenv("COPPICE_HTTP", "")
		c, err := parsed(t, name)
		must.Succeed(t, err)
		if f := c.Flag("http"); f.Changed || f.Value.String() != "127.0.0.1:"+port {
			t.Errorf("coppice %s: --http is %s", name, f.Value)
		}
		t.Setenv("COPPICE_HTTP", ":7")
		if c, err = parsed(t, name); err != nil || !c.Flag("http").Changed {
			t.Errorf("coppice %s: with $COPPICE_HTTP the address is not named: %v", name, err)
		}
	}
}

func TestPasswordFiles(t *testing.T) {
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "password"), filepath.Join(dir, "empty")
	must.Succeed(t, os.WriteFile(file, []byte("pa$$ word\n"), 0o600))
	must.Succeed(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, c := range []struct {
		env, flags map[string]string
		want, says string
	}{
		{flags: map[string]string{"password-file": file}, want: "pa$$ word"},
		{env: map[string]string{"NATS_PASSWORD_FILE": file}, want: "pa$$ word"},
		{env: map[string]string{"NATS_PASSWORD": "other"}, flags: map[string]string{"password-file": file}, want: "pa$$ word"},
		{env: map[string]string{"NATS_PASSWORD_FILE": file}, flags: map[string]string{"password": "other"}, want: "other"},
		{env: map[string]string{"NATS_PASSWORD_FILE": file}, flags: map[string]string{"creds": "c"}, want: ""},
		{env: map[string]string{"NATS_PASSWORD_FILE": file, "NATS_PASSWORD": "other"}, says: "$NATS_PASSWORD and $NATS_PASSWORD_FILE are both set: choose one"},
		{flags: map[string]string{"password-file": file, "password": "other"}, says: "--password and --password-file are both given: choose one"},
		{flags: map[string]string{"password-file": empty}, says: "password: " + empty + " is empty"},
		{flags: map[string]string{"password-file": empty + "2"}, says: "no such file"},
	} {
		for _, name := range []string{"NATS_PASSWORD", "NATS_PASSWORD_FILE"} {
			t.Setenv(name, c.env[name])
		}
		a := newApp(strings.NewReader(""), io.Discard, io.Discard)
		command, _, err := rootOf(a).Find([]string{"scanner"})
		must.Succeed(t, err)
		for name, value := range c.flags {
			must.Succeed(t, command.Flags().Set(name, value))
		}
		switch err := a.Dial.Complete(); {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v %v: %v, want %q", c.env, c.flags, err, c.says)
			}
		case err != nil || a.Dial.Password != c.want:
			t.Errorf("%v %v: %q, %v, want %q", c.env, c.flags, a.Dial.Password, err, c.want)
		}
	}
}

// A service that is named must be the one that listens; others need not listen. Checks are made at the same time.
func TestCheckServices(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	at := func(h http.Handler) *url.URL {
		t.Helper()
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		must.Succeed(t, err)
		return u
	}
	up, other := at(fakeService("up", "", "")), at(http.NotFoundHandler())
	waiting := at(fakeService("graph", "waiting for NATS", ""))
	nothing := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	for _, c := range []struct {
		asked []askedService
		ready int
		says  string
	}{
		{[]askedService{{name: "up", base: up}, {base: up}}, 2, ""},
		{[]askedService{{name: "graph", base: up}}, 0, "graph: " + up.String() + ": up listens there, and not graph"},
		{[]askedService{{base: up, optional: true}, {base: other, optional: true}, {base: nothing, optional: true}}, 1, ""},
		{[]askedService{{base: other, optional: true}, {base: nothing, optional: true}}, 0, "no service listens on"},
		{[]askedService{{base: up, optional: true}, {base: waiting, optional: true}}, 1, "graph at " + waiting.String() + " is not ready: waiting for NATS"},
		{[]askedService{{base: up}, {name: "scanner", base: nothing}}, 1, "scanner: " + nothing.String() + ": no program listens there"},
	} {
		ready, err := checkServices(ctx, c.asked, testkit.Timeout)
		if len(ready) != c.ready || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %q, %v; want %d ready, %q", c.asked, ready, err, c.ready, c.says)
		}
	}
}

// coppice ready reports each service, and waits until it is ready.
func TestReady(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	data := filepath.Join(t.TempDir(), "data")
	p := startUp(ctx, t, "--data", data)
	for p.address == "" {
		line := testkit.Receive(t, ctx, "the line with the address", p.lines)
		if m := healthLine.FindStringSubmatch(line); m != nil {
			p.address = m[1]
		}
	}
	run := func(code int, args ...string) string {
		t.Helper()
		var out strings.Builder
		if got := Main(append([]string{"ready"}, args...), strings.NewReader(""), &out, &out); got != code {
			t.Errorf("ready %v: exit code %d, want %d: %s", args, got, code, out.String())
		}
		return out.String()
	}
	port := p.address[strings.LastIndex(p.address, ":"):]
	wait := "--wait=" + testkit.Timeout.String()
	if got, want := run(0, "--service", port, "--service", "http://"+p.address, wait), strings.Repeat("up at http://"+p.address+" is ready\n", 2); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.awaitReady(ctx, data).end(os.Interrupt)
	if got, want := run(1, "--service", p.address), "coppice: http://"+p.address+": no program listens there\n"; got != want {
		t.Errorf("after its end: %q, want %q", got, want)
	}
	if got := run(2, "nothing"); !strings.Contains(got, `"nothing"`) {
		t.Errorf("a service that does not exist: %q", got)
	}
	for arg, want := range map[string]string{"ftp://x": "write a URL such as http://127.0.0.1:9440", "http://x/readyz": "write a URL such as", "none": "the service has no HTTP server"} {
		if got := run(2, "--service", arg); !strings.Contains(got, want) {
			t.Errorf("--service %s: %q, want %q", arg, got, want)
		}
	}
}
