package leases

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/election"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// server is a Server without endpoints, whose clock the test sets.
type server struct {
	*testkit.Realm
	*Server
	now time.Duration
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{Realm: testkit.NewRealm(t)}
	_, err := bus.EnsureBucket(s.Ctx, s.JS(), bus.RealmBucket, 1) // an installation has it
	must.Succeed(t, err)
	s.Server = New(serve.NewReplica(&serve.Server{Config: serve.Config{Realm: bus.DefaultRealm}}, nil, nil), s.JS())
	s.sweeper.clock = func() time.Duration { return s.now }
	return s
}

func (s *server) try(ctx context.Context, actor string, r *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
	for {
		reply, err := s.lease(ctx, actor, r)
		switch {
		case err != nil:
			return nil, err
		case reply != nil:
			return reply, nil
		}
	}
}

// request carries out a request, which must succeed.
func (s *server) request(actor string, r *coppicev1.LeaseRequest) *coppicev1.LeaseReply {
	s.Helper()
	reply, err := s.try(s.Ctx, actor, r)
	must.Succeed(s.TB, err)
	return reply
}

func acquire(name, holder string) *coppicev1.LeaseRequest {
	return &coppicev1.LeaseRequest{Name: name, Holder: holder, About: "host/1", Ttl: 2000}
}

// A lease is acquired, renewed, replaced and released; each actor and realm has its own.
func TestLease(t *testing.T) {
	t.Parallel()
	s := start(t)
	const name = "example.com/sites"
	first := s.request("sites", acquire(name, "a"))
	if l := first.GetLease(); !first.GetHeld() || l.GetHolder() != "a" || l.GetAbout() != "host/1" || l.GetTtl() != 2000 || l.GetRevision() == 0 || l.GetName() != name {
		t.Fatalf("acquired: %v", first)
	}
	if again := s.request("sites", acquire(name, "b")); again.GetHeld() || again.GetLease().GetHolder() != "a" {
		t.Errorf("the second candidate: %v", again)
	}
	if other := s.request("other", acquire(name, "b")); !other.GetHeld() {
		t.Errorf("another actor: %v", other)
	}
	if longer := s.request("sites", acquire(name+".x", "b")); !longer.GetHeld() {
		t.Errorf("another lease: %v", longer)
	}
	renewed := s.request("sites", acquire(name, "a"))
	if !renewed.GetHeld() || renewed.GetLease().GetRevision() <= first.GetLease().GetRevision() {
		t.Errorf("renewed: %v", renewed)
	}
	if asked := s.request("sites", &coppicev1.LeaseRequest{Name: name}); asked.GetHeld() || asked.GetLease().GetRevision() != renewed.GetLease().GetRevision() {
		t.Errorf("asked: %v", asked)
	}
	late := acquire(name, "b")
	late.Revision = first.GetLease().GetRevision()
	if reply := s.request("sites", late); reply.GetHeld() {
		t.Errorf("replaces a revision that was renewed: %v", reply)
	}
	late.Revision = renewed.GetLease().GetRevision()
	if reply := s.request("sites", late); !reply.GetHeld() || reply.GetLease().GetHolder() != "b" {
		t.Errorf("replaces: %v", reply)
	}
	if reply := s.request("sites", &coppicev1.LeaseRequest{Name: name, Holder: "a", Release: true}); reply.GetLease().GetHolder() != "b" {
		t.Errorf("released by another: %v", reply)
	}
	if reply := s.request("sites", &coppicev1.LeaseRequest{Name: name, Holder: "b", Release: true}); reply.GetLease() != nil || reply.GetHeld() {
		t.Errorf("released: %v", reply)
	}
	of, all, err := bus.CountKeys(s.Ctx, s.JS(), bus.ControllerBucket, bus.LeasesOf(bus.DefaultRealm, "sites"))
	must.Succeed(t, err)
	if of != 1 || all != 2 {
		t.Errorf("the bucket has %d and %d leases: a released one leaves nothing", of, all)
	}
	stale := acquire(name, "b")
	stale.Revision = renewed.GetLease().GetRevision()
	if reply := s.request("sites", stale); reply.GetHeld() {
		t.Errorf("a renewal after the release: %v", reply)
	}
}

// A release that names a revision does not remove a later one, and the deletion of a realm removes its leases only.
func TestDrop(t *testing.T) {
	t.Parallel()
	s := start(t)
	const name = "x"
	first := s.request("sites", acquire(name, "a")).GetLease().GetRevision()
	s.request("sites", acquire(name, "a"))
	key := bus.LeaseKey(bus.DefaultRealm, "sites", name)
	must.Succeed(t, bus.DropKey(s.Ctx, s.JS(), bus.ControllerBucket, key, first))
	if reply := s.request("sites", &coppicev1.LeaseRequest{Name: name}); reply.GetLease().GetHolder() != "a" {
		t.Errorf("the lease is %v", reply)
	}
	if _, err := bus.PutKey(s.Ctx, s.JS(), bus.ControllerBucket, bus.LeaseKey("other", "sites", name), []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		realm string
		left  int
	}{{"absent", 2}, {bus.DefaultRealm, 1}} {
		must.Succeed(t, bus.DeleteStreams(s.Ctx, s.JS(), of.realm, func() error { return nil }))
		if _, all, err := bus.CountKeys(s.Ctx, s.JS(), bus.ControllerBucket, ">"); err != nil || all != of.left {
			t.Errorf("after the deletion of %s: %d leases, %v, want %d", of.realm, all, err, of.left)
		}
	}
}

