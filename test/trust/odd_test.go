package trust_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// `make odd` runs TestOddRequests with 1,000,000.
var (
	oddRequests = flag.Int("odd", 20_000, "how many requests TestOddRequests sends")
	oddSeed     = nightly.SeedFlag("oddseed", "the seed of TestOddRequests")
)

// Requests of all roles with odd subjects, headers, reply subjects and bodies crash no
// service and change nothing that their role may not change: the log has no other
// commands, and the objects of one namespace, streams and leases stay as they are. Every
// request that a role may send gets a reply, and none an internal error. Afterwards state
// and log agree, and a cascade works.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	seed := *oddSeed
	reproduce := fmt.Sprintf("go test ./test/trust -count=1 -run TestOddRequests -odd=%d -oddseed=%d", *oddRequests, seed)
	fmt.Fprintln(os.Stderr, reproduce) // also if a service panics
	failures := &failureLog{Handler: slog.DiscardHandler}
	t.Cleanup(func() {
		for _, line := range failures.list() {
			t.Errorf("a service has failed: %s", line)
		}
		if t.Failed() {
			t.Log(reproduce)
		}
	})
	r := startWith(t, allinone.Config{Auth: true, Roles: added(), Log: slog.New(failures), Graph: func(c *graph.Config) {
		c.Heartbeat = 500 * time.Millisecond
		c.LeaseTTL = testkit.Timeout // a busy machine must not cost the writer its lease: then no service answers for a moment
	}})
	js, err := jetstream.New(r.conn(bus.RoleAdmin))
	must.Succeed(t, err)
	r.notified(js)
	r.victims()
	f := &fuzz{r: r, seed: seed, roles: actors(), sent: map[string]int{}, accepted: map[string]int{}, audit: newAudit(r)}

	// Each role alone: then it or the services have caused all changes. The operator is the first, because
	// the requests of others may delete the objects that it protects.
	i := slices.IndexFunc(f.roles, func(r bus.Role) bool { return r.Name == bus.RoleOperator })
	f.roles[0], f.roles[i] = f.roles[i], f.roles[0]
	for _, role := range f.roles {
		f.phase(*oddRequests/2/len(f.roles), role)
	}
	f.phase(*oddRequests/2, f.roles...)

	r.WaitFor("the services to be ready still", func() bool { return r.Services.Ready() == nil })
	v, err := r.Operations().Verify(r.Ctx)
	if err != nil || v.GetDifference() != "" {
		t.Errorf("verification: %v, %v", v, err)
	}
	// Otherwise the test would show little.
	for _, role := range f.roles {
		if n := f.accepted[role.Name]; n < *oddRequests/1000 {
			t.Errorf("only %d requests of %s were accepted", n, role.Name)
		}
	}
	for _, actor := range []string{bus.RoleApplication, bus.RoleOperator, expiry.Name, controller.Name} {
		if f.audit.by[actor] == 0 {
			t.Errorf("the log has no command of %s", actor)
		}
	}
	t.Logf("commands in the log, by actor and by verb: %v", f.audit.by)
	if by := f.audit.by; by[bus.VerbVeto] == 0 || by[bus.VerbProtect]+by[bus.VerbUnprotect]+by[bus.VerbForceFinalizer] == 0 {
		t.Errorf("the log has no command veto, or none of protect, unprotect and forcefinalizer: %v", by)
	}
	r.cascades()
}

// Each verb and each operation of services has a message, of which TestOddRequests draws bodies.
func TestOddMessages(t *testing.T) {
	t.Parallel()
	names := bus.Verbs()
	for _, op := range append(operations(), bus.OpRealms) {
		names = append(names, "internal."+op)
	}
	for _, name := range names {
		if requests[name] == nil {
			t.Errorf("TestOddRequests has no message for %s", name)
		}
	}
}

// fuzz sends odd requests.
type fuzz struct {
	r     *realm
	seed  uint64
	roles []bus.Role
	audit *audit
	sent  map[string]int // by role

	mu       sync.Mutex
	accepted map[string]int // by role
	failed   int
}

// phase sends requests of some roles at the same time, and then checks all changes.
func (f *fuzz) phase(count int, roles ...bus.Role) {
	known := slices.Clone(f.audit.markers)
	for _, of := range []client.Resource{secrets, {Plural: "configmaps"}, {Plural: "pods"}, {Group: "apps", Plural: "deployments"}} {
		list := f.r.objects(of, "odd")
		known = append(known, list[:min(len(list), 50)]...)
	}
	var wg sync.WaitGroup
	var senders []string
	begun := time.Now()
	defer func() {
		f.r.TB.Logf("%d requests of %v took %v", count, senders, time.Since(begun).Round(time.Millisecond))
	}()
	for _, role := range roles {
		senders = append(senders, role.Name)
		from := f.sent[role.Name]
		f.sent[role.Name] += count / len(roles)
		wg.Go(func() { f.send(role, from, count/len(roles), known) })
	}
	wg.Wait()
	f.fence()
	for _, v := range f.audit.check(senders...) {
		f.r.TB.Errorf("after requests of %v: %s", senders, v)
	}
	if f.r.TB.Failed() {
		f.r.TB.FailNow()
	}
}

