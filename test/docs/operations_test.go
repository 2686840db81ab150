package docs_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

const operations = "docs/operations.md"

// operationsCommands returns the commands in the blocks of docs/operations.md that match.
func operationsCommands(t *testing.T, pattern string) (list []shown) {
	t.Helper()
	_, _, all := pages(t)
	for _, c := range all {
		if c.file == operations && !c.inline && regexp.MustCompile(pattern).MatchString(c.text) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s shows no command that matches %s", operations, pattern)
	}
	return list
}

// deployed starts a NATS server with the users that coppice nats-config writes, and returns a player of commands
// there. Of a command only the server's address, and directories, are replaced.
func deployed(t *testing.T) (*player, *natsd.Server) {
	t.Helper()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: natsconf.DefaultRoles()})
	return playerOf(t, server.URL()), server
}

// playerOf returns a player of commands on a NATS server.
func playerOf(t *testing.T, url string) *player {
	t.Helper()
	return &player{ctx: testkit.Context(t), dir: t.TempDir(), nats: filepath.Join(built(t), "coppice"), timeout: testkit.Timeout.String(), url: url}
}

var userFlag = regexp.MustCompile(`--user (\S+)`)

// serve starts a command of docs/operations.md with the passwords of its users, and waits until it prints that.
func (p *player) serve(t *testing.T, password func(user string) string, text, prints string) {
	t.Helper()
	user := userFlag.FindStringSubmatch(text)
	if user == nil {
		t.Fatalf("%s: no --user", text)
	}
	p.env = []string{"NATS_PASSWORD=" + password(user[1]), "COPPICE_ANSWERS_PASSWORD=" + password(bus.RoleAnswers)}
	text = strings.ReplaceAll(text, "nats://...", p.url)
	text = strings.ReplaceAll(text, "/var/lib/coppice", filepath.Join(p.dir, "var"))
	p.start(t, text, "").says(t, prints)
}

// The commands that start the services work, with the passwords that the text names: each service becomes ready.
func TestServiceCommands(t *testing.T) {
	t.Parallel()
	p, server := deployed(t)
	list := operationsCommands(t, `^coppice (graph|processor|finalizers|scanner) .*--user \S+( +--data \S+)?$`)
	if len(list) < 4 {
		t.Fatalf("%s starts only %v", operations, list)
	}
	for _, c := range list {
		p.serve(t, server.Password, c.text, `msg=ready\b`)
	}
}

// The recommended settings are applied as their file says.
func TestRecommendedSettings(t *testing.T) {
	t.Parallel()
	const name = "realm-settings.yaml"
	data, err := os.ReadFile(filepath.Join(module, "deploy", name))
	must.Succeed(t, err)
	use := regexp.MustCompile(`Use: (coppice .+)`).FindSubmatch(data)
	if use == nil {
		t.Fatalf("deploy/%s names no command", name)
	}
	s := &shell{player: start(t, "", false)}
	s.write(t, name, string(data))
	if s.run(t, string(use[1])); s.err != nil {
		t.Errorf("%s: %v: %s", use[1], s.err, s.output())
	}
}

// succeeds runs a command that must succeed.
func (s *shell) succeeds(t *testing.T, text string) {
	t.Helper()
	s.forget()
	if s.run(t, text); s.err != nil {
		t.Fatalf("%s: %v\n%s", text, s.err, s.output())
	}
}

// restores runs a command of a restore. `coppice up` runs on, and the commands after it use its server.
func (s *shell) restores(t *testing.T, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "coppice up ") {
		s.succeeds(t, text)
		return
	}
	s.forget()
	s.url = ""
	s.run(t, text+" --port -1 &")
	testkit.WaitFor(t, s.ctx, text+" to be ready", func() bool { return strings.Contains(s.output(), "ready in ") })
}

// Several realms are restored from one archive by their ids, which are where the document says.
func TestRestoreRealms(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.Minutes)
	s := &shell{player: start(t, "", false)}
	t.Cleanup(func() { s.end(t) })
	s.succeeds(t, "coppice realm create shop")
	id := regexp.MustCompile(`"realmID":"([0-9a-f]{32})"`)
	ids := strings.NewReplacer("file:///backup/archive", "file://"+filepath.Join(s.dir, "archive"), "DEFAULT_ID", "default", "SHOP_ID", "shop")
	var found []string
	for _, realm := range []string{"default", "shop"} {
		s.write(t, "in.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: in-"+realm+"}\n")
		s.succeeds(t, "coppice apply -f in.yaml --realm "+realm)
		testkit.WaitFor(t, s.ctx, "the id of realm "+realm, func() bool {
			data, err := os.ReadFile(filepath.Join(s.dir, "data", "graph", realm+".tail"))
			m := id.FindSubmatch(data)
			if err != nil || m == nil {
				return false
			}
			found = append(found, "--id "+realm, "--id "+string(m[1]))
			return true
		})
	}
	for _, realm := range []string{"default", "shop"} {
		s.succeeds(t, "coppice realm delete "+realm+" --confirm "+realm)
	}
	for _, c := range operationsCommands(t, `^coppice (realm restore \S+ --from \S+ --id|up --data \./restored --realm )`) {
		s.restores(t, strings.NewReplacer(found...).Replace(ids.Replace(c.text)))
	}
	for _, realm := range []string{"default", "shop"} {
		s.succeeds(t, "coppice get configmap/in-"+realm+" --realm "+realm)
	}
}

