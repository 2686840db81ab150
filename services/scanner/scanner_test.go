package scanner_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/resolution"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/scanner"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

// page is a page of a walk of a kind: for each uid the class of its one owner.
type page map[string]lifecycle.Class

// kept are the traits of objects that are not collected although no owner keeps them.
var kept = map[string]lifecycle.Traits{"protected": lifecycle.IsProtected, "braked": lifecycle.IsBraked}

const (
	solid    = coppicev1.OwnerClass_OWNER_CLASS_SOLID
	dangling = coppicev1.OwnerClass_OWNER_CLASS_DANGLING
	unknown  = coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN
)

// scanned is a realm whose graph service the test plays: kinds, and the pages of each.
type scanned struct {
	*testkit.Realm
	graph    *nats.Conn
	registry *prometheus.Registry

	mu          sync.Mutex
	kinds       [][]string // pages of them
	pages       map[string][]page
	walked      []string // resource, and the number of the page
	republishes []*coppicev1.RepublishRequest
	expires     map[string]int64 // uids, and when each expires
	searches    []int64          // the times of the scanner
	expired     []string
	policies    []string
	examined    []string

	// onKinds and onRepublish are called before requests are answered, unless they are nil.
	onKinds     func() *lifecycle.Error
	onRepublish func()
}

// newScanned returns a realm with these pages of kinds, and these pages of objects of each.
func newScanned(t *testing.T, kinds [][]string, pages map[string][]page) *scanned {
	t.Helper()
	b := &scanned{Realm: testkit.NewRealm(t), registry: prometheus.NewRegistry(), kinds: kinds, pages: pages}
	b.graph = b.Conn(bus.RoleAnswers)
	b.Streams()
	return b
}

// newEmpty returns a realm that has no objects.
func newEmpty(t *testing.T) *scanned {
	t.Helper()
	return newScanned(t, [][]string{{}}, map[string][]page{"kinds.coppice.dev": {{}}})
}

// serve answers the scanner.
func (b *scanned) serve() *scanned {
	b.Helper()
	list := bus.API{Realm: realm, Actor: bus.RoleScanner, Verb: bus.VerbList, Group: lifecycle.Group, Plural: "kinds"}.Subject()
	testkit.Answer(b, b.graph, list, &coppicev1.ListRequest{}, func(q *coppicev1.ListRequest) (*coppicev1.ListReply, *lifecycle.Error) {
		if b.onKinds != nil {
			if refusal := b.onKinds(); refusal != nil {
				return nil, refusal
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		i := 0
		if q.GetContinue() != "" {
			if _, err := fmt.Sscan(q.GetContinue(), &i); err != nil {
				b.Error(err)
			}
		}
		reply := &coppicev1.ListReply{}
		for _, name := range b.kinds[i] {
			reply.Objects = append(reply.Objects, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
		}
		if i+1 < len(b.kinds) {
			reply.Continue = fmt.Sprint(i + 1)
		}
		return reply, nil
	})
	policies := bus.API{Realm: realm, Actor: bus.RoleScanner, Verb: bus.VerbList, Group: lifecycle.Group, Plural: "expirypolicies"}.Subject()
	testkit.Answer(b, b.graph, policies, &coppicev1.ListRequest{}, b.listPolicies)
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, bus.OpExamine), &coppicev1.ExamineRequest{}, b.examine)
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, bus.OpDue), &coppicev1.DueRequest{}, b.due)
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, bus.OpExpire), &coppicev1.ExpireRequest{}, b.expire)
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, bus.OpWalk), &coppicev1.WalkRequest{}, b.walk)
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, bus.OpCycles), &coppicev1.CyclesRequest{},
		func(*coppicev1.CyclesRequest) (*coppicev1.CyclesReply, *lifecycle.Error) {
			return &coppicev1.CyclesReply{}, nil
		})
	testkit.Answer(b, b.graph, bus.InternalSubject(realm, bus.OpRepublish), &coppicev1.RepublishRequest{},
		func(q *coppicev1.RepublishRequest) (*coppicev1.RepublishReply, *lifecycle.Error) {
			if b.onRepublish != nil {
				b.onRepublish()
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.republishes = append(b.republishes, proto.Clone(q).(*coppicev1.RepublishRequest))
			return &coppicev1.RepublishReply{}, nil
		})
	return b
}

