package docs_test

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// secondRealm creates a realm, if it does not exist, of which docs/operations.md makes a backup.
func secondRealm(t *testing.T, p *player) {
	t.Helper()
	if _, err := p.admin.Operations().CreateRealm(p.ctx, "shop"); err != nil && !errors.Is(err, client.ErrAlreadyExists) {
		t.Fatal(err)
	}
	p.object(t, p.in("shop"), "in-the-backup")
}

// in returns the operator's client of a realm.
func (p *player) in(realm string) *client.Client {
	return client.New(p.conn, client.WithActor(bus.RoleOperator), client.WithRealm(realm))
}

func backedUp(t *testing.T, p *player, _ string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.dir, "backup", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there is no backup: %v", err)
	}
	for _, dir := range dirs {
		if files, err := os.ReadDir(dir); err != nil || len(files) < 2 {
			t.Errorf("the backup %s has %d files, %v", dir, len(files), err)
		}
	}
}

// emptyServer starts a NATS server without streams, into which backups are restored.
func emptyServer(t *testing.T, p *player) {
	t.Helper()
	if p.empty == nil {
		p.empty = testkit.StartNATS(t, natsd.Config{Dir: filepath.Join(p.dir, "empty"), Roles: natsconf.DefaultRoles()})
		p.ends = map[string]uint64{}
	}
}

// onEmptyServer has a command run on the empty server, as its user admin.
func onEmptyServer(p *player, text string) string {
	return strings.Replace(text, "nats ", "nats --server "+p.empty.URL()+" --user admin --password "+p.empty.Password(bus.RoleAdmin)+" ", 1)
}

var (
	restoredLog = regexp.MustCompile(`coppice-(\w+)-log`)
	lastOfLog   = regexp.MustCompile(`Last Sequence: ([\d,]+)`)
	endOfRealm  = regexp.MustCompile(`(\w+)@SEQUENCE`)
)

// continuesHigher remembers the last sequence that was printed. When the logs of all realms are restored, it adds a secret and starts the graph
// service by the document's commands, and makes sure that no revision which a client knows names another change.
func continuesHigher(t *testing.T, p *player, out string) {
	t.Helper()
	log, found := restoredLog.FindStringSubmatch(out), lastOfLog.FindStringSubmatch(out)
	if log == nil {
		t.Fatalf("the command names no log: %s", out)
	}
	end, err := strconv.ParseUint(strings.ReplaceAll(found[1], ",", ""), 10, 64)
	must.Succeed(t, err)
	p.ends[log[1]] = end
	commands := operationsCommands(t, `^coppice (secret add|graph .*--restored) `)
	if len(commands) != 2 {
		t.Fatalf("%s continues by %v", operations, commands)
	}
	realms := endOfRealm.FindAllStringSubmatch(commands[1].text, -1)
	for _, r := range realms {
		if p.ends[r[1]] == 0 {
			return // it is restored next
		}
	}

	q := playerOf(t, p.empty.URL())
	data, err := os.ReadFile(filepath.Join(p.dir, "data", secret.FileName))
	must.Succeed(t, cmp.Or(err, os.WriteFile(filepath.Join(q.dir, "coppice.secret"), data, 0o600)))
	q.start(t, commands[0].text, "").says(t, `has secret 2`)
	q.serve(t, p.empty.Password, endOfRealm.ReplaceAllStringFunc(commands[1].text, func(s string) string {
		realm, _, _ := strings.Cut(s, "@")
		return realm + "@" + strconv.FormatUint(p.ends[realm], 10)
	}), `msg=ready\b`)
	conn := testkit.Conn(t, p.empty, bus.RoleOperator)
	for _, r := range realms {
		last := p.object(t, p.in(r[1]), "behind-the-backup").GetMetadata().GetResourceVersion()
		c := client.New(conn, client.WithActor(bus.RoleOperator), client.WithRealm(r[1]))
		if now := p.object(t, c, "after-the-restore").GetMetadata().GetResourceVersion(); now <= last {
			t.Errorf("realm %s: after the restore a change has revision %d; before, one that is lost had %d", r[1], now, last)
		}
	}
	shop := client.New(conn, client.WithActor(bus.RoleOperator), client.WithRealm("shop"))
	if _, err := shop.Resource(preview, "shop").Get(p.ctx, "in-the-backup"); err != nil {
		t.Errorf("the second realm: %v", err)
	}
}

// object creates an object, as soon as a writer answers.
func (p *player) object(t *testing.T, c *client.Client, name string) (created *coppicev1.Object) {
	t.Helper()
	testkit.WaitFor(t, p.ctx, name+" to be created", func() (done bool) {
		var err error
		created, err = c.Resource(preview, "shop").Create(p.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
		return err == nil || errors.Is(err, client.ErrAlreadyExists)
	})
	return created
}
