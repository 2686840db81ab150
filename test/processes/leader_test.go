//go:build unix

package processes_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// led is a deployment with processes of one controller, which elect a leader.
type led struct {
	*deployment
	server *process // of NATS
	graphs *service
	self   string // the program of the test
	file   string // with what the leaders do
}

// newLed returns a deployment in which the NATS server has an account for the controller, with an object that leaders write.
func newLed(t *testing.T) *led {
	t.Helper()
	d := newDeployment(t)
	d.conf = filepath.Join(d.dir, "roles.conf")
	conf, err := os.Create(d.conf)
	must.Succeed(t, err)
	must.Succeed(t, natsconf.Write(conf, append(natsconf.DefaultRoles(), controllerRole), ""))
	must.Succeed(t, conf.Close())
	self, err := os.Executable()
	must.Succeed(t, err)
	l := &led{deployment: d, self: self, file: filepath.Join(d.dir, "work")}
	l.server, l.graphs = d.nats(controllerRole), d.graph()
	l.graphs.ready()
	d.create(d.application(), client.Resource{Plural: "configmaps"}, object(counter))
	return l
}

// controller starts a process of the controller, which connects to a URL.
func (l *led) controller(name, url string, ttl time.Duration, more ...string) *process {
	l.t.Helper()
	return start(l.t, l.ctx, l.dir, name, append(more,
		"NATS_URL="+url, "NATS_PASSWORD="+password(controllerRole.Name), controllerName+"="+name, controllerFile+"="+l.file, controllerTTL+"="+ttl.String(),
	), l.self)
}

// worked returns the names of the processes that have begun to work and, for each, how often they have ended. It checks that no
// process begins while another works, except for those that were killed or stopped while they worked.
func (l *led) worked(except ...string) (began []string, ended map[string]int) {
	l.t.Helper()
	data, err := os.ReadFile(l.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	working := ""
	ended = map[string]int{}
	for line := range strings.Lines(string(data)) {
		what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "begin" {
			if working != "" && working != name && !slices.Contains(except, working) {
				l.t.Errorf("%s begins while %s works", name, working)
			}
			working, began = name, append(began, name)
			continue
		}
		ended[name]++
		if working == name {
			working = ""
		}
	}
	return began, ended
}

// works waits until a process has ended one more call.
func (l *led) works(name string, except ...string) {
	l.t.Helper()
	_, before := l.worked(except...)
	testkit.WaitFor(l.t, l.ctx, name+" to work", func() bool {
		_, now := l.worked(except...)
		return now[name] > before[name]
	})
}

// turns returns the names of the processes that have begun to work, in order, without those that equal the one before.
func (l *led) turns(except ...string) string {
	l.t.Helper()
	began, _ := l.worked(except...)
	return strings.Join(slices.Compact(began), " ")
}

// writers returns the names of the processes whose writes are in the log, as turns does.
func (l *led) writers() string {
	l.t.Helper()
	var names []string
	for c, err := range l.operator().Log().Read(l.ctx, client.FromSequence(1), client.ForName(counter)) {
		must.Succeed(l.t, err)
		for _, e := range c.GetEvents() {
			if name := e.GetUpdated().GetBody().GetLabels()["writer"]; name != "" {
				names = append(names, name)
			}
		}
	}
	return strings.Join(slices.Compact(names), " ")
}

// Another process leads after the leader was killed, and at once after it was terminated.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	l := newLed(t)
	const ttl = 5 * time.Second
	env := func(name string) []string {
		return []string{"NATS_URL=" + l.url(), "NATS_USER=" + controllerRole.Name, "NATS_PASSWORD=" + password(controllerRole.Name), "TMPDIR=" + l.dir, "HOME=" + l.dir, "NAME=" + name}
	}
	const leads = "this process leads"
	first := start(t, l.ctx, l.dir, "site-1", env("1"), program("controller"), "--lease", ttl.String())
	first.says(leads)
	var others []*process
	for _, name := range []string{"site-2", "site-3"} {
		p := start(t, l.ctx, l.dir, name, env(name), program("controller"), "--lease", ttl.String())
		p.says(fmt.Sprintf("/%d leads; this process takes over", first.cmd.Process.Pid))
		others = append(others, p)
	}
	// leading waits until one of the others leads, and returns it before the other.
	leading := func(of []*process) []*process {
		testkit.WaitFor(t, l.ctx, "another leader", func() bool {
			return slices.ContainsFunc(of, func(p *process) bool { return strings.Contains(p.output(), leads) })
		})
		slices.SortFunc(of, func(a, b *process) int { return strings.Count(b.output(), leads) - strings.Count(a.output(), leads) })
		return of
	}
	first.kill()
	others = leading(others)
	others[0].terminate()
	others[1].says(leads)
	others[1].terminate()
}

