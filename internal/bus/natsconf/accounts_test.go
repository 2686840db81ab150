package natsconf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Exports are equal or disjoint, in the file for any actors: a server looks
// overlapping ones up in no particular order. None lets a client create a consumer,
// publish to the log or to a queue, or choose a stream.
func TestExports(t *testing.T) {
	t.Parallel()
	roles := append(bus.Roles(bus.AnyRealm), bus.BenchRole(bus.AnyRealm), bus.ApplicationRole("shop", "a", "b"),
		bus.FinalizerRole("second", bus.ExampleFinalizer, "a"), bus.AgentRole("kubelet", "apps", "deployments", bus.AnyRealm), bus.LocalRole(bus.AnyRealm))
	services, err := bus.Services(roles)
	must.Succeed(t, err)
	local := func(s bus.Service) bool { return slices.Equal(s.Accounts, []string{bus.LocalUser}) }
	for i, a := range services {
		for _, b := range services[:i] {
			// The local user has the subjects of all actors, and no other actor's subject has its text.
			if local(a) == local(b) && server.SubjectsCollide(a.Subject, b.Subject) {
				t.Errorf("%s and %s overlap", a.Subject, b.Subject)
			}
		}
		for _, never := range []string{
			"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DURABLE.>", "$JS.API.CONSUMER.DELETE.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>",
			"$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.>", "$JS.API.STREAM.SNAPSHOT.>", "$JS.API.STREAM.RESTORE.>",
			"$JS.API.DIRECT.GET.>", "$KV.>", "coppice.*.log", "coppice.*.finalize.>", "coppice.*.terminate.>", "coppice.*.warning.>",
			"coppice.*.work.orphan", "coppice.*.work.finish", "coppice.*.work.drain", "_INBOX.>", "_R_.>", "$SYS.>", "$SRV.>",
		} {
			if server.SubjectsCollide(a.Subject, never) && (!local(a) || never != "$SRV.>") {
				t.Errorf("%s is exported, and reaches %s", a.Subject, never)
			}
		}
	}
	for _, name := range []string{bus.CoreAccount, "a.b", "", bus.RoleReader} {
		if _, err := bus.Services(append(bus.Roles(bus.AnyRealm), bus.ApplicationRole(name, bus.AnyRealm))); err == nil {
			t.Errorf("an actor may have the name %q", name)
		}
	}
}

// A role that may publish what must not be exported gets no configuration: an
// import that is left out in silence would show only when a request is not answered.
func TestExportsRefused(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{
		"$JS.API.CONSUMER.CREATE.*.x.>", "$JS.API.CONSUMER.DURABLE.CREATE.*.x", "$JS.API.CONSUMER.MSG.NEXT.*.*", "$JS.ACK.*.>", "$JS.ACK.>",
		"$JS.API.DIRECT.GET.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.NAMES", "$KV.leases.>", "$SRV.>", ">",
		"coppice.*.log", "coppice.*.finalize.>", "coppice.*.terminate.>", "coppice.*.work.orphan", "coppice.*.work.>", "coppice.*.api.>", "_INBOX.>",
	} {
		shop := bus.ApplicationRole("shop", bus.AnyRealm)
		shop.Publish = append(shop.Publish, subject)
		var b bytes.Buffer
		err := natsconf.Accounts(&b, append(bus.Roles(bus.AnyRealm), shop), func(string) string { return `""` })
		if err == nil || !strings.Contains(err.Error(), "shop") || !strings.Contains(err.Error(), subject) {
			t.Errorf("with %s: error %v, want one that names the role and the subject", subject, err)
		}
		if b.Len() > 0 {
			t.Errorf("with %s: a configuration is written", subject)
		}
	}
}

// A new actor is a new account, which a reload of the server adds: connections
// stay, and the new user gets answers.
func TestReload(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	file := filepath.Join(t.TempDir(), "nats.conf")
	write := func(roles ...bus.Role) {
		t.Helper()
		var b bytes.Buffer
		b.WriteString("listen: \"127.0.0.1:-1\"\njetstream { store_dir: \"" + t.TempDir() + "\" }\n")
		must.Succeed(t, natsconf.Accounts(&b, append(append(bus.Roles(bus.AnyRealm), bus.AdminRole()), roles...), func(role string) string { return `"secret-` + role + `"` }))
		text := b.String()
		if old, err := os.ReadFile(file); err == nil { // the first lines stay
			head, _, _ := strings.Cut(string(old), "accounts {")
			_, tail, _ := strings.Cut(text, "accounts {")
			text = head + "accounts {" + tail
		}
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write()
	opts, err := server.ProcessConfigFile(file)
	must.Succeed(t, err)
	opts.NoSigs, opts.NoLog = true, true
	opts.AuthTimeout = testkit.Timeout.Seconds()
	s, err := server.NewServer(opts)
	must.Succeed(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(testkit.Timeout) {
		t.Fatal("the server does not start")
	}
	connect := func(user string) (*nats.Conn, error) {
		nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(user, "secret-"+user), nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.NoReconnect(), nats.Timeout(testkit.Timeout))
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return nc, err
	}
	answering, err := connect(bus.RoleAnswers)
	must.Succeed(t, err)
	if _, err := answering.Subscribe("coppice.*.api.>", func(m *nats.Msg) { _ = m.Respond([]byte(m.Header.Get("Nats-Request-Info"))) }); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, answering.FlushWithContext(ctx))
	asks := func(nc *nats.Conn, user, realm string) {
		t.Helper()
		subject := bus.API{Realm: realm, Actor: user, Verb: bus.VerbGet, Plural: "pods", Namespace: "shop"}.Subject()
		m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: []byte("x")})
		if err != nil {
			t.Fatalf("%s asks in realm %s: %v", user, realm, err)
		}
		if !strings.Contains(string(m.Data), `"acc":"`+user+`"`) {
			t.Errorf("the request of %s came with %s", user, m.Data)
		}
	}
	application, err := connect(bus.RoleApplication)
	must.Succeed(t, err)
	asks(application, bus.RoleApplication, "default")
	if _, err := connect("shop"); err == nil {
		t.Fatal("there is a user shop already")
	}
	write(bus.ApplicationRole("shop", bus.AnyRealm), bus.FinalizerRole("bucket", "example.com/other", bus.AnyRealm))
	// The first reload creates the accounts, and the second activates their imports:
	// nats-server 2.15 subscribes to those of accounts that it knew before.
	for range 2 {
		must.Succeed(t, s.Reload())
	}
	shop, err := connect("shop")
	must.Succeed(t, err)
	asks(shop, "shop", "default")
	asks(shop, "shop", "made-at-run-time")
	bucket, err := connect("bucket")
	must.Succeed(t, err)
	asks(bucket, "bucket", "default")
	asks(application, bus.RoleApplication, "default")
}
