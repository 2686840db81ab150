package natsjwt_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsjwt"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// request is the subject of a request of an actor in the realm default.
func request(actor, verb string) string {
	return bus.API{Realm: bus.DefaultRealm, Actor: actor, Verb: verb, Plural: "pods", Namespace: "x"}.Subject()
}

// requests subscribes the witness to requests.
func (s *jwtServers) requests() <-chan *nats.Msg {
	s.Helper()
	received := make(chan *nats.Msg, 100)
	nc := s.connect("witness")
	_, err := nc.ChanSubscribe("coppice.>", received)
	must.Succeed(s, err)
	must.Succeed(s, nc.FlushWithContext(testkit.Context(s)))
	return received
}

// echo sends a request, and waits for the reply of the witness.
func (s *jwtServers) echo(nc *nats.Conn, subject string, received <-chan *nats.Msg) error {
	s.Helper()
	ctx := testkit.Context(s)
	replies, err := nc.SubscribeSync(nc.NewInbox())
	must.Succeed(s, err)
	defer func() { _ = replies.Unsubscribe() }()
	must.Succeed(s, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: replies.Subject}))
	must.Succeed(s, nc.FlushWithContext(ctx))
	return s.answered(replies, received)
}

// answered waits until a request has reached the core account and its reply the client, or the server says that it
// has no subscriber.
func (s *jwtServers) answered(replies *nats.Subscription, received <-chan *nats.Msg) error {
	s.Helper()
	ctx := testkit.Context(s)
	refusals := make(chan error, 1)
	go func() {
		m, err := replies.NextMsgWithContext(ctx)
		if err == nil && m.Header.Get("Status") == "503" {
			err = nats.ErrNoResponders
		}
		refusals <- err
	}()
	select {
	case m := <-received:
		must.Succeed(s, m.Respond([]byte("x")))
	case err := <-refusals:
		return err
	}
	return testkit.Receive(s, ctx, "the reply", refusals)
}

// operator returns the key of the operator of a directory.
func operator(t *testing.T, dir string) nkeys.KeyPair {
	t.Helper()
	return keyOf(t, dir, filepath.Join(natsjwt.Operator, natsjwt.Operator+".jwt"))
}

// keyOf returns the key that a token of a directory is about.
func keyOf(t *testing.T, dir, token string) nkeys.KeyPair {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, token))
	must.Succeed(t, err)
	claims, err := jwt.Decode(string(data))
	must.Succeed(t, err)
	public := claims.Claims().Subject
	seed, err := os.ReadFile(filepath.Join(dir, "keys", public[:1], public[1:3], public+".nk"))
	must.Succeed(t, err)
	key, err := nkeys.FromSeed(seed)
	must.Succeed(t, err)
	return key
}