func (b *scanned) walk(q *coppicev1.WalkRequest) (*coppicev1.WalkReply, *lifecycle.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := len(q.GetCursor())
	b.walked = append(b.walked, fmt.Sprintf("%s/%d", q.GetResource(), i))
	pages := b.pages[q.GetResource()]
	if pages == nil {
		return nil, lifecycle.ErrUnknownKind(q.GetResource())
	}
	reply := &coppicev1.WalkReply{Objects: &coppicev1.ResolveReply{Revision: 7}}
	for u, class := range pages[i] {
		resolution.Append(reply.Objects, uid.MustParse(u), lifecycle.Live|kept[u], []lifecycle.Class{class})
	}
	if i+1 < len(pages) {
		reply.Cursor = make([]byte, i+1)
	}
	return reply, nil
}

// run runs a scanner, which walks at once, until the test has ended.
func (b *scanned) run(change func(*scanner.Config)) *scanner.Service {
	b.Helper()
	c := scanner.Config{Conn: b.Conn(bus.RoleScanner), Registry: b.registry, Interval: time.Hour, RepublishInterval: time.Hour, ExpiryInterval: time.Hour, PolicyInterval: time.Hour}
	if change != nil {
		change(&c)
	}
	s, err := scanner.New(c)
	must.Succeed(b, err)
	testkit.Run(b, s.Run)
	return s
}

// looked waits until so many pages were asked for, and returns which.
func (b *scanned) looked(n int) []string {
	b.Helper()
	var walked []string
	b.WaitFor(fmt.Sprint(n, " pages to be asked for"), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		walked = slices.Clone(b.walked)
		return len(walked) >= n
	})
	return walked
}

// enqueued is what is in the queue, once there are so many chunks.
func (b *scanned) enqueued(n uint64) []string {
	b.Helper()
	s := b.Stream(bus.WorkStream(realm))
	b.WaitFor(fmt.Sprint(n, " chunks"), func() bool {
		info, err := s.Info(b.Ctx)
		return err == nil && info.State.Msgs >= n
	})
	var uids []string
	for i := range n {
		m, err := s.GetMsg(b.Ctx, i+1)
		must.Succeed(b, err)
		var c coppicev1.DirtyChunk
		must.Succeed(b, proto.Unmarshal(m.Data, &c))
		for _, g := range c.GetGroups() {
			list, err := uid.Unpack(nil, g.GetDependents())
			if err != nil || g.GetRevision() != 7 {
				b.Errorf("a chunk at revision %d: %v", g.GetRevision(), err)
			}
			for _, u := range list {
				uids = append(uids, u.String())
			}
		}
	}
	slices.Sort(uids)
	return uids
}

// metric is the value of a metric of the realm, zero if there is none.
func (b *scanned) metric(name string) float64 {
	b.Helper()
	value, _ := testkit.Metric(b, b.registry, name)
	return value
}

// A17: all kinds are walked, registered ones too, page by page, and dirty objects are
// enqueued.
func TestWalk(t *testing.T) {
	t.Parallel()
	b := newScanned(t, [][]string{{"pods", "services"}, {"widgets.example.com"}}, map[string][]page{
		"kinds.coppice.dev":   {{}},
		"pods":                {{"a": dangling, "b": solid}, {"c": solid}, {"d": dangling, "e": unknown}},
		"services":            {{"protected": dangling, "braked": dangling}},
		"widgets.example.com": {{"w": dangling, "v": unknown}},
	})
	b.serve().run(nil)
	want := "[kinds.coppice.dev/0 pods/0 pods/1 pods/2 services/0 widgets.example.com/0]"
	if got := fmt.Sprint(b.looked(6)); got != want {
		t.Errorf("walked %s, want %s", got, want)
	}
	if got := fmt.Sprint(b.enqueued(3)); got != "[a d w]" {
		t.Errorf("enqueued %s, want what is dirty: [a d w]", got)
	}
	// A18: the metrics report it.
	for name, want := range map[string]float64{"coppice_scanner_walked_total": 9, "coppice_scanner_dirty_total": 3, "coppice_scanner_unknown_objects": 2} {
		b.WaitFor(fmt.Sprintf("%s to be %v", name, want), func() bool { return b.metric(name) == want })
	}
}

