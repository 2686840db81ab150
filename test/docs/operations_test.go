package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
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
	return &player{
		ctx: testkit.Context(t), dir: t.TempDir(), nats: filepath.Join(built(t), "coppice"), timeout: testkit.Timeout.String(), url: server.URL(),
	}, server
}

var userFlag = regexp.MustCompile(`--user (\S+)`)

// serve starts a command of docs/operations.md with the passwords of its users, and waits until it prints that.
func (p *player) serve(t *testing.T, server *natsd.Server, text, prints string) {
	t.Helper()
	user := userFlag.FindStringSubmatch(text)
	if user == nil {
		t.Fatalf("%s: no --user", text)
	}
	p.env = []string{"NATS_PASSWORD=" + server.Password(user[1]), "COPPICE_ANSWERS_PASSWORD=" + server.Password(bus.RoleAnswers)}
	text = strings.ReplaceAll(text, "nats://...", server.URL())
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
		p.serve(t, server, c.text, `msg=ready\b`)
	}
}
