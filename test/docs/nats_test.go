// Package docs_test runs the commands that README and the documents show.
package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "coppice-docs-")
	if err != nil {
		panic(err)
	}
	programsDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// Every nats command of README and the documents works: against `coppice up` without a
// password, unless the text at the command says that it needs the user admin; and
// against `coppice up --auth`, as the actor that it names or as admin. The documents'
// commands are run in their order, one document at a time. A command that this test
// does not know fails it.
//
// docs/finalizers.md has the whole protocol of a finalizer, so that a finalizer's user,
// in an account of its own, carries it out here with the nats command alone.
func TestNatsCommands(t *testing.T) {
	t.Parallel()
	nats, err := exec.LookPath("nats")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: CI must install the nats command; see .ci/run", err)
		}
		t.Skip("there is no nats command: go build -modfile=tools/nats/go.mod github.com/nats-io/natscli/nats")
	}
	var all []command
	var names []string
	byFile := map[string][]command{}
	for _, file := range documents(t) {
		commands, named := commandsOf(t, file)
		all, names, byFile[file] = append(all, commands...), append(names, named...), commands
	}
	if len(all) < 15 {
		t.Fatalf("only %d commands were found", len(all))
	}
	for _, n := range names {
		found := false
		for _, c := range all {
			found = found || strings.HasPrefix(c.text, n+" ")
		}
		if !found {
			t.Errorf("the documents name %q, and show no such command", n)
		}
	}
	for _, auth := range []bool{false, true} {
		for file, commands := range byFile {
			if len(commands) == 0 {
				continue
			}
			t.Run(fmt.Sprintf("auth %t, %s", auth, file), func(t *testing.T) {
				t.Parallel()
				p := start(t, nats, auth)
				for _, c := range commands {
					if !auth && c.admin && !c.accounts {
						continue // TestAdminOnly
					}
					if !p.run(t, c) {
						t.Fatalf("%s", c)
					}
				}
			})
		}
	}
}

// players of a document: the services, the nats command, and what one command's output
// tells the next.
type player struct {
	ctx     context.Context
	nats    string // file
	dir     string
	auth    bool
	timeout string // of the nats command
	url     string
	admin   *client.Client
	objects map[string]*coppicev1.Object

	plan  string
	calls *background // nats sub
	ack   string      // the reply subject of a call
}

func start(t *testing.T, nats string, auth bool) *player {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Timeout)
	t.Cleanup(cancel)
	p := &player{ctx: ctx, nats: nats, dir: t.TempDir(), auth: auth, timeout: "20s", objects: map[string]*coppicev1.Object{}}
	c := allinone.Config{Dir: filepath.Join(p.dir, "data"), Port: -1, Auth: auth}
	if auth {
		c.Roles = []bus.Role{bus.ApplicationRole("ana", bus.DefaultRealm), bus.FinalizerRole("bucket", bus.ExampleFinalizer, bus.DefaultRealm)}
	}
	stack, err := allinone.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := stack.Await(ctx); err != nil {
		t.Fatal(err)
	}
	nc, err := stack.Conn(bus.RoleOperator)
	if err != nil {
		t.Fatal(err)
	}
	p.url, p.admin = stack.Server().URL(), client.New(nc, client.WithActor(bus.RoleOperator))
	return p
}

// scene is what a command of the documents needs, and what it must print.
type scene struct {
	match *regexp.Regexp
	// before prepares objects.
	before func(*testing.T, *player)
	// with replaces what a reader replaces: uids, plans, directories.
	with func(*player, string) string
	// prints must match standard output and error.
	prints string
	// after looks at the output.
	after func(*testing.T, *player, string)
}

// succeeded is in the reply to a request that has succeeded for each object.
const succeeded = `"code":\s*20\d`

