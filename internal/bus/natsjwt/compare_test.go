package natsjwt_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/bus/natsjwt"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// witness is a role that receives all messages of the core account, and may reply.
func witness() bus.Role {
	return bus.Role{Name: "witness", Core: true, Publish: []string{"_INBOX.>", "_R_.>", "coppice.fed.warning.x"}, Subscribe: []string{">"}}
}

// fed is a reader that also receives messages of the core account, as no role of deployments does.
func fed() bus.Role {
	r := bus.ReaderRole("fed", bus.AnyRealm)
	r.Subscribe = append(r.Subscribe, "coppice.*.warning.>")
	return r
}

// Each role can send the same requests, receive the same subjects and get the same number of replies in both modes, on one server and in
// a cluster: what its patterns say.
func TestModes(t *testing.T) {
	t.Parallel()
	roles := defaultRoles(witness(), fed())
	seed := nightly.Seed(t)
	subjects := drawn(rand.New(rand.NewPCG(seed, 0)), roles)
	config, err := natsd.Start(natsd.Config{Dir: t.TempDir(), Port: -1, Roles: roles, Accounts: true, Logf: func(string, ...any) {}})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, config.Shutdown()) })
	want := observe(t, roles, subjects, func(role string) *nats.Conn {
		nc, err := nats.Connect(config.URL(), nats.UserInfo(role, config.Password(role)), nats.CustomInboxPrefix(bus.InboxPrefix(role)), nats.Timeout(testkit.Timeout),
			nats.PermissionErrOnSubscribe(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		must.Succeed(t, err)
		t.Cleanup(nc.Close)
		return nc
	}, func(account string) string { return account })
	sent, all := 0, 0
	for _, r := range bus.Actors(roles) {
		for _, s := range subjects {
			matches := func(pattern string) bool { return server.SubjectsCollide(s, pattern) }
			permitted := slices.ContainsFunc(r.Publish, matches) && !slices.ContainsFunc(r.Deny, matches)
			if all++; permitted {
				sent++
			}
			if got := want[r.Name+" requests "+s]; permitted != (got > 0) {
				t.Errorf("by configuration, %s sends to %s: %d requests; permitted: %t", r.Name, s, got, permitted)
			}
		}
	}
	if sent < 200 || all < 3*sent {
		t.Errorf("%d of %d requests are permitted: the list shows too little", sent, all)
	}
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := start(t, n, roles...)
			table, err := natsjwt.OpenTable(filepath.Join(s.dir, natsjwt.AccountsFile))
			must.Succeed(t, err)
			got := observe(t, roles, subjects, s.connect, func(account string) string {
				actor, _ := table.Actor(account)
				return actor
			})
			for _, all := range []map[string]int{want, got} {
				for what := range all {
					if got[what] != want[what] {
						t.Errorf("%s: %d by JWT, %d by configuration", what, got[what], want[what])
					}
				}
			}
		})
	}
}

// drawn returns subjects that some roles may publish to and others may not.
func drawn(r *rand.Rand, roles []bus.Role) []string {
	tokens := []string{"default", "other", "_", "pods", "secrets", "a-1", "example.com/bucket"}
	var list []string
	for _, role := range bus.Actors(roles) {
		for _, pattern := range append(slices.Clone(role.Publish), role.Deny...) {
			t := strings.Split(pattern, ".")
			for i := range t {
				switch t[i] {
				case "*":
					t[i] = tokens[r.IntN(4)]
				case ">":
					t[i] = tokens[r.IntN(len(tokens))] + ".5.1.2.3"
				}
			}
			list = append(list, strings.Join(t, "."))
			t[r.IntN(len(t))] = tokens[r.IntN(len(tokens))]
			list = append(list, strings.Join(t, "."))
		}
	}
	list = append(list, "coppice.default.log", "coppice.default.work.orphan", "coppice.default.finalize.a.b.c.d", "$JS.API.CONSUMER.CREATE.x.y", "$JS.API.STREAM.DELETE.x",
		"$JS.API.DIRECT.GET.x", "$JS.API.STREAM.NAMES", "$KV.x.y", "$SRV.PING", "_R_.x", "_INBOX.application.x", "x")
	slices.Sort(list)
	return slices.Compact(list)
}