// An account of the same operator cannot import from the core account without a token that the core account has given to
// it, for the subject of the import.
func TestActivation(t *testing.T) {
	t.Parallel()
	s := start(t, 1, defaultRoles(witness())...)
	received := s.requests()
	system := s.connect(natsjwt.SystemUser)
	core := keyOf(t, s.dir, filepath.Join(natsjwt.Operator, "accounts", bus.CoreAccount, bus.CoreAccount+".jwt"))
	coreKey, err := core.PublicKey()
	must.Succeed(t, err)
	reader, err := os.ReadFile(filepath.Join(s.dir, natsjwt.Operator, "accounts", bus.RoleReader, bus.RoleReader+".jwt"))
	must.Succeed(t, err)
	claims, err := jwt.DecodeAccountClaims(string(reader))
	must.Succeed(t, err)
	readers := bus.API{Realm: "*", Actor: bus.RoleReader, Verb: bus.VerbGet, Group: "*", Plural: "*", Namespace: "*"}.Subject()
	at := slices.IndexFunc(claims.Imports, func(i *jwt.Import) bool { return string(i.Subject) == readers })
	stolen := claims.Imports[at].Token
	token := func(by nkeys.KeyPair, issuer, to, subject string) string {
		a := jwt.NewActivationClaims(to)
		a.ImportSubject, a.ImportType, a.IssuerAccount = jwt.Subject(subject), jwt.Service, issuer
		token, err := a.Encode(by)
		must.Succeed(t, err)
		return token
	}
	other := strings.ReplaceAll(readers, bus.RoleReader, "thief")
	for what, of := range map[string]struct {
		token   func(own nkeys.KeyPair, account string) string
		permits bool
	}{
		"a token of its own":                    {func(_ nkeys.KeyPair, account string) string { return token(core, "", account, readers) }, true},
		"no token":                              {func(nkeys.KeyPair, string) string { return "" }, false},
		"the token of another account":          {func(nkeys.KeyPair, string) string { return stolen }, false},
		"a token for another subject":           {func(_ nkeys.KeyPair, account string) string { return token(core, "", account, other) }, false},
		"a token that it has signed":            {func(own nkeys.KeyPair, account string) string { return token(own, "", account, readers) }, false},
		"a token that it has signed for others": {func(own nkeys.KeyPair, account string) string { return token(own, coreKey, account, readers) }, false},
		"a token of the operator":               {func(_ nkeys.KeyPair, account string) string { return token(operator(t, s.dir), "", account, readers) }, false},
	} {
		own, err := nkeys.CreateAccount()
		must.Succeed(t, err)
		account, err := own.PublicKey()
		must.Succeed(t, err)
		a := jwt.NewAccountClaims(account)
		a.Imports.Add(&jwt.Import{Subject: jwt.Subject(readers), Account: coreKey, Type: jwt.Service, Token: of.token(own, account)})
		signed, err := a.Encode(operator(t, s.dir))
		must.Succeed(t, err)
		answer, err := system.Request("$SYS.REQ.CLAIMS.UPDATE", []byte(signed), testkit.Timeout)
		must.Succeed(t, err)
		if accepted := !strings.Contains(string(answer.Data), `"error"`); !accepted {
			if of.permits {
				t.Errorf("with %s: the server refuses the account: %s", what, answer.Data)
			}
			continue
		}
		user, err := nkeys.CreateUser()
		must.Succeed(t, err)
		public, err := user.PublicKey()
		must.Succeed(t, err)
		u, err := jwt.NewUserClaims(public).Encode(own)
		must.Succeed(t, err)
		seed, err := user.Seed()
		must.Succeed(t, err)
		creds, err := jwt.FormatUserConfig(u, seed)
		must.Succeed(t, err)
		file := filepath.Join(t.TempDir(), "thief.creds")
		must.Succeed(t, os.WriteFile(file, creds, 0o600))
		nc, err := s.tryConnect(file, "thief")
		must.Succeed(t, err)
		err = s.echo(nc, request(bus.RoleReader, bus.VerbGet), received)
		if got := err == nil; got != of.permits || err != nil && !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("with %s: %v", what, err)
		}
	}
}