// scenes are those of all commands; the first that matches is a command's.
var scenes = []scene{
	{match: on(`\.create\._\.configmaps\.`), prints: succeeded},
	{match: on(`\.get\._\.configmaps\.`), prints: succeeded},
	{match: on(`\.plan\.apps\.deployments\.`), before: deployment, prints: `"hash":\s*"`, after: rememberPlan},
	{match: on(`\.delete\.apps\.deployments\..*"plan"`), before: deployment, with: withPlan, prints: succeeded},
	{match: on(`\.delete\.apps\.deployments\.`), before: deployment, prints: succeeded},

	{match: on(`\.consumefinalizer\.`), prints: `"durable":\s*"f-`},
	{match: regexp.MustCompile(`^nats sub _INBOX\.`), before: calledPod, prints: `Subscribing on`},
	{match: regexp.MustCompile(`^nats pub --reply _INBOX\.\S+ '\$JS\.API\.CONSUMER\.MSG\.NEXT\.`), prints: `Published`, after: awaitCall},
	{match: on(`\.get\._\.pods\.`), before: calledPod, prints: succeeded},
	{match: regexp.MustCompile(`^nats pub '\$JS\.ACK\.\S+' \+(WPI|ACK)$`), with: withAck, prints: `Published`},
	{match: on(`\.removefinalizer\._\.pods\.`), before: calledPod, with: withUID, prints: succeeded, after: podGone},
	{match: on(`\.delete\._\.pods\.`), before: pod, with: withUID, prints: succeeded},

	{match: regexp.MustCompile(`^nats micro ls$`), prints: `coppice-writer`},
	{match: regexp.MustCompile(`^nats micro info coppice-writer$`), prints: `coppice-writer`},
	{match: regexp.MustCompile(`^nats stream backup coppice-default-log DIR$`), with: withDir, prints: `(?i)backup`, after: backedUp},
	{match: regexp.MustCompile(`^nats stream edit coppice-default-log `), prints: `was updated`},
}

func on(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^nats (req|request) .*coppice\.default\.api\.[a-z]+` + pattern)
}

// failures are in the output of a nats command that has ended with exit code 0.
var failures = regexp.MustCompile(`Nats-Service-Error|No responders|(?i)permissions violation`)

// run runs a command, and reports whether it did what it is for.
func (p *player) run(t *testing.T, c command) bool {
	t.Helper()
	for _, s := range scenes {
		if !s.match.MatchString(c.text) {
			continue
		}
		if s.before != nil {
			s.before(t, p)
		}
		text := c.text
		if s.with != nil {
			text = s.with(p, text)
		}
		if strings.Contains(text, "…") {
			t.Errorf("%s: a part is left out that this test does not fill in", text)
			return false
		}
		b := p.start(t, text, p.user(c))
		if strings.HasPrefix(text, "nats sub ") {
			b.says(t, s.prints)
			p.calls = b
			return true
		}
		b.wait(t)
		out := b.output()
		if b.err != nil || failures.MatchString(out) || !regexp.MustCompile(s.prints).MatchString(out) {
			t.Errorf("%s\nended with %v, and printed\n%s\nwant %s", text, b.err, out, s.prints)
			return false
		}
		if !strings.Contains(out, strings.TrimSuffix(c.output, "...")) {
			t.Errorf("%s\nprints\n%s\nthe document shows\n%s", c, out, c.output)
			return false
		}
		if s.after != nil {
			s.after(t, p, out)
		}
		return true
	}
	t.Errorf("%s: this test does not know the command: add what it needs, and what it prints", c)
	return false
}

var actor = regexp.MustCompile(`coppice\.default\.api\.([a-z]+)\.`)

// user is as whom a command is run where each actor has an account.
func (p *player) user(c command) string {
	switch m := actor.FindStringSubmatch(c.text); {
	case c.admin:
		return bus.RoleAdmin
	case m != nil:
		return m[1]
	}
	return "bucket" // of docs/finalizers.md
}

// background is a command that runs.
type background struct {
	ctx   context.Context
	cmd   *exec.Cmd
	mu    sync.Mutex
	out   strings.Builder
	ended chan struct{}
	err   error
}

func (b *background) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(data)
}

func (b *background) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// start starts a command in a shell, as the documents show it.
func (p *player) start(t *testing.T, text, user string) *background {
	t.Helper()
	b := &background{ctx: p.ctx, cmd: exec.Command("sh", "-c", "exec "+text), ended: make(chan struct{})}
	b.cmd.Dir = p.dir
	b.cmd.Env = []string{"PATH=" + filepath.Dir(p.nats) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + p.dir, "NATS_TIMEOUT=" + p.timeout}
	if p.auth {
		b.cmd.Env = append(b.cmd.Env, "XDG_CONFIG_HOME="+filepath.Join(p.dir, "data", allinone.UsersDir), "NATS_CONTEXT="+user)
	} else {
		b.cmd.Env = append(b.cmd.Env, "NATS_URL="+p.url)
	}
	b.cmd.Stdout, b.cmd.Stderr = b, b
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.ended)
		b.err = b.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.ended
	})
	return b
}

func (b *background) wait(t *testing.T) {
	t.Helper()
	testkit.Receive(t, b.ctx, "the end of "+b.cmd.String(), b.ended)
}

// says waits until the command has printed a text.
func (b *background) says(t *testing.T, pattern string) []string {
	t.Helper()
	var found []string
	defer func() {
		if t.Failed() {
			t.Logf("%s printed\n%s", b.cmd, b.output())
		}
	}()
	testkit.WaitFor(t, b.ctx, fmt.Sprintf("%s to print %s", b.cmd, pattern), func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(b.output())
		select {
		case <-b.ended:
			if found == nil {
				t.Fatalf("%s ended with %v, and printed %s", b.cmd, b.err, b.output())
			}
		default:
		}
		return found != nil
	})
	return found
}

// ensure has an object be there, that is not being deleted.
func (p *player) ensure(t *testing.T, r client.Resource, o *coppicev1.Object) {
	t.Helper()
	objects := p.admin.Resource(r, "shop")
	testkit.WaitFor(t, p.ctx, "an object to be there", func() bool {
		created, err := objects.Create(p.ctx, o)
		if err == nil {
			p.objects[r.Plural] = created
			return true
		}
		is, getErr := objects.Get(p.ctx, o.GetMetadata().GetName())
		switch {
		case getErr == nil && is.GetMetadata().GetDeletionTimestamp() == nil:
			p.objects[r.Plural] = is
			return true
		case getErr == nil, errors.Is(getErr, client.ErrNotFound):
			return false
		}
		t.Fatal(err, getErr)
		return false
	})
}

func deployment(t *testing.T, p *player) {
	t.Helper()
	p.ensure(t, client.Resource{Group: "apps", Plural: "deployments"}, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web"}})
}

var pods = client.Resource{Plural: "pods"}

func pod(t *testing.T, p *player) {
	t.Helper()
	p.ensure(t, pods, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web-1"}})
}

// calledPod has a pod be there that is being deleted, and waits for its finalizer.
func calledPod(t *testing.T, p *player) {
	t.Helper()
	if p.objects[pods.Plural] != nil {
		return
	}
	p.ensure(t, pods, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web-1", Finalizers: []string{bus.ExampleFinalizer}}})
	if _, err := p.admin.Resource(pods, "shop").Delete(p.ctx, "web-1"); err != nil {
		t.Fatal(err)
	}
}

func podGone(t *testing.T, p *player, _ string) {
	t.Helper()
	testkit.WaitFor(t, p.ctx, "the pod to be removed", func() bool {
		_, err := p.admin.Resource(pods, "shop").Get(p.ctx, "web-1")
		return errors.Is(err, client.ErrNotFound)
	})
}

// awaitCall waits for the call that was asked for, and remembers where it is acknowledged.
func awaitCall(t *testing.T, p *player, _ string) {
	t.Helper()
	p.ack = p.calls.says(t, `with reply "(\$JS\.ACK\.[^"]+)"[^#]+"resource":"pods"`)[1]
}