// Of candidates at the same time, one acquires the lease, also over several graph services.
func TestCandidates(t *testing.T) {
	t.Parallel()
	s := start(t)
	var wg sync.WaitGroup
	held := make(chan string, 16)
	for i := range cap(held) {
		wg.Go(func() {
			id := fmt.Sprintf("c%d", i)
			reply, err := s.try(s.Ctx, "sites", acquire("x", id))
			if err != nil {
				t.Error(err)
			}
			if reply.GetHeld() {
				held <- id
			}
		})
	}
	wg.Wait()
	if len(held) != 1 {
		t.Fatalf("%d candidates have the lease", len(held))
	}
	if id, reply := <-held, s.request("sites", &coppicev1.LeaseRequest{Name: "x"}); reply.GetLease().GetHolder() != id {
		t.Errorf("the lease is %v, acquired by %s", reply, id)
	}
}

// An actor has a limited number of leases. Leases that were not renewed are removed then, and others stay.
func TestLimit(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i := range maxActor {
		s.request("sites", acquire(fmt.Sprintf("l%d", i), "a"))
	}
	refused := func() {
		t.Helper()
		_, err := s.try(s.Ctx, "sites", acquire("more", "a"))
		if want := "actor sites has 64 leases"; err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("refused with %v, want %q", err, want)
		}
	}
	refused()
	s.request("others", acquire("more", "a")) // that another actor has room
	s.request("sites", acquire("l1", "a"))    // renewed
	s.now = election.MinTTL                   // too early
	refused()
	s.now = 6 * time.Second
	s.request("sites", acquire("l2", "a"))
	if reply := s.request("sites", acquire("more", "a")); !reply.GetHeld() {
		t.Errorf("after the others have ended: %v", reply)
	}
	for name, want := range map[string]string{"l0": "", "l1": "a", "l2": "a", "l3": ""} {
		if got := s.request("sites", &coppicev1.LeaseRequest{Name: name}).GetLease().GetHolder(); got != want {
			t.Errorf("%s has the holder %q, want %q", name, got, want)
		}
	}
}

// What is no lease is replaced when it was not changed for the longest duration.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.request("sites", acquire("x", "a"))
	key := bus.LeaseKey(bus.DefaultRealm, "sites", "y")
	revision, err := bus.PutKey(s.Ctx, s.JS(), bus.ControllerBucket, key, []byte("x"), 0)
	must.Succeed(t, err)
	reply := s.request("sites", acquire("y", "a"))
	if l := reply.GetLease(); reply.GetHeld() || l.GetHolder() != "" || l.GetTtl() != election.MaxTTL.Milliseconds() || l.GetRevision() != revision {
		t.Errorf("%v", reply)
	}
	replacing := acquire("y", "a")
	replacing.Revision = revision
	if reply := s.request("sites", replacing); !reply.GetHeld() {
		t.Errorf("%v", reply)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := acquire("example.com/sites", "a")
	if err := check(good); err != nil {
		t.Error(err)
	}
	for says, r := range map[string]*coppicev1.LeaseRequest{
		`name: "" is not`:           acquire("", "a"),
		`name: "a..b" is not`:       acquire("a..b", "a"),
		`name: "a.*" is not`:        acquire("a.*", "a"),
		`name: "A" is not`:          acquire("A", "a"),
		`name: "-a" is not`:         acquire("-a", "a"),
		`holder: "a b" is not`:      acquire("a", "a b"),
		`holder: "é" is not`:        acquire("a", "é"),
		"at most 64 letters":        acquire("a", strings.Repeat("a", 65)),
		"about: it has 257 bytes":   {Name: "a", Holder: "a", Ttl: 2000, About: strings.Repeat("a", 257)},
		"ttl: 999 ms; it must be":   {Name: "a", Holder: "a", Ttl: 999},
		"ttl: 600001 ms; it must":   {Name: "a", Holder: "a", Ttl: 600001},
		"ttl: -1 ms; it must be":    {Name: "a", Holder: "a", Ttl: -1},
		strings.Repeat("a", 64)[1:]: acquire(strings.Repeat("a", 64), "a"),
	} {
		if err := check(r); err == nil || !strings.Contains(err.Message, says) {
			t.Errorf("%v: %v, want %q", r, err, says)
		}
	}
	if err := check(&coppicev1.LeaseRequest{Name: "a", Holder: "a", Release: true}); err != nil {
		t.Errorf("a release needs no ttl: %v", err)
	}
	if b, err := json.Marshal(stored{"h", "host/1", 5}); err != nil || string(b) != `{"holder":"h","about":"host/1","ttl":5}` {
		t.Errorf("%s, %v", b, err)
	}
}