// C053, L7: a kind that fails keeps no other from being walked, and is tried again.
func TestOneKindFails(t *testing.T) {
	t.Parallel()
	b := newScanned(t, [][]string{{"broken.example.com", "pods"}}, map[string][]page{"kinds.coppice.dev": {{}}, "pods": {{"a": dangling}}})
	b.serve().run(nil)
	if got := fmt.Sprint(b.enqueued(1)); got != "[a]" {
		t.Errorf("enqueued %s", got)
	}
	if got := b.looked(5)[4]; got != "broken.example.com/0" {
		t.Errorf("then walked %s", got)
	}
}

// No more objects are walked in a second than may be, whether they are of one
// kind or of many.
func TestRate(t *testing.T) {
	t.Parallel()
	many := page{}
	for i := range 100 {
		many[fmt.Sprint("uid-", i)] = solid
	}
	for name, pages := range map[string]map[string][]page{
		"one kind":   {"kinds.coppice.dev": {{}}, "pods": {many, many, many, many, {}}},
		"many kinds": {"kinds.coppice.dev": {{}}, "pods": {many}, "services": {many}, "secrets": {many}, "events": {many}, "nodes": {{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := [][]string{{"pods"}}
			if len(pages) > 2 {
				kinds = [][]string{{"pods", "services", "secrets", "events", "nodes"}}
			}
			b := newScanned(t, kinds, pages)
			b.serve()
			begun := time.Now()
			b.run(func(c *scanner.Config) { c.Rate = 1000 })
			b.looked(6)
			if took := time.Since(begun); took < 400*time.Millisecond {
				t.Errorf("400 objects were walked in %v, at 1000 a second", took)
			}
		})
	}
}

// A17: work that has been pending for long is published again, at intervals. The scanner is ready
// when a writer answers.
func TestRepublish(t *testing.T) {
	t.Parallel()
	b := newEmpty(t)
	s := b.run(func(c *scanner.Config) { c.RepublishInterval, c.RepublishAge = time.Millisecond, 1500*time.Millisecond })
	if s.Ready() == nil {
		t.Error("ready without a graph service")
	}
	b.serve()
	b.WaitFor("several republishes", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.republishes) > 3
	})
	b.WaitUntilReady(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := b.republishes[0].GetMinAgeMilliseconds(); age != 1500 {
		t.Errorf("asked for pending work for %d ms", age)
	}
}

// Walks are repeated.
func TestWalksAgain(t *testing.T) {
	t.Parallel()
	b := newEmpty(t)
	b.serve().run(func(c *scanner.Config) { c.Interval = time.Millisecond })
	b.looked(3)
}

// A scanner that starts before the graph service counts no errors for it.
func TestStartIsNoError(t *testing.T) {
	t.Parallel()
	b := newScanned(t, [][]string{{"pods"}}, map[string][]page{"kinds.coppice.dev": {{}}, "pods": {{}}})
	s := b.run(nil)
	b.WaitFor("the scanner to have asked in vain", func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), "no graph service answers")
	})
	b.serve()
	b.WaitUntilReady(s)
	b.looked(2)
	if n := b.metric("coppice_scanner_errors_total"); n > 0 {
		t.Errorf("%v errors", n)
	}
}

// A request that was sent before the first reply of the graph service counts no error, although
// it fails after that reply.
func TestEarlyRequestIsNoError(t *testing.T) {
	t.Parallel()
	b := newEmpty(t)
	asked, ready := make(chan struct{}), make(chan struct{})
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-b.Ctx.Done():
		}
	}
	b.onRepublish = func() { wait(asked) }
	var first sync.Once
	b.onKinds = func() (refusal *lifecycle.Error) {
		first.Do(func() {
			close(asked)
			wait(ready)
			refusal = &lifecycle.Error{Reason: api.ErrServiceUnavailable}
		})
		return refusal
	}
	s := b.serve().run(nil)
	b.WaitUntilReady(s)
	close(ready)
	b.looked(1)
	if n := b.metric("coppice_scanner_errors_total"); n > 0 {
		t.Errorf("%v errors", n)
	}
}
