package trust_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// With an account for each actor, commands, reads, watches and cascades work, and a watch
// ends with its client.
func TestAccounts(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	c := client.New(r.conn(bus.RoleApplication), client.WithActor(bus.RoleApplication))
	watching, stop := context.WithCancel(r.Ctx)
	defer stop()
	events := make(chan client.WatchEvent, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range c.Resource(secrets, "shop").Watch(watching) {
			if err == nil && e.Object != nil {
				events <- e
			}
		}
	}()
	owner, err := c.Resource(secrets, "shop").Create(r.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "owner"}})
	must.Succeed(t, err)
	if e := testkit.Receive(t, r.Ctx, "the creation", events); e.Object.GetMetadata().GetName() != "owner" {
		t.Errorf("the watch delivers %v", e)
	}
	dependent := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: "dependent", OwnerReferences: []*coppicev1.OwnerReference{client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true))},
	}}
	if _, err := c.Resource(secrets, "shop").Create(r.Ctx, dependent); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resource(secrets, "shop").Delete(r.Ctx, "owner", client.Foreground); err != nil {
		t.Fatal(err)
	}
	r.WaitFor("the cascade", func() bool {
		_, err := c.Resource(secrets, "shop").Get(r.Ctx, "owner")
		return errors.Is(err, client.ErrNotFound)
	})
	stop()
	testkit.Receive(t, r.Ctx, "the end of the watch", ended)
}

// Users are in files that only their owner may read, and no connection is accepted without
// a password. The files are read again at the next start.
func TestUsers(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir := t.TempDir()
	var before []byte
	for range 2 {
		s, err := allinone.Start(ctx, allinone.Config{Dir: dir, Port: -1, Auth: true})
		must.Succeed(t, err)
		// A NATS server that is stopped while it creates a stream leaves goroutines behind.
		must.Succeed(t, testkit.Await(ctx, s))
		for name, opts := range map[string][]nats.Option{"no user": nil, "a wrong password": {nats.UserInfo(bus.RoleReader, "x")}, "the local user": {nats.UserInfo(bus.LocalUser, "")}} {
			if nc, err := nats.Connect(s.Server().URL(), append(opts, nats.Timeout(testkit.Timeout))...); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("%s: %v", name, err)
				if err == nil {
					nc.Close()
				}
			}
		}
		file := filepath.Join(dir, allinone.UsersDir, "nats", "context", bus.RoleReader+".json")
		info, err := os.Stat(file)
		must.Succeed(t, err)
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o", file, mode)
		}
		nc, err := nats.Connect(s.Server().URL(), nats.UserInfo(bus.RoleReader, s.Server().Password(bus.RoleReader)), nats.Timeout(testkit.Timeout))
		if err != nil {
			t.Error(err)
		} else {
			nc.Close()
		}
		must.Succeed(t, s.Stop())
		password := []byte(s.Server().Password(bus.RoleReader))
		if before != nil && string(before) != string(password) {
			t.Error("the password has changed")
		}
		before = password
	}
}

