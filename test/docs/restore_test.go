package docs_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

// emptyServer starts a NATS server without streams, into which a backup is restored.
func emptyServer(t *testing.T, p *player) {
	t.Helper()
	p.empty = testkit.StartNATS(t, natsd.Config{
		Dir: filepath.Join(p.dir, "empty"), Host: "127.0.0.1", Port: -1, Roles: append(bus.Roles(bus.DefaultRealm), bus.AdminRole()),
	})
}

// onEmptyServer has a command run on the empty server, as its user admin.
func onEmptyServer(p *player, text string) string {
	return strings.Replace(withDir(p, text), "nats ", "nats --server "+p.empty.URL()+" --user admin --password "+p.empty.Password(bus.RoleAdmin)+" ", 1)
}

// continuesHigher starts a graph service as the document says, with the last sequence that was printed, and makes
// sure that no revision which a client knows names another change.
func continuesHigher(t *testing.T, p *player, out string) {
	t.Helper()
	found := regexp.MustCompile(`Last Sequence: ([\d,]+)`).FindStringSubmatch(out)
	sequence, err := strconv.ParseUint(strings.ReplaceAll(found[1], ",", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	last := p.object(t, p.admin, "behind-the-backup").GetMetadata().GetResourceVersion()
	secrets, err := secret.LoadOrDraw(filepath.Join(p.dir, "data", secret.FileName))
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.New(graph.Config{
		Conn: testkit.Conn(t, p.empty, bus.RoleGraph), Answers: testkit.Conn(t, p.empty, bus.RoleAnswers), Secrets: secrets, Dir: t.TempDir(),
		LeaseTTL: testkit.Timeout, Restored: map[string]uint64{bus.DefaultRealm: sequence},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c := client.New(testkit.Conn(t, p.empty, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	if now := p.object(t, c, "after-the-restore").GetMetadata().GetResourceVersion(); now <= last {
		t.Errorf("after the restore a change has revision %d; before, one that is lost had %d", now, last)
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