// fence waits until all earlier commands have been decided: an endpoint takes requests in
// order, and the writer decides in that order.
func (f *fuzz) fence() {
	f.r.TB.Helper()
	for _, verb := range []string{
		bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbApply, bus.VerbApplyAcross, bus.VerbPatch, bus.VerbImport, bus.VerbRestore, bus.VerbDelete, bus.VerbRemoveFinalizer, bus.VerbDeleteCollection,
		bus.VerbForceFinalizer, bus.VerbProtect, bus.VerbUnprotect, bus.VerbDeleteUnreadable, bus.VerbVeto, bus.VerbReleaseBrake,
	} {
		a := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleOperator, Verb: verb, Plural: "secrets", Namespace: "odd"}
		if bus.NamesFinalizer(verb) {
			a.Finalizer = guard
		}
		var refused *client.Error
		if err := rpc.Send(f.r.Ctx, f.r.Conn(), a.Subject(), nil, nil, &coppicev1.ObjectsReply{}); !errors.As(err, &refused) || refused.Reason != client.ErrBadRequest {
			f.r.TB.Fatalf("%s with an empty body: %v", verb, err)
		}
	}
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "fence"}}
	if _, err := f.r.Resource(secrets, "odd").Create(f.r.Ctx, o, client.DryRun(true)); err != nil {
		f.r.TB.Fatal(err)
	}
}

// batch is how many requests wait for their answers at once.
const batch = 200

func (f *fuzz) send(role bus.Role, from, count int, known []*coppicev1.Object) {
	nc, err := f.r.connect(role.Name, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil {
			f.fail("%s: disconnected: %v", role.Name, err)
		}
	}))
	if err != nil {
		f.fail("%s: %v", role.Name, err)
		return
	}
	defer nc.Close()
	for at := from; at < from+count; at += batch {
		if !f.sendBatch(nc, role, at, min(batch, from+count-at), known) {
			return
		}
	}
	if err := nc.FlushWithContext(f.r.Ctx); err != nil {
		f.fail("%s: %v", role.Name, err)
	}
}

// sendBatch sends requests, and waits for the replies that must come.
func (f *fuzz) sendBatch(nc *nats.Conn, role bus.Role, from, count int, known []*coppicev1.Object) bool {
	requests := make([]*oddRequest, count)
	waiting := 0
	for i := range requests {
		requests[i] = draw(f.seed, from+i, role, known)
		if requests[i].answered {
			waiting++
		}
	}
	inbox := nc.NewInbox()
	answers := make(chan int, count)
	seen := make([]bool, count) // of the goroutine of the subscription
	sub, err := nc.Subscribe(inbox+".*", func(m *nats.Msg) {
		i, err := strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
		if err != nil || seen[i] {
			return
		}
		seen[i] = true
		f.answer(role, from+i, requests[i], m)
		answers <- i
	})
	if err != nil {
		f.fail("%s: %v", role.Name, err)
		return false
	}
	defer func() { _ = sub.Unsubscribe() }()
	_ = sub.SetPendingLimits(-1, -1)
	for i, o := range requests {
		m := &nats.Msg{Subject: o.subject, Reply: o.reply, Header: o.header, Data: o.data}
		if o.answered || o.reply == "" && i%2 == 0 {
			m.Reply = inbox + "." + strconv.Itoa(i)
		}
		if err := nc.PublishMsg(m); errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrMaxPayload) {
			if o.answered {
				waiting--
				requests[i].answered = false
			}
		} else if err != nil {
			f.fail("%s: %v: %v", role.Name, o, err)
			return false
		}
	}
	late := time.NewTimer(testkit.Timeout) // for each reply
	defer late.Stop()
	got := map[int]bool{}
	for waiting > 0 {
		select {
		case i := <-answers:
			late.Reset(testkit.Timeout)
			got[i] = true
			if requests[i].answered {
				waiting--
			}
		case <-late.C:
			for i, o := range requests {
				if o.answered && !got[i] {
					f.fail("request %d of %s is not answered: %v", from+i, role.Name, o)
				}
			}
			return false
		}
	}
	return true
}

// answer checks a reply.
func (f *fuzz) answer(role bus.Role, n int, o *oddRequest, m *nats.Msg) {
	if !o.answered {
		return
	}
	if m.Header.Get("Status") == "503" {
		f.fail("request %d of %s: no service answers: %v", n, role.Name, o)
		return
	}
	switch reason := m.Header.Get(bus.HeaderReason); {
	case m.Header.Get(micro.ErrorCodeHeader) == "":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.accepted[role.Name]++
	case reason == string(client.ErrInternalError) || reason == "":
		f.fail("request %d of %s: %s: %s: %v", n, role.Name, reason, m.Header.Get(micro.ErrorHeader), o)
	}
}

func (f *fuzz) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed++; f.failed <= 20 {
		f.r.TB.Errorf(format, args...)
	}
}

// cascades has an application delete an owner, in the foreground, and waits until it
// and its dependents are gone.
func (r *realm) cascades() {
	r.TB.Helper()
	objects := client.New(r.conn(bus.RoleApplication), client.WithActor(bus.RoleApplication)).Resource(client.Resource{Plural: "configmaps"}, "afterwards")
	owner, err := objects.Create(r.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "owner"}})
	must.Succeed(r.TB, err)
	for i := range 20 {
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprint("d", i), OwnerReferences: []*coppicev1.OwnerReference{client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true))}}}
		if _, err := objects.Create(r.Ctx, o); err != nil {
			r.TB.Fatal(err)
		}
	}
	if _, err := objects.Delete(r.Ctx, "owner", client.Foreground); err != nil {
		r.TB.Fatal(err)
	}
	r.WaitFor("the cascade", func() bool { return len(r.objects(client.Resource{Plural: "configmaps"}, "afterwards")) == 0 })
}

// failureLog keeps the errors that services log, lost connections and lost leases.
type failureLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *failureLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (l *failureLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *failureLog) WithGroup(string) slog.Handler      { return l }

func (l *failureLog) Handle(_ context.Context, record slog.Record) error {
	line := record.Message
	if record.Level < slog.LevelError && line != "disconnected from NATS" && line != "not the writer any more" || strings.HasPrefix(line, "parked;") {
		return nil
	}
	record.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *failureLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}
