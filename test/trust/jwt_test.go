package trust_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsjwt"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/finalizers"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// jwtRealm is a realm on servers with accounts by JWT.
type jwtRealm struct {
	*realm
	dir     string
	servers []*server.Server
	// table is what the graph service knows of accounts; a tick has it read again.
	table *natsjwt.Table
	ticks chan time.Time
}

// startJWT starts n servers with accounts by JWT for the roles of deployments and those of added, and a graph service.
func startJWT(t *testing.T, n int, users *access.File) *jwtRealm {
	t.Helper()
	also, table := ofFile(users)
	r := &jwtRealm{realm: &realm{Stack: &stack.Stack{TB: t, Ctx: testkit.Context(t)}}, dir: filepath.Join(t.TempDir(), "accounts"), ticks: make(chan time.Time)}
	r.write(also...)
	r.servers = testkit.StartIncluding(t, filepath.Join(r.dir, natsjwt.ResolverFile), "./coppice-accounts", n)
	r.push()
	var turn atomic.Int64
	r.connect = func(role string, opts ...nats.Option) (*nats.Conn, error) {
		return nats.Connect(r.servers[int(turn.Add(1))%n].ClientURL(), append([]nats.Option{nats.UserCredentials(natsjwt.CredsFile(r.dir, role)),
			nats.CustomInboxPrefix(bus.InboxPrefix(role)), nats.Timeout(testkit.Timeout), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)}, opts...)...)
	}
	var err error
	r.table, err = natsjwt.OpenTable(filepath.Join(r.dir, natsjwt.AccountsFile))
	must.Succeed(t, err)
	testkit.Run(t, func(ctx context.Context) error {
		r.table.Follow(ctx, r.ticks, slog.New(slog.DiscardHandler))
		return nil
	})
	g, err := graph.New(graph.Config{
		Conn: r.conn(bus.RoleGraph), Answers: r.conn(bus.RoleAnswers), Actors: r.table.Actor, Access: table, Secrets: testkit.Secrets(), Dir: t.TempDir(), Replicas: n, LeaseTTL: testkit.Timeout,
	})
	must.Succeed(t, err)
	testkit.Run(t, g.Run)
	r.WaitFor("the graph service to write", func() bool { return g.Writing() && g.Ready() == nil })
	r.populate()
	return r
}

func (r *jwtRealm) write(also ...bus.Role) {
	r.TB.Helper()
	_, err := natsjwt.Write(r.dir, append(append(natsconf.DefaultRoles(), added()...), also...))
	must.Succeed(r.TB, err)
}

func (r *jwtRealm) push() {
	r.TB.Helper()
	nc, err := nats.Connect(r.servers[0].ClientURL(), nats.UserCredentials(natsjwt.CredsFile(r.dir, natsjwt.SystemUser)), nats.Timeout(testkit.Timeout))
	must.Succeed(r.TB, err)
	defer nc.Close()
	p := natsjwt.Push{Conn: nc, Dir: r.dir, Timeout: testkit.Timeout, Report: func(natsjwt.Answer) {}}
	must.Succeed(r.TB, p.Run(r.Ctx))
}

// The attacks of TestMatrix change nothing either where accounts are JWTs.
func TestMatrixWithJWT(t *testing.T) {
	t.Parallel()
	startJWT(t, 1, nil).matrix(actors()...)
}

// On three servers with accounts by JWT, all services work: a cascade, an external finalizer, and an actor that is added
// by a push while they run. The graph service knows the actor from its account.
func TestJWT(t *testing.T) {
	t.Parallel()
	r := startJWT(t, 3, nil)
	p, err := processor.New(processor.Config{Conn: r.conn(bus.RoleProcessor)})
	must.Succeed(t, err)
	testkit.Run(t, p.Run)
	f, err := finalizers.New(finalizers.Config{Conn: r.conn(bus.RoleFinalizers)})
	must.Succeed(t, err)
	testkit.Run(t, f.Run)
	s, err := scanner.New(scanner.Config{Conn: r.conn(bus.RoleScanner)})
	must.Succeed(t, err)
	testkit.Run(t, s.Run)
	for _, ready := range []func() error{p.Ready, f.Ready, s.Ready} {
		r.WaitFor("the services", func() bool { return ready() == nil })
	}
	application := client.New(r.conn(bus.RoleApplication), client.WithActor(bus.RoleApplication)).Resource(secrets, "shop")
	owner := stack.Named("owner")
	owner.Metadata.Finalizers = []string{bus.ExampleFinalizer}
	owner, err = application.Create(r.Ctx, owner)
	must.Succeed(t, err)
	for _, name := range []string{"a", "b"} {
		_, err := application.Create(r.Ctx, stack.Named(name, owner))
		must.Succeed(t, err)
	}
	_, err = application.Delete(r.Ctx, "owner", client.Foreground)
	must.Succeed(t, err)
	r.Gone(secrets, "shop", "a")
	running, stop := context.WithCancel(r.Ctx)
	defer stop()
	called := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- client.New(r.conn(bus.RoleFinalizer), client.WithActor(bus.RoleFinalizer)).RunFinalizer(running, bus.ExampleFinalizer, func(_ context.Context, c *client.Call) error {
			called <- c.Object.GetMetadata().GetName()
			return nil
		})
	}()
	if name := testkit.Receive(t, r.Ctx, "a call", called); name != "owner" {
		t.Errorf("a call for %s", name)
	}
	r.Gone(secrets, "shop", "owner")
	stop()
	must.Succeed(t, testkit.Receive(t, r.Ctx, "the end of RunFinalizer", ended))

	r.write(bus.ReaderRole("auditor", bus.AnyRealm))
	r.push()
	auditor := client.New(r.conn("auditor"), client.WithActor("auditor")).Resource(secrets, "prod")
	if _, err := auditor.Get(r.Ctx, "s1"); !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "--account-keys") {
		t.Errorf("an actor whose account the graph service does not know: %v", err)
	}
	for range 2 {
		r.ticks <- time.Time{}
	}
	if _, err := auditor.Get(r.Ctx, "s1"); err != nil {
		t.Error(err)
	}
	if _, err := auditor.Delete(r.Ctx, "s1"); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a reader deletes: %v", err)
	}
	creds := filepath.Join(t.TempDir(), "auditor.creds")
	must.Succeed(t, os.Rename(natsjwt.CredsFile(r.dir, "auditor"), creds))
	r.write()
	r.push()
	for _, s := range r.servers {
		if nc, err := nats.Connect(s.ClientURL(), nats.UserCredentials(creds), nats.Timeout(testkit.Timeout)); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
			t.Errorf("an actor that was removed connects to %s: %v", s.Name(), err)
			nc.Close()
		}
	}
}