func withAck(p *player, text string) string {
	return strings.Replace(text, "$JS.ACK.coppice-default-finalize.…", p.ack, 1)
}

func withUID(p *player, text string) string {
	return strings.Replace(text, "01890a5d-…", p.objects[pods.Plural].GetMetadata().GetUid(), 1)
}

var hash = regexp.MustCompile(`"plan":\s*"([0-9a-f]+@\d+)"`)

func rememberPlan(t *testing.T, p *player, out string) {
	t.Helper()
	if m := hash.FindStringSubmatch(out); m != nil {
		p.plan = m[1]
	} else {
		t.Errorf("the plan has no hash: %s", out)
	}
}

func withPlan(p *player, text string) string {
	return regexp.MustCompile(`"plan": "[^"]+"`).ReplaceAllString(text, `"plan": "`+p.plan+`"`)
}

func withDir(p *player, text string) string {
	return strings.TrimSuffix(text, "DIR") + filepath.Join(p.dir, "backup")
}

func backedUp(t *testing.T, p *player, _ string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(p.dir, "backup"))
	if err != nil || len(files) < 2 {
		t.Errorf("the backup has %d files, %v", len(files), err)
	}
}

// What needs the user admin is refused to the user without a password.
func TestAdminOnly(t *testing.T) {
	t.Parallel()
	nats, err := exec.LookPath("nats")
	if err != nil {
		t.Skip("there is no nats command")
	}
	p := start(t, nats, false)
	p.timeout = "2s" // the commands wait for answers that do not come
	n := 0
	for _, file := range documents(t) {
		commands, _ := commandsOf(t, file)
		for _, c := range commands {
			if !c.admin || c.accounts {
				continue
			}
			n++
			b := p.start(t, withDir(p, c.text), "")
			testkit.WaitFor(t, p.ctx, c.text+" to be refused", func() bool {
				select {
				case <-b.ended:
					return true
				case <-time.After(time.Millisecond):
					return regexp.MustCompile("(?i)permissions violation").MatchString(b.output())
				}
			})
			select {
			case <-b.ended:
				if b.err == nil {
					t.Errorf("%s: the user without a password may do that: %s", c, b.output())
				}
			default: // it waits for an answer that never comes
			}
		}
	}
	if n == 0 {
		t.Error("no command needs the user admin")
	}
}
