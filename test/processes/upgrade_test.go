//go:build unix

package processes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// longestWrite bounds how long a write may take while processes are replaced. A fail-over takes up to the lease, 5 s; a
// graph service that is stopped hands its realms over at once.
const longestWrite = 3 * 5 * time.Second

// The processes of an installation of the version before this one are replaced in the order of docs/upgrade.md, one by
// one, and replaced by the version before again. Every write is acknowledged, none of them is lost, cascades complete, and
// the state equals the log.
func TestUpgrade(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes) // it builds the version before
	t.Parallel()
	u := newUpgrade(t, olderAt(t, versionBefore(t)))
	u.start()
	u.load(func() {
		u.ended("the version before")
		u.configure()
		u.ended("the new configuration of NATS")
		for _, m := range u.members {
			m.replace(true)
			u.ended(m.name + " of this version")
		}
		u.compare("upgrade")
		for _, m := range slices.Backward(u.members) {
			m.replace(false)
			u.ended(m.name + " of the version before")
		}
	})
	u.compare("downgrade")
}

// An installation of the commit in test/mixed/EARLY_BASE, whose log has no version in its format, is upgraded as
// docs/upgrade.md says: all graph services are stopped, replaced, and started.
func TestUpgradeFromBeforeTheFreeze(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes)
	t.Parallel()
	u := newUpgrade(t, olderOf(t, "EARLY_BASE"))
	u.most = testkit.Timeout // writes wait while no graph service runs
	u.start()
	u.load(func() {
		u.ended("the commit before the freeze")
		u.configure()
		graphs, others := u.members[:2], u.members[2:]
		for _, m := range graphs {
			m.stop()
		}
		for _, m := range graphs {
			m.start(true)
		}
		u.ended("graph services of this version")
		for _, m := range others {
			m.replace(true)
		}
		u.ended("this version")
	})
	u.compare("upgrade")
}