// inSection returns those of operationsCommands that a section has.
func inSection(t *testing.T, title, pattern string) (list []shown) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module, operations))
	must.Succeed(t, err)
	before, section, ok := strings.Cut(string(text), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	first := strings.Count(before, "\n") + 2
	for _, c := range operationsCommands(t, pattern) {
		if c.line > first && c.line <= first+strings.Count(section, "\n")+1 {
			list = append(list, c)
		}
	}
	if !ok || len(list) == 0 {
		t.Fatalf("%s has no section %q with such commands", operations, title)
	}
	return list
}

// All realms of a backup are restored by the commands of docs/operations.md into a NATS server with users, and its graph service
// serves them. TestBackupDrill of cmd/coppice restores one into a directory.
func TestBackupCommands(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.Minutes)
	s := &shell{player: start(t, "", false)}
	t.Cleanup(func() { s.end(t) })
	examples, err := filepath.Abs(filepath.Join(module, "examples"))
	must.Succeed(t, err)
	s.succeeds(t, "coppice import -f "+examples+"/shop")
	p, server := deployed(t)
	data, err := os.ReadFile(filepath.Join(s.dir, "data", secret.FileName))
	must.Succeed(t, cmp.Or(err, os.WriteFile(filepath.Join(p.dir, "coppice.secret"), data, 0o600)))
	places := strings.NewReplacer("/backup/coppice", filepath.Join(s.dir, "backup"), "s3://archive/coppice", "file://"+filepath.Join(p.dir, "archive"))
	s.succeeds(t, places.Replace(inSection(t, "Back up and restore", `^coppice backup /backup/coppice$`)[0].text))
	for _, c := range inSection(t, "Back up and restore", `s3://archive/coppice`) {
		prints := `msg=ready\b`
		if strings.HasPrefix(c.text, "coppice restore-backup ") {
			prints = `1 realm paused`
		}
		p.serve(t, server.Password, places.Replace(c.text), prints)
	}
	restored := client.New(testkit.Conn(t, server, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	testkit.WaitFor(t, p.ctx, "the restored realm to have the Deployment", func() bool {
		_, err := restored.Resource(client.Resource{Group: "apps", Plural: "deployments"}, "shop").Get(p.ctx, "web")
		return err == nil
	})
}

// A realm is restored from its archive by the commands of docs/operations.md, in their order: into a directory of
// `coppice up`, and into a NATS server with users.
func TestRestoreCommands(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.Minutes)
	s := &shell{player: start(t, "", false)}
	t.Cleanup(func() { s.end(t) })
	run := func(text string) { s.succeeds(t, text) }
	examples, err := filepath.Abs(filepath.Join(module, "examples"))
	must.Succeed(t, err)
	run("coppice import -f " + examples + "/shop")
	// The deletion of a realm puts the rest of its log into the archive.
	run("coppice realm delete default --confirm default")
	archive := "file://" + filepath.Join(s.dir, "archive")

	for _, c := range inSection(t, "Restore a realm from its archive", `^coppice (archive verify file:///backup/|realm restore default --from \S+ --data |up --data \./restored$|verify|get pods -A|plan delete deployments/web|realm resume)`) {
		text := strings.ReplaceAll(c.text, "file:///backup/archive", archive)
		s.restores(t, text)
	}

	p, server := deployed(t)
	data, err := os.ReadFile(filepath.Join(s.dir, "data", secret.FileName))
	must.Succeed(t, cmp.Or(err, os.WriteFile(filepath.Join(p.dir, "coppice.secret"), data, 0o600)))
	for _, c := range operationsCommands(t, `s3://backup/coppice`) {
		prints := `msg=ready\b`
		if strings.HasPrefix(c.text, "coppice realm restore ") {
			prints = `restored \d+ objects`
		}
		p.serve(t, server.Password, strings.ReplaceAll(c.text, "s3://backup/coppice", archive), prints)
	}
	restored := client.New(testkit.Conn(t, server, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	testkit.WaitFor(t, p.ctx, "the restored realm to have the Deployment", func() bool {
		_, err := restored.Resource(client.Resource{Group: "apps", Plural: "deployments"}, "shop").Get(p.ctx, "web")
		return err == nil
	})
}

// The benchmarks run as docs/operations.md shows them.
func TestBenchCommands(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.Minutes)
	server := start(t, "", false)
	s := &shell{player: &player{ctx: server.ctx, dir: server.dir}} // without an address they start what they measure
	for _, c := range operationsCommands(t, `^coppice bench `) {
		text := strings.ReplaceAll(strings.ReplaceAll(c.text, "nats://...", server.url), "DIR", "profiles")
		if s.run(t, text); s.err != nil {
			t.Errorf("%s: %v\n%s", c, s.err, s.output())
		}
		s.forget()
	}
}