// observe returns for each actor which requests reach the core account, how many of two replies arrive, and what
// the actor may subscribe to.
func observe(t *testing.T, roles []bus.Role, subjects []string, connect func(role string) *nats.Conn, actorOf func(account string) string) map[string]int {
	t.Helper()
	ctx := testkit.Context(t)
	var mu sync.Mutex
	seen := map[string]int{}
	see := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen[what]++
	}
	core := connect("witness")
	_, err := core.Subscribe(">", func(m *nats.Msg) {
		from := m.Header.Get("To-Witness")
		if from == "" || !strings.HasPrefix(m.Reply, "_R_.") {
			return
		}
		_, account, _ := strings.Cut(m.Header.Get("Nats-Request-Info"), `"acc":"`)
		account, _, _ = strings.Cut(account, `"`)
		if actorOf(account) != from {
			t.Errorf("a request of %s comes from the account %q", from, account)
		}
		see(from + " requests " + m.Subject)
		for range 2 {
			_ = core.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"To-Actor": {from}}, Data: []byte(m.Subject)})
		}
	})
	must.Succeed(t, err)
	must.Succeed(t, core.FlushWithContext(ctx))
	for _, r := range bus.Actors(roles) {
		nc := connect(r.Name)
		replies, err := nc.SubscribeSync(nc.NewInbox())
		must.Succeed(t, err)
		request := func(subject string) {
			must.Succeed(t, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: replies.Subject, Header: nats.Header{"To-Witness": {r.Name}}, Data: []byte("{}")}))
		}
		fence, end := strings.ReplaceAll(permitted(r), "*", "fence"), strings.ReplaceAll(permitted(r), "*", "end")
		testkit.WaitFor(t, ctx, "the interest of the core account", func() bool { // in a cluster, other servers learn of it later
			request(fence)
			for {
				m, err := replies.NextMsgWithContext(ctx)
				must.Succeed(t, err)
				if m.Header.Get("To-Actor") != "" {
					return true
				}
				if m.Header.Get("Status") == "503" {
					return false
				}
			}
		})
		for _, s := range subjects {
			request(s)
		}
		request(end)
		for {
			m, err := replies.NextMsgWithContext(ctx)
			must.Succeed(t, err)
			if m.Header.Get("To-Actor") == "" {
				continue // of JetStream
			}
			if string(m.Data) == end {
				break
			}
			if !strings.HasPrefix(string(m.Data), "$JS.API.STREAM.") { // JetStream may have replied first
				see(r.Name + " gets a reply from " + string(m.Data))
			}
		}
		for _, s := range append([]string{"_INBOX." + r.Name + ".>", "_INBOX.>", "_INBOX.x.>", ">", "coppice.>", "coppice.*.log", "coppice.*.warning.>", "coppice.a.warning.b", "_R_.>", "$SYS.>"}, r.Publish...) {
			sub, err := nc.SubscribeSync(s)
			must.Succeed(t, err)
			must.Succeed(t, nc.FlushWithContext(ctx))
			if _, err := sub.NextMsg(1); errors.Is(err, nats.ErrTimeout) {
				see(r.Name + " subscribes to " + s)
				if slices.Contains(r.Feeds(), s) {
					testkit.WaitFor(t, ctx, "a message for "+r.Name, func() bool { // in a cluster, the other servers learn of its interest later
						must.Succeed(t, core.Publish("coppice.fed.warning.x", nil))
						m, err := sub.NextMsg(10 * time.Millisecond)
						return err == nil && m.Subject == "coppice.fed.warning.x"
					})
				}
				must.Succeed(t, sub.Unsubscribe())
			} else if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s subscribes to %s: %v", r.Name, s, err)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	maps.DeleteFunc(seen, func(what string, _ int) bool { return strings.Contains(what, ".fence.") })
	return seen
}

// permitted returns a pattern of requests of a role, with a wildcard, that JetStream does not answer.
func permitted(r bus.Role) string {
	return r.Publish[slices.IndexFunc(r.Publish, func(s string) bool {
		return strings.HasPrefix(s, "coppice.*.api.") || strings.HasPrefix(s, "coppice.*.parked.work.")
	})]
}