// versionBefore returns the newest released version before HEAD, or else the commit in test/mixed/LOG_BASE.
func versionBefore(t *testing.T) (commit string) {
	t.Helper()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", module}, args...)...).Output()
		if err != nil {
			t.Fatalf("git %s: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if tags := git("tag", "--merged", "HEAD", "--no-contains", "HEAD", "--list", "v[0-9]*", "--sort", "-version:refname"); tags != "" {
		newest, _, _ := strings.Cut(tags, "\n")
		t.Logf("the version before is %s", newest)
		return git("rev-parse", newest+"^{commit}")
	}
	base, err := os.ReadFile(filepath.Join(module, "test/mixed/LOG_BASE"))
	must.Succeed(t, err)
	t.Log("there is no release: the version before is the commit in test/mixed/LOG_BASE")
	return strings.TrimSpace(string(base))
}

// upgrade is an installation whose processes have either of two versions.
type upgrade struct {
	*deployment
	older   olderPrograms
	most    time.Duration // that a write may take
	server  *process      // of NATS
	members []*member
	ledger  *ledger
	cascade *rollingLoad
}

func newUpgrade(t *testing.T, older olderPrograms) *upgrade {
	t.Helper()
	u := &upgrade{deployment: newDeployment(t), older: older, most: longestWrite}
	if testkit.Raced {
		u.most *= 4
	}
	return u
}

// start starts the older version with the NATS configuration of its own.
func (u *upgrade) start() {
	u.t.Helper()
	u.conf = u.older.conf
	u.server = u.nats()
	add := func(role string, count int, args func(name string) []string) {
		for i := range count {
			m := &member{u: u, name: fmt.Sprintf("%s-%d", role, i+1), role: role}
			if args != nil {
				m.args = args(m.name)
			}
			u.members = append(u.members, m)
			m.start(false)
		}
	}
	add(bus.RoleGraph, 2, func(name string) []string { return []string{"--data", filepath.Join(u.dir, name)} })
	add(bus.RoleProcessor, 2, nil)
	add(bus.RoleFinalizers, 2, nil)
	add(bus.RoleScanner, 1, nil)
	add(bus.RoleFinalizer, 1, nil)
}

// configure gives the NATS server the configuration of this version. The first reload creates the accounts of new
// users, the second activates their imports.
func (u *upgrade) configure() {
	u.t.Helper()
	u.conf = filepath.Join(module, "deploy/nats/coppice.conf")
	u.configuration(u.dir)
	const reloaded = "Reloaded server configuration"
	for range 2 {
		before := strings.Count(u.server.output(), reloaded)
		u.server.signal(syscall.SIGHUP)
		testkit.WaitFor(u.t, u.ctx, "NATS to reload its configuration", func() bool { return strings.Count(u.server.output(), reloaded) > before })
	}
}

// load runs writers and cascades while during runs.
func (u *upgrade) load(during func()) {
	u.t.Helper()
	ctx, stop := context.WithCancel(u.ctx)
	u.ledger = &ledger{t: u.t, ctx: ctx, client: u.application(), objects: map[string]string{}}
	u.cascade = &rollingLoad{t: u.t, ctx: ctx, client: u.application(), running: map[int]bool{}}
	var running sync.WaitGroup
	for i := range 2 {
		running.Go(func() { u.ledger.run(i) })
	}
	running.Go(u.cascade.run)
	defer running.Wait()
	defer stop()
	during()
}

// ended waits until everything has ended that had begun and something was written, and reports what the load has seen since the last call.
func (u *upgrade) ended(what string) {
	u.t.Helper()
	u.cascade.ended(10)
	// A write that had no reply while no graph service ran is repeated after some seconds.
	testkit.WaitFor(u.t, u.ctx, what+": a write", u.ledger.written)
	writes, slowest := u.ledger.seen()
	u.t.Logf("%s: %d writes, the slowest took %s; the slowest cascade took %s", what, writes, slowest, u.cascade.slowest())
	if slowest > u.most {
		u.t.Errorf("%s: a write took %s, want at most %s", what, slowest, u.most)
	}
}

// compare compares the objects of the realm with the acknowledged writes, and its state with the log. Writers may run.
func (u *upgrade) compare(after string) {
	u.t.Helper()
	if out := u.operate("verify"); !strings.Contains(out, "state equals the log") {
		u.t.Errorf("%s: verify says %q", after, out)
	}
	u.ledger.compare(u.deployment, after)
}

// member is a process of the installation. The external finalizer of this version is a part of the test, with a connection of its own.
type member struct {
	u          *upgrade
	name, role string
	args       []string
	begun      int
	stop       func()
}

func (m *member) start(newer bool) {
	u := m.u
	u.t.Helper()
	m.begun++
	name := m.name + "." + strconv.Itoa(m.begun)
	switch {
	case m.role == bus.RoleFinalizer && newer:
		r := &rolled{d: u.deployment, name: name, role: m.role}
		r.start()
		m.stop = r.stop
	case m.role == bus.RoleFinalizer:
		p := start(u.t, u.ctx, u.dir, name, []string{"HOME=" + u.dir, "NATS_URL=" + u.url()}, u.older.finalizer, m.role, password(m.role), bus.ExampleFinalizer)
		m.stop = p.terminate
	case newer:
		s := u.instance(name, m.role, append([]string{}, m.args...)...)
		ready := start(u.t, u.ctx, u.dir, name+"-ready", []string{"HOME=" + u.dir}, program("coppice"), "ready", "--service", s.url, "--wait", testkit.Timeout.String())
		if code := ready.code(); code != 0 {
			u.t.Fatalf("coppice ready ended with exit code %d: %s", code, ready.output())
		}
		m.stop = s.terminate
	default:
		s := u.deployment.older(u.older.coppice, name, m.role, append([]string{m.role}, m.args...)...).serving()
		s.ready()
		m.stop = s.terminate
	}
}

// replace stops the process, and starts it again in a version.
func (m *member) replace(newer bool) {
	m.u.t.Helper()
	m.stop()
	m.start(newer)
}

// ledger creates and deletes objects without a pause, and records what is acknowledged.
type ledger struct {
	t      *testing.T
	ctx    context.Context
	client *client.Client

	mu      sync.Mutex
	objects map[string]string // the uids of the objects by name; empty for one that was deleted
	writes  int
	slowest time.Duration
}

const ledgerNamespace = "ledger"

// keeps reports whether an object is not deleted.
func (l *ledger) keeps(name string) bool { return strings.HasSuffix(name, "0") }

// run creates objects, and deletes most of them again.
func (l *ledger) run(writer int) {
	pods := l.client.Resource(pods, ledgerNamespace)
	for i := 0; ; i++ {
		name := fmt.Sprintf("%d-%d", writer, i)
		var uid string
		l.write(name, func() error {
			created, err := pods.Create(l.ctx, object(name))
			uid = created.GetMetadata().GetUid()
			return err
		}, &uid)
		if !l.keeps(name) {
			gone := ""
			l.write(name, func() error {
				_, err := pods.Delete(l.ctx, name)
				return err
			}, &gone)
		}
		if l.ctx.Err() != nil {
			return
		}
	}
}

// write carries out a write, and records the uid that the object then has.
func (l *ledger) write(name string, write func() error, uid *string) {
	begun := time.Now()
	err := write()
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.objects[name] = *uid
		l.writes++
		l.slowest = max(l.slowest, took)
	case l.ctx.Err() != nil:
		delete(l.objects, name) // it may have been carried out
	default:
		l.t.Errorf("a write of %s after %s: %v", name, took, err)
	}
}

// written reports whether something was written since the last call of seen.
func (l *ledger) written() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes > 0
}

// seen returns what has happened since the last call.
func (l *ledger) seen() (writes int, slowest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.writes, l.slowest = 0, 0 }()
	return l.writes, l.slowest.Round(time.Millisecond)
}

// compare compares the objects of the realm with those that were acknowledged before the call.
func (l *ledger) compare(d *deployment, after string) {
	l.t.Helper()
	l.mu.Lock()
	want := make(map[string]string, len(l.objects))
	for name, uid := range l.objects {
		want[name] = uid
	}
	l.mu.Unlock()
	got := map[string]string{}
	for o, err := range l.client.Resource(pods, ledgerNamespace).List(d.ctx) {
		must.Succeed(l.t, err)
		got[o.GetMetadata().GetName()] = o.GetMetadata().GetUid()
	}
	kept, wrong := 0, 0
	for name, uid := range want {
		if uid != "" {
			if !l.keeps(name) {
				continue // it was about to be deleted
			}
			kept++
		}
		if got[name] != uid {
			if wrong++; wrong <= 5 {
				l.t.Errorf("after the %s: %s has the uid %q, and was acknowledged with %q", after, name, got[name], uid)
			}
		}
	}
	if kept == 0 || kept == len(want) {
		l.t.Errorf("after the %s: %d of %d objects are kept", after, kept, len(want))
	}
	l.t.Logf("after the %s: %d objects are there and %d are gone, as acknowledged; %d differ", after, kept, len(want)-kept, wrong)
}
