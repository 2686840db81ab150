package natsjwt_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsjwt"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// resolverDir is the directory that the file natsjwt.ResolverFile names.
const resolverDir = "./coppice-accounts"

// jwtServers are servers with accounts by JWT.
type jwtServers struct {
	testing.TB
	dir     string
	servers []*server.Server
}

// start writes the accounts of some roles, and pushes them to n servers.
func start(t *testing.T, n int, roles ...bus.Role) *jwtServers {
	t.Helper()
	s := &jwtServers{TB: t, dir: filepath.Join(t.TempDir(), "accounts")}
	s.write(roles...)
	s.servers = testkit.StartIncluding(t, filepath.Join(s.dir, natsjwt.ResolverFile), resolverDir, n)
	s.push()
	return s
}

func (s *jwtServers) write(roles ...bus.Role) natsjwt.Changes {
	s.Helper()
	changes, err := natsjwt.Write(s.dir, roles)
	must.Succeed(s, err)
	return changes
}

// push pushes, and returns the answers.
func (s *jwtServers) push() []natsjwt.Answer {
	s.Helper()
	answers, err := s.tryPush(natsjwt.Push{})
	must.Succeed(s, err)
	return answers
}

func (s *jwtServers) tryPush(p natsjwt.Push) (answers []natsjwt.Answer, err error) {
	s.Helper()
	if p.Conn == nil {
		p.Conn = s.connect(natsjwt.SystemUser)
	}
	p.Dir, p.Timeout, p.Report = s.dir, testkit.Timeout, func(a natsjwt.Answer) { answers = append(answers, a) }
	err = p.Run(testkit.Context(s))
	return answers, err
}

// connect connects to the last server.
func (s *jwtServers) connect(user string) *nats.Conn {
	s.Helper()
	nc, err := s.tryConnect(natsjwt.CredsFile(s.dir, user), user)
	must.Succeed(s, err)
	return nc
}

func (s *jwtServers) tryConnect(creds, user string, opts ...nats.Option) (*nats.Conn, error) {
	s.Helper()
	nc, err := nats.Connect(s.servers[len(s.servers)-1].ClientURL(), append([]nats.Option{nats.UserCredentials(creds), nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.Timeout(testkit.Timeout),
		nats.PermissionErrOnSubscribe(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, opts...)...)
	if err == nil {
		s.Cleanup(nc.Close)
	}
	return nc, err
}

// defaultRoles are the roles of deployments, with one of each type.
func defaultRoles(also ...bus.Role) []bus.Role {
	return append(append(natsconf.DefaultRoles(), bus.BenchRole(bus.AnyRealm), bus.ExpiryRole("keeper", "example.com/keeper", bus.AnyRealm)), also...)
}

// Exports are disjoint, and each contains what accounts import of it; they do not depend on who the actors are.
func TestExports(t *testing.T) {
	t.Parallel()
	roles := defaultRoles()
	exports, err := bus.Exports(roles)
	must.Succeed(t, err)
	for i, a := range exports {
		for _, b := range exports[:i] {
			if server.SubjectsCollide(a.Subject, b.Subject) {
				t.Errorf("%s and %s overlap", a.Subject, b.Subject)
			}
		}
	}
	services, err := bus.Services(roles)
	must.Succeed(t, err)
	for _, s := range services {
		at := slices.IndexFunc(exports, func(e bus.Service) bool { return jwt.Subject(s.Subject).IsContainedIn(jwt.Subject(e.Subject)) })
		if at < 0 || exports[at].Stream != s.Stream || exports[at].Threshold != s.Threshold {
			t.Errorf("no export contains %+v: %d", s, at)
		}
	}
	more, err := bus.Exports(defaultRoles(bus.ApplicationRole("shop", bus.AnyRealm), bus.FinalizerRole("bucket", "example.com/other", "one"),
		bus.AgentRole("kubelet", "apps", "deployments", "two"), bus.ExpiryRole("other", "example.com/x", bus.AnyRealm)))
	must.Succeed(t, err)
	few, err := bus.Exports(append(bus.ServiceRoles(bus.AnyRealm), bus.AdminRole()))
	must.Succeed(t, err)
	for _, other := range [][]bus.Service{more, few} {
		if !slices.EqualFunc(exports, other, func(a, b bus.Service) bool {
			return a.Subject == b.Subject && a.Stream == b.Stream && a.Threshold == b.Threshold
		}) {
			t.Errorf("the exports depend on the actors: %d and %d", len(exports), len(other))
		}
	}
}

// files returns the content of all files of a directory, and checks their modes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	must.Succeed(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must.Succeed(t, err)
		info, err := d.Info()
		must.Succeed(t, err)
		if d.IsDir() {
			if info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %o", path, info.Mode().Perm())
			}
			return nil
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		data, err := os.ReadFile(path)
		must.Succeed(t, err)
		rel, err := filepath.Rel(dir, path)
		must.Succeed(t, err)
		m[rel] = string(data)
		return nil
	}))
	return m
}

