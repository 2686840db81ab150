package docs_test

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/scanner"
)

// Every nats command of README and the documents works: against `coppice up` without a
// password, unless the text at the command says that it needs the user admin; and
// against `coppice up --auth`, as the actor that it names or as admin. The documents'
// commands are run in their order, one document at a time.
//
// docs/finalizers.md has the whole protocol of a finalizer, so that a finalizer's user,
// in an account of its own, carries it out here with the nats command alone.
func TestNatsCommands(t *testing.T) {
	t.Parallel()
	nats := natsCommand(t)
	for _, auth := range []bool{false, true} {
		for _, file := range documents(t) {
			commands, _ := commandsOf(t, file)
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

// Each nats command that the documents name is shown, and TestNatsCommands has a scene for each
// that they show.
func TestNatsCommandsAreKnown(t *testing.T) {
	t.Parallel()
	var all []command
	var names []string
	for _, file := range documents(t) {
		commands, named := commandsOf(t, file)
		all, names = append(all, commands...), append(names, named...)
	}
	if len(all) < 15 {
		t.Fatalf("only %d commands were found", len(all))
	}
	for _, n := range names {
		if !slices.ContainsFunc(all, func(c command) bool { return strings.HasPrefix(c.text, n+" ") }) {
			t.Errorf("the documents name %q, and show no such command", n)
		}
	}
	for _, c := range all {
		if _, ok := sceneOf(c); !ok {
			t.Errorf("%s: TestNatsCommands does not know the command: add a scene for it", c)
		}
	}
}

// sceneOf returns the scene of a command: the first that matches it.
func sceneOf(c command) (scene, bool) {
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.match.MatchString(c.text) })
	if i < 0 {
		return scene{}, false
	}
	return scenes[i], true
}

// natsCommand returns the file of the nats command.
func natsCommand(t *testing.T) string {
	t.Helper()
	nightly.Test(t, nightly.NATSCommand)
	file, err := exec.LookPath("nats")
	must.Succeed(t, err)
	return file
}

// player runs the commands of a document against services of its own. It keeps what later
// commands need of the output of earlier ones.
type player struct {
	ctx     context.Context
	nats    string // file
	dir     string
	auth    bool
	timeout string // of the nats command
	url     string
	admin   *client.Client
	conn    *nats.Conn // of admin
	objects map[string]*coppicev1.Object
	env     []string // of commands that run in the background, in addition

	plan  string
	empty *natsd.Server      // see emptyServer
	ends  map[string]uint64  // last sequences of the logs that were restored, by realm
	calls *background        // nats sub
	again func() *background // runs the last command once more
	ack   string             // the reply subject of a call
	taker string             // the user that takes calls
}

func start(t *testing.T, nats string, auth bool) *player {
	t.Helper()
	ctx := testkit.Context(t)
	p := &player{ctx: ctx, nats: nats, dir: t.TempDir(), auth: auth, timeout: testkit.Timeout.String(), objects: map[string]*coppicev1.Object{}}
	archive, err := dirstore.Create(filepath.Join(p.dir, "archive"))
	must.Succeed(t, err)
	c := allinone.Config{
		Dir: filepath.Join(p.dir, "data"), Port: -1, Auth: auth, Graph: func(g *graph.Config) {
			g.Archive = archive
		},
		Scanner: func(s *scanner.Config) { s.PolicyInterval = 100 * time.Millisecond },
	}
	if auth {
		c.Roles = []bus.Role{bus.ApplicationRole("ana", bus.DefaultRealm), bus.ControllerRole("sites", nil, bus.DefaultRealm), bus.FinalizerRole("bucket", bus.ExampleFinalizer, bus.DefaultRealm), bus.ExpiryRole("keeper", "example.com/keeper", bus.DefaultRealm)}
	}
	running := stack.Start(t, c)
	p.admin = running.As(bus.RoleOperator)
	p.url, p.conn = running.Services.Server().URL(), p.admin.Conn()
	return p
}

// run runs a command, and reports whether it printed what it must print.
func (p *player) run(t *testing.T, c command) bool {
	t.Helper()
	s, ok := sceneOf(c)
	if !ok {
		t.Errorf("%s: this test does not know the command: add a scene for it", c)
		return false
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
	again := func() *background { return p.start(t, text, p.user(c)) }
	b := again()
	if strings.HasPrefix(text, "nats sub ") {
		b.says(t, s.prints)
		p.calls = b
		return true
	}
	b.wait(t)
	prints := regexp.MustCompile(s.prints)
	if s.repeat {
		testkit.WaitFor(t, p.ctx, text+" to print "+s.prints, func() bool {
			if prints.MatchString(b.output()) {
				return true
			}
			b = again()
			b.wait(t)
			return false
		})
	}
	out := b.output()
	if b.err != nil || failures.MatchString(out) || !prints.MatchString(out) {
		t.Errorf("%s\nended with %v, and printed\n%s\nwant %s", text, b.err, out, s.prints)
		return false
	}
	if !strings.Contains(out, strings.TrimSuffix(c.output, "...")) {
		t.Errorf("%s\nprints\n%s\nthe document shows\n%s", c, out, c.output)
		return false
	}
	p.again = again
	if s.after != nil {
		s.after(t, p, out)
	}
	return true
}

var actor = regexp.MustCompile(`coppice\.default\.api\.([a-z]+)\.`)

var inbox = regexp.MustCompile(`_INBOX\.([a-z]+)\.calls`)

// user returns the user that runs a command if each actor has an account.
func (p *player) user(c command) string {
	switch m := actor.FindStringSubmatch(c.text); {
	case c.admin:
		return bus.RoleAdmin
	case m != nil:
		return m[1]
	}
	if m := inbox.FindStringSubmatch(c.text); m != nil {
		p.taker = m[1]
	}
	return cmp.Or(p.taker, "bucket") // of docs/finalizers.md
}

// The user without a password may not run the commands that need the user admin.
func TestAdminOnly(t *testing.T) {
	t.Parallel()
	p := start(t, natsCommand(t), false)
	p.timeout = "2s" // the commands wait for replies that do not come
	n := 0
	for _, file := range documents(t) {
		commands, _ := commandsOf(t, file)
		for _, c := range commands {
			if !c.admin || c.accounts {
				continue
			}
			n++
			b := p.start(t, c.text, "")
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
			default: // the command waits for a reply that never comes
			}
		}
	}
	if n == 0 {
		t.Error("no command needs the user admin")
	}
}