// A push adds an actor, changes permissions and removes an actor while clients are connected, and replies that are
// outstanding arrive.
func TestPush(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	s := start(t, 3, defaultRoles(witness())...)
	received := s.requests()
	application := s.connect(bus.RoleApplication)
	watch, err := application.SubscribeSync(application.NewInbox())
	must.Succeed(t, err)
	must.Succeed(t, application.PublishMsg(&nats.Msg{Subject: request(bus.RoleApplication, bus.VerbWatch), Reply: watch.Subject}))
	held := testkit.Receive(t, ctx, "the watch", received)
	finalizer := request(bus.RoleApplication, bus.VerbRemoveFinalizer) + ".example.com/x"
	asks := func(nc *nats.Conn, subject string) error {
		return s.echo(nc, subject, received)
	}

	// Another actor, and another permission of the application.
	shop := bus.ApplicationRole("shop", bus.AnyRealm)
	roles := defaultRoles(witness(), shop)
	at := slices.IndexFunc(roles, func(r bus.Role) bool { return r.Name == bus.RoleApplication })
	roles[at] = bus.ControllerRole(bus.RoleApplication, []string{"example.com/x"}, bus.AnyRealm)
	s.write(roles...)
	if nc, err := s.tryConnect(natsjwt.CredsFile(s.dir, "shop"), "shop", nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("an actor connects whose account is not pushed")
	}
	answers := s.push()
	of := map[string]int{}
	for _, a := range answers {
		if a.Failed || a.Message == "" || !strings.HasPrefix(a.Server, "n") {
			t.Errorf("answer %+v", a)
		}
		of[a.Account]++
	}
	if of["shop"] != 3 || of[bus.CoreAccount] != 3 || of[bus.RoleProcessor] != 3 {
		t.Errorf("answers %v", of)
	}
	if i, j := slices.IndexFunc(answers, func(a natsjwt.Answer) bool { return a.Account == "shop" }), slices.IndexFunc(answers, func(a natsjwt.Answer) bool { return a.Account == bus.CoreAccount }); i < j {
		t.Error("an actor's account comes before the core account")
	}
	closed := make(chan struct{})
	nc, err := s.tryConnect(natsjwt.CredsFile(s.dir, "shop"), "shop", nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	must.Succeed(t, err)
	must.Succeed(t, asks(nc, request("shop", bus.VerbGet)))
	must.Succeed(t, asks(application, finalizer))
	must.Succeed(t, asks(application, request(bus.RoleApplication, bus.VerbGet)))
	must.Succeed(t, held.Respond([]byte("an event")))
	if m, err := watch.NextMsgWithContext(ctx); err != nil || string(m.Data) != "an event" {
		t.Errorf("the reply that was outstanding: %v, %v", m, err)
	}

	// Without the actor.
	creds := filepath.Join(t.TempDir(), "shop.creds")
	must.Succeed(t, os.Rename(natsjwt.CredsFile(s.dir, "shop"), creds))
	s.write(defaultRoles(witness())...)
	answers = s.push()
	if last := answers[len(answers)-1]; last.Account != "shop, removed" || last.Failed {
		t.Errorf("the last answer is %+v", last)
	}
	testkit.Receive(t, ctx, "the end of the connection of an actor that was removed", closed)
	if nc, err := s.tryConnect(creds, "shop"); err == nil {
		nc.Close()
		t.Error("an actor that was removed connects")
	}
	must.Succeed(t, asks(application, request(bus.RoleApplication, bus.VerbGet)))
	answers, err = s.tryPush(natsjwt.Push{DeleteRemoved: true})
	must.Succeed(t, err)
	if last := answers[len(answers)-1]; !strings.Contains(last.Message, "deleted 1") {
		t.Errorf("the last answer is %+v", last)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "removed", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
	if nc, err := s.tryConnect(creds, "shop"); err == nil {
		nc.Close()
		t.Error("an actor whose account was deleted connects")
	}
	// The actor returns with other keys.
	s.write(defaultRoles(witness(), shop)...)
	s.push()
	must.Succeed(t, asks(s.connect("shop"), request("shop", bus.VerbGet)))
	if nc, err := s.tryConnect(creds, "shop"); err == nil {
		nc.Close()
		t.Error("an actor that has returned connects with the credentials that it had before")
	}
}

// A push fails with an error that says what to do if no server takes the accounts.
func TestPushRefused(t *testing.T) {
	t.Parallel()
	s := start(t, 1, defaultRoles()...)
	if _, err := s.tryPush(natsjwt.Push{Conn: s.connect(bus.RoleOperator)}); !errors.Is(err, natsjwt.ErrNotSystem) || !strings.Contains(err.Error(), "sys.creds") {
		t.Errorf("as an operator: %v", err)
	}
	file := filepath.Join(s.dir, natsjwt.Operator, "accounts", bus.RoleReader, bus.RoleReader+".jwt")
	must.Succeed(t, os.WriteFile(file, []byte("not a token"), 0o600))
	answers, err := s.tryPush(natsjwt.Push{})
	if err == nil || !strings.Contains(err.Error(), "account reader is refused: n1: ") || !answers[len(answers)-1].Failed {
		t.Errorf("what is not an account: %v", err)
	}

	// A server whose resolver takes no accounts.
	data, err := os.ReadFile(filepath.Join(s.dir, natsjwt.ResolverFile))
	must.Succeed(t, err)
	memory := regexp.MustCompile(`(?s)resolver: \{.*?\n\}`).ReplaceAllString(string(data), "resolver: MEMORY # "+resolverDir)
	conf := filepath.Join(t.TempDir(), "memory.conf")
	must.Succeed(t, os.WriteFile(conf, []byte(memory), 0o600))
	s.servers = testkit.StartIncluding(t, conf, resolverDir, 1)
	if _, err := s.tryPush(natsjwt.Push{}); err == nil || !strings.Contains(err.Error(), "resolver of the type full") {
		t.Errorf("a resolver in memory: %v", err)
	}
}