// A second run changes nothing, one with another actor only adds files, and one with a changed role writes the
// account alone. An actor that is removed loses its keys, and gets others if it returns.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	s := &jwtServers{TB: t, dir: filepath.Join(t.TempDir(), "accounts")}
	shop := bus.ApplicationRole("shop", bus.AnyRealm)
	s.write(defaultRoles()...)
	first := files(t, s.dir)
	if c := s.write(defaultRoles()...); len(c.Files) != 0 || len(c.Added) != 0 || len(c.Removed) != 0 || !maps.Equal(files(t, s.dir), first) {
		t.Errorf("a second run changes %v", c)
	}
	differ := func(a, b map[string]string) (names []string) {
		for name := range b {
			if a[name] != b[name] {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	c := s.write(defaultRoles(shop)...)
	second := files(t, s.dir)
	for name := range first {
		if _, ok := second[name]; !ok {
			t.Errorf("%s is removed", name)
		}
	}
	account := filepath.Join("coppice", "accounts", "shop", "shop.jwt")
	got := slices.DeleteFunc(differ(first, second), func(name string) bool { return strings.HasPrefix(name, "keys"+string(filepath.Separator)) })
	want := []string{natsjwt.AccountsFile, account, filepath.Join("coppice", "accounts", "shop", "users", "shop.jwt"), filepath.Join("creds", "shop.creds")}
	if !slices.Equal(got, want) || !slices.Equal(c.Added, []string{"shop"}) || len(second) != len(first)+5 {
		t.Errorf("another actor changes %v, %+v; %d files, were %d", got, c, len(second), len(first))
	}

	changed := bus.ControllerRole("shop", []string{"example.com/shop"}, bus.AnyRealm)
	s.write(defaultRoles(changed)...)
	third := files(t, s.dir)
	if got := differ(second, third); !slices.Equal(got, []string{account}) {
		t.Errorf("another permission changes %v", got)
	}
	tokens := func(m map[string]string) map[string]string {
		claims, err := jwt.DecodeAccountClaims(m[account])
		must.Succeed(t, err)
		of := map[string]string{}
		for _, i := range claims.Imports {
			of[string(i.Subject)] = i.Token
		}
		return of
	}
	had := tokens(second)
	for subject, token := range tokens(third) {
		if had[subject] != "" && had[subject] != token {
			t.Errorf("the token of %s changes", subject)
		}
	}

	wider := defaultRoles(changed)
	wider[0].Publish = append(slices.Clone(wider[0].Publish), "x")
	if c := s.write(wider...); !slices.Equal(c.Reissued, []string{wider[0].Name}) || len(c.Files) != 2 {
		t.Errorf("other permissions of %s: %+v", wider[0].Name, c)
	}
	s.write(defaultRoles(changed)...)
	if c := s.write(defaultRoles()...); !slices.Equal(c.Removed, []string{"shop"}) {
		t.Errorf("without the actor: %+v", c)
	}
	fourth := files(t, s.dir)
	for name := range fourth {
		if rest, ok := strings.CutPrefix(name, "removed"+string(filepath.Separator)); ok {
			claims, err := jwt.DecodeAccountClaims(fourth[name])
			must.Succeed(t, err)
			if claims.Subject+".jwt" != rest || len(claims.Imports) != 0 || claims.Limits.Conn != 0 || len(claims.Revocations) != 1 {
				t.Errorf("%s: %s", name, claims)
			}
			delete(fourth, name)
		}
	}
	if got := differ(first, fourth); len(fourth) != len(first) || len(got) > 2 { // the user whose permissions changed and changed back
		t.Errorf("removal leaves %v", got)
	}
	s.write(defaultRoles()...)
	s.write(defaultRoles(shop)...)
	if again := files(t, s.dir); again["creds/shop.creds"] == second["creds/shop.creds"] || again[account] == second[account] {
		t.Error("an actor that was removed gets its old keys")
	}
}

// What cannot be written is refused, and an error says what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sys", "SYS", "coppice", "a.b"} {
		dir := filepath.Join(t.TempDir(), "accounts")
		_, err := natsjwt.Write(dir, defaultRoles(bus.ApplicationRole(name, bus.AnyRealm)))
		if _, fail := os.Stat(dir); err == nil || !errors.Is(fail, fs.ErrNotExist) {
			t.Errorf("an actor may have the name %s: %v", name, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "accounts")
	_, err := natsjwt.Write(dir, defaultRoles())
	must.Succeed(t, err)
	seeds, err := filepath.Glob(filepath.Join(dir, "keys", string(nkeys.PrefixByteOperator.String()[0]-'a'+'A'), "*", "*.nk"))
	must.Succeed(t, err)
	if len(seeds) != 1 {
		t.Fatalf("seeds of the operator: %v", seeds)
	}
	must.Succeed(t, os.Remove(seeds[0]))
	if _, err := natsjwt.Write(dir, defaultRoles()); err == nil || !strings.Contains(err.Error(), "restore the file from a backup") {
		t.Errorf("without the operator's seed: %v", err)
	}
}