// A lease outlives the graph service and the NATS server.
func TestLeaseOutlivesServices(t *testing.T) {
	t.Parallel()
	l := newLed(t)
	const ttl = 5 * time.Minute
	first := l.controller("first", l.url(), ttl)
	l.works("first")
	second := l.controller("second", l.url(), ttl)
	second.says("follows first")
	l.graphs.terminate() // while it can release its own lease
	l.server.kill()
	l.server, l.graphs = l.nats(controllerRole), l.graph()
	l.graphs.ready()
	l.works("first")
	third := l.controller("third", l.url(), ttl)
	third.says("follows first")
	if out := l.operate("leader", "list"); !regexp.MustCompile(`(?m)^led +example\.com/led +first +5m0s +\d`).MatchString(out) {
		t.Errorf("coppice leader list prints\n%s", out)
	}
	third.terminate()
	first.terminate()
	l.works("second")
	second.terminate()
	if got := l.turns(); got != "first second" {
		t.Errorf("%s have worked", got)
	}
}

// A process that was stopped for longer than its lease does nothing more as the leader when it goes on.
func TestLeaderIsStopped(t *testing.T) {
	nightly.Test(t, nightly.Minutes)
	t.Parallel()
	l := newLed(t)
	const ttl = 15 * time.Second
	// It is stopped in the pause after its first call: otherwise a write that it has given to the NATS client could be sent when it goes on.
	first := l.controller("first", l.url(), ttl, controllerPause+"=10s")
	l.works("first")
	second := l.controller("second", l.url(), ttl)
	first.signal(syscall.SIGSTOP)
	l.works("second", "first")
	first.signal(syscall.SIGCONT)
	first.says("the lease was lost")
	first.says("follows second")
	l.works("second", "first")
	if got := l.turns("first"); got != "first second" {
		t.Errorf("%s have worked", got)
	}
	if got := l.writers(); got != "first second" {
		t.Errorf("%s have written", got)
	}
	second.kill()
	l.works("first", "first", "second")
	first.terminate()
	if got := l.writers(); got != "first second first" {
		t.Errorf("at the end, %s have written", got)
	}
}

// A leader that is separated from NATS has stopped before another process begins, and leads again only when that one has stopped.
func TestLeaderIsSeparated(t *testing.T) {
	nightly.Test(t, nightly.Minutes)
	t.Parallel()
	for _, tc := range []struct {
		name           string
		separate, heal func(p *testkit.Proxy)
	}{
		{"silent", func(p *testkit.Proxy) {
			p.Set(testkit.ToServer, testkit.Discard)
			p.Set(testkit.ToClient, testkit.Discard)
		}, (*testkit.Proxy).Heal},
		// Its renewals arrive, and it does not learn of it. It releases the lease when its term is over.
		{"no replies", func(p *testkit.Proxy) { p.Set(testkit.ToClient, testkit.Discard) }, (*testkit.Proxy).Heal},
		// Its renewals arrive when another process leads.
		{"late", func(p *testkit.Proxy) { p.Set(testkit.ToServer, testkit.Hold) }, func(p *testkit.Proxy) { p.Set(testkit.ToServer, testkit.Pass) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLed(t)
			const ttl = 15 * time.Second
			proxy := testkit.NewProxy(t, l.url())
			first := l.controller("first", proxy.URL(), ttl)
			l.works("first")
			second := l.controller("second", l.url(), ttl)
			third := l.controller("third", l.url(), ttl)
			second.says("follows first")
			third.says("follows first")
			tc.separate(proxy)
			testkit.WaitFor(t, l.ctx, "another leader", func() bool { return strings.Count(l.turns(), " ") == 1 })
			tc.heal(proxy)
			_, next, _ := strings.Cut(l.turns(), " ")
			first.says("follows " + next)
			l.works(next)
			if got := l.turns(); got != "first "+next {
				t.Errorf("%s have worked", got)
			}
			for _, p := range []*process{first, second, third} {
				p.terminate()
			}
			l.turns() // also at the end, no two work at the same time
		})
	}
}