// A controller works with objects and runs its own finalizer, and no other.
func TestController(t *testing.T) {
	t.Parallel()
	const own, other = controllerFinalizer, "example.com/other"
	r := startWith(t, allinone.Config{Auth: true, Roles: added()})
	c := client.New(r.conn(controller.Name), client.WithActor(controller.Name))
	objects := c.Resource(secrets, "shop")
	for _, finalizer := range []string{own, other} {
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: filepath.Base(finalizer), Finalizers: []string{finalizer}}}
		if _, err := objects.Create(r.Ctx, o); err != nil {
			t.Fatal(err)
		}
		if _, err := objects.Delete(r.Ctx, o.GetMetadata().GetName()); err != nil {
			t.Fatal(err)
		}
	}
	running, stop := context.WithCancel(r.Ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunFinalizer(running, own, func(context.Context, *client.Call) error { return nil })
	}()
	r.WaitFor("the controller's finalizer", func() bool {
		_, err := objects.Get(r.Ctx, "site")
		return errors.Is(err, client.ErrNotFound)
	})
	stop()
	if err := testkit.Receive(t, r.Ctx, "the end of RunFinalizer", ended); err != nil {
		t.Error(err)
	}
	if _, err := objects.RemoveFinalizer(r.Ctx, "other", other); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("the finalizer of another controller: %v, want Forbidden", err)
	}
	running, stop = context.WithCancel(r.Ctx)
	defer stop()
	refused := make(chan error, 100)
	go func() {
		ended <- c.RunFinalizer(running, other, func(context.Context, *client.Call) error { return nil }, client.OnError(func(err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	}()
	for err := error(nil); !errors.Is(err, client.ErrForbidden); { // the first attempt may get no reply in time
		err = testkit.Receive(t, r.Ctx, "a refusal of the calls of another controller", refused)
	}
	stop()
	if err := testkit.Receive(t, r.Ctx, "the end of RunFinalizer", ended); err != nil {
		t.Error(err)
	}
	if _, err := c.Resource(client.KindsResource, "").Delete(r.Ctx, "secrets"); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("the deletion of a kind: %v, want Forbidden", err)
	}
}

// An answer to the local user does not act as a pull of work, which the user is denied: its account may pull from
// the consumers of all streams.
func TestLocalUserTakesNoWork(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	n := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Accounts: true, Roles: []bus.Role{bus.GraphRole(bus.AnyRealm), bus.AnswersRole(bus.AnyRealm), bus.LocalRole(bus.AnyRealm)}})
	js := testkit.JetStream(t, n, bus.RoleGraph)
	must.Succeed(t, bus.EnsureStreams(ctx, js, bus.DefaultRealm, 1))
	if _, err := js.Publish(ctx, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), []byte("work")); err != nil {
		t.Fatal(err)
	}
	stream := bus.FinalizeStream(bus.DefaultRealm)
	calls := bus.FinalizerConsumer(bus.DefaultRealm, bus.ExampleFinalizer)
	if _, err := js.CreateConsumer(ctx, stream, calls); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		call := bus.Finalize{Realm: bus.DefaultRealm, Plural: "secrets", UID: fmt.Sprint("u", i), Finalizer: bus.ExampleFinalizer}.Subject()
		if _, err := js.Publish(ctx, call, []byte(`{"batch":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	// The graph service answers whatever a client wants it to.
	list := subject(bus.LocalUser, bus.VerbList, "secrets", "shop")
	answers := testkit.Conn(t, n, bus.RoleAnswers)
	answered := make(chan struct{}, 1)
	if _, err := answers.Subscribe(list, func(m *nats.Msg) {
		_ = m.Respond(m.Data)
		answered <- struct{}{}
	}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, answers.FlushWithContext(ctx))
	local := testkit.Conn(t, n, bus.LocalUser)
	take := bus.PullSubject(bus.WorkStream(bus.DefaultRealm), bus.DurableProcessors)
	for _, data := range []string{"", "1", `{"batch":1}`, `{"batch":1,"no_wait":true}`} {
		for _, subject := range []string{
			list, "$JS.API.STREAM.INFO." + stream, "$SRV.PING", bus.PullSubject(stream, calls.Durable),
			bus.ParkedSubject(bus.DefaultRealm, bus.Finalize{Realm: bus.DefaultRealm, Plural: "secrets", UID: "u", Finalizer: bus.ExampleFinalizer}.Subject(), 1),
		} {
			must.Succeed(t, local.PublishMsg(&nats.Msg{Subject: subject, Reply: take, Data: []byte(data)}))
		}
		testkit.Receive(t, ctx, "the request to the graph service", answered)
	}
	for range 2 { // the answers to all earlier requests have had their effects
		if _, err := local.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil); err != nil {
			t.Fatal(err)
		}
	}
	c, err := js.Consumer(ctx, bus.WorkStream(bus.DefaultRealm), bus.DurableProcessors)
	must.Succeed(t, err)
	if info := c.CachedInfo(); info.Delivered.Consumer != 0 || info.NumPending != 1 || info.NumWaiting != 0 {
		t.Errorf("the consumer of work: %+v", info)
	}
	if _, err := c.Next(jetstream.FetchMaxWait(testkit.Timeout)); err != nil {
		t.Errorf("the work: %v", err)
	}
}
