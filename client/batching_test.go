package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Concurrent creations have the results of consecutive ones: each caller gets the complete
// object, or the refusal of its own object.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range map[string]*client.Client{
		"coalesced": s.Client, "single": client.New(s.Conn(), client.WithoutBatching()),
	} {
		objects := c.Resource(configMaps, name)
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			created = map[string]int{}
		)
		for caller := range 64 {
			wg.Go(func() {
				for i := range 10 {
					name := fmt.Sprintf("x-%d-%d", caller/2, i) // two callers want each
					var reply client.Reply
					r, err := objects.Create(s.Ctx, &coppicev1.Object{
						Metadata: &coppicev1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
						Spec:     fmt.Appendf(nil, `{"n":%d}`, i),
					}, client.ReplyInto(&reply))
					var e *client.Error
					switch {
					case err == nil:
						if got, err := objects.Get(s.Ctx, name); err != nil || !proto.Equal(got, r) || !reply.Created || reply.Revision < r.GetMetadata().GetResourceVersion() {
							t.Errorf("%s: the reply is %+v with\n%v\nand the object (%v)\n%v", name, reply, r, err, got)
						}
						mu.Lock()
						created[name]++
						mu.Unlock()
					case !errors.As(err, &e) || e.Reason != client.ErrAlreadyExists || e.Index != 0 || !strings.Contains(e.Message, name):
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		wg.Wait()
		if len(created) != 320 {
			t.Errorf("%s: %d of 320 were created", name, len(created))
		}
		for object, n := range created {
			if n != 1 {
				t.Errorf("%s: %s was created %d times", name, object, n)
			}
		}
		s.WaitFor("the end of the writes", c.Idle)
	}
}

// graph replaces the graph service, and replies when the test asks it to.
type graph struct {
	t        *testing.T
	ctx      context.Context
	asks     *nats.Conn
	requests chan *nats.Msg
}

func startGraph(t *testing.T) *graph {
	t.Helper()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), MaxPayload: 1 << 16})
	g := &graph{t: t, ctx: testkit.Context(t), asks: testkit.Conn(t, server, bus.LocalUser), requests: make(chan *nats.Msg, 100)}
	nc := testkit.Conn(t, server, bus.RoleAnswers)
	answersTo(t, nc, bus.VerbCreate, func(m *nats.Msg) { g.requests <- m })
	return g
}

// request is the next request, and what is in it.
func (g *graph) request() (*nats.Msg, *coppicev1.ObjectsRequest) {
	g.t.Helper()
	m := testkit.Receive(g.t, g.ctx, "a request", g.requests)
	r := &coppicev1.ObjectsRequest{}
	must.Succeed(g.t, proto.Unmarshal(m.Data, r))
	return m, r
}

// answer answers a request: objects whose name says so are refused.
func (g *graph) answer(m *nats.Msg, r *coppicev1.ObjectsRequest) {
	g.t.Helper()
	reply := &coppicev1.ObjectsReply{}
	for i, o := range r.GetObjects() {
		result := &coppicev1.Result{Code: 201, Object: o}
		if strings.HasPrefix(o.GetMetadata().GetName(), "refused") {
			e := &lifecycle.Error{Reason: client.ErrInvalid, Message: o.GetMetadata().GetName(), Index: i}
			result = &coppicev1.Result{Code: e.Reason.Code(), Error: e.Status()}
		}
		reply.Results = append(reply.Results, result)
	}
	data, err := proto.Marshal(reply)
	if err == nil {
		err = m.Respond(data)
	}
	must.Succeed(g.t, err)
}

// create creates an object, and returns a channel that receives the result.
func (g *graph) create(ctx context.Context, c *client.Client, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		r, err := c.Resource(configMaps, "a").Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
		if err == nil && r.GetMetadata().GetName() != name {
			err = fmt.Errorf("%s was answered with %v", name, r)
		}
		done <- err
	}()
	return done
}

func (g *graph) done(what string, done <-chan error) error {
	g.t.Helper()
	return testkit.Receive(g.t, g.ctx, what, done)
}

// flying has four callers send a request each, which have no reply yet.
func (g *graph) flying(c *client.Client) (answer func()) {
	g.t.Helper()
	var callers []<-chan error
	var messages []*nats.Msg
	var requests []*coppicev1.ObjectsRequest
	for i := range 4 {
		callers = append(callers, g.create(g.ctx, c, fmt.Sprint("alone-", i)))
		m, r := g.request()
		if len(r.GetObjects()) != 1 || r.GetReturnObjects() {
			g.t.Fatalf("the request of one caller is %v", r)
		}
		messages, requests = append(messages, m), append(requests, r)
	}
	return func() {
		g.t.Helper()
		for i, m := range messages {
			g.answer(m, requests[i])
		}
		for i, done := range callers {
			if err := g.done("one of the first", done); err != nil {
				g.t.Errorf("alone-%d: %v", i, err)
			}
		}
	}
}

func (g *graph) waiting(c *client.Client, n int) {
	g.t.Helper()
	testkit.WaitFor(g.t, g.ctx, fmt.Sprint(n, " that wait"), func() bool { return c.Waiting() == n })
}

// While four requests wait for replies, further objects share the next request, up to the
// size of a message. Each caller gets its own result.
func TestCoalesces(t *testing.T) {
	t.Parallel()
	g := startGraph(t)
	c := client.New(g.asks, client.WithTimeout(testkit.Timeout)).WaitLong()
	answer := g.flying(c)
	const fit = 16 // into messages of 64 KiB
	names := []string{"refused-0"}
	for i := range fit {
		names = append(names, fmt.Sprint("together-", i))
	}
	var callers []<-chan error
	for i, name := range names {
		callers = append(callers, g.create(g.ctx, c, name))
		g.waiting(c, i+1)
	}
	answer()
	carried := map[int][]string{} // by how many
	for range 2 {
		m, r := g.request()
		if !r.GetReturnObjects() || r.GetAtomic() || m.Header.Get(bus.HeaderCommand) == "" {
			t.Errorf("a request is whole: %t, atomic: %t, %v", r.GetReturnObjects(), r.GetAtomic(), m.Header)
		}
		for _, o := range r.GetObjects() {
			carried[len(r.GetObjects())] = append(carried[len(r.GetObjects())], o.GetMetadata().GetName())
		}
		g.answer(m, r)
	}
	if !slices.Equal(carried[fit], names[:fit]) || !slices.Equal(carried[1], names[fit:]) {
		t.Errorf("carried %v", carried)
	}
	for i, done := range callers {
		err := g.done(names[i], done)
		var e *client.Error
		if i == 0 && (!errors.As(err, &e) || e.Message != names[0] || e.Reason != client.ErrInvalid) || i > 0 && err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
	testkit.WaitFor(t, g.ctx, "the end of the writes", c.Idle)
}

// A caller whose context ends does not affect the other objects of its request. An object
// that was not sent yet is not sent.
func TestLeave(t *testing.T) {
	t.Parallel()
	g := startGraph(t)
	c := client.New(g.asks, client.WithTimeout(testkit.Timeout)).WaitLong()
	answer := g.flying(c)
	brief, cancel := context.WithTimeout(g.ctx, 10*time.Millisecond)
	defer cancel()
	err := g.done("a caller whose context ends", g.create(brief, c, "unsent"))
	if !errors.Is(err, client.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "was not sent") {
		t.Errorf("a caller whose context ends: %v", err)
	}
	g.waiting(c, 0)
	leaving, leave := context.WithCancel(g.ctx)
	left := g.create(leaving, c, "left")
	g.waiting(c, 1)
	stays := g.create(g.ctx, c, "stays")
	g.waiting(c, 2)
	answer()
	m, r := g.request()
	if n := len(r.GetObjects()); n != 2 {
		t.Errorf("%d objects go together, want 2", n)
	}
	leave()
	if err := g.done("the caller that leaves", left); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that leaves: %v", err)
	}
	g.answer(m, r)
	if err := g.done("the caller that stays", stays); err != nil {
		t.Errorf("the caller that stays: %v", err)
	}
	testkit.WaitFor(t, g.ctx, "the end of the writes", c.Idle)
}

// deadline is a context whose deadline comes when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// If the context expires between retries, the error has the last refusal.
func TestLeaveRetried(t *testing.T) {
	t.Parallel()
	g := startGraph(t)
	c := client.New(g.asks, client.WithTimeout(testkit.Timeout)).WaitLong()
	answer := g.flying(c)
	ctx := deadline{g.ctx, make(chan struct{})}
	leaves := g.create(ctx, c, "leaves")
	g.waiting(c, 1)
	stays := g.create(g.ctx, c, "stays")
	g.waiting(c, 2)
	answer()
	m, _ := g.request()
	refusal := &nats.Msg{Header: nats.Header{
		micro.ErrorCodeHeader: []string{"429"}, micro.ErrorHeader: []string{"too much"}, bus.HeaderReason: []string{string(client.ErrTooManyRequests)},
	}}
	must.Succeed(t, m.RespondMsg(refusal))
	m, r := g.request()
	close(ctx.passed)
	if err := g.done("the caller that leaves", leaves); !errors.Is(err, client.ErrTooManyRequests) {
		t.Errorf("the caller that leaves: %v", err)
	}
	g.answer(m, r)
	if err := g.done("the caller that stays", stays); err != nil {
		t.Errorf("the caller that stays: %v", err)
	}
}

// A request is canceled when no caller waits for it.
func TestAllLeave(t *testing.T) {
	t.Parallel()
	g := startGraph(t)
	c := client.New(g.asks, client.WithTimeout(testkit.Timeout)).WaitLong()
	answer := g.flying(c)
	leaving, leave := context.WithCancel(g.ctx)
	both := []<-chan error{g.create(leaving, c, "a"), g.create(leaving, c, "b")}
	g.waiting(c, 2)
	answer()
	g.request()
	leave()
	for _, done := range both {
		if err := g.done("one of both", done); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	testkit.WaitFor(t, g.ctx, "the end of the request", c.Idle)
}

// If the requests in flight have no reply in time, the objects that wait are sent.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	g := startGraph(t)
	c := client.New(g.asks, client.WithTimeout(testkit.Timeout))
	answer := g.flying(c)
	late := g.create(g.ctx, c, "late")
	m, r := g.request()
	if len(r.GetObjects()) != 1 || r.GetObjects()[0].GetMetadata().GetName() != "late" || r.GetReturnObjects() {
		t.Errorf("what waited sent %v", r)
	}
	g.answer(m, r)
	if err := g.done("what waited", late); err != nil {
		t.Error(err)
	}
	answer()
	testkit.WaitFor(t, g.ctx, "the end of the writes", c.Idle)
}

// A caller that leaves a request after a refusal gets the refusal, and an actor that may
// not create gets ErrForbidden, in batches too.
func TestWhyNotBatched(t *testing.T) {
	t.Parallel()
	const creators = 32
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()})
	for user, reason := range map[string]client.Reason{bus.LocalUser: client.ErrServiceUnavailable, bus.RoleProcessor: client.ErrForbidden} {
		ctx := deadline{testkit.Context(t), make(chan struct{})}
		var refusals, got atomic.Int32
		objects := client.New(testkit.Conn(t, server, user), client.WithTimeout(testkit.Timeout), client.WithOnError(func(error) {
			if refusals.Add(1) == 3*creators {
				close(ctx.passed)
			}
		})).Resource(configMaps, "a")
		var wg sync.WaitGroup
		for i := range creators {
			wg.Go(func() {
				_, err := objects.Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprint("x-", i)}})
				switch {
				case errors.Is(err, reason):
					got.Add(1)
				case reason == client.ErrServiceUnavailable && errors.Is(err, client.ErrTimeout): // it left during an attempt
				default:
					t.Errorf("as %s: %v, want %s", user, err, reason)
				}
			})
		}
		wg.Wait()
		if got.Load() == 0 {
			t.Errorf("as %s: no caller gets %s", user, reason)
		}
	}
}

// WithoutBatching sends each object in its own request, however many are in flight.
func TestApart(t *testing.T) {
	t.Parallel()
	g := startGraph(t)
	c := client.New(g.asks, client.WithoutBatching(), client.WithTimeout(testkit.Timeout))
	var callers []<-chan error
	for i := range 10 {
		callers = append(callers, g.create(g.ctx, c, fmt.Sprint("single-", i)))
	}
	var answers []func()
	for range callers {
		m, r := g.request()
		if len(r.GetObjects()) != 1 {
			t.Errorf("%d objects in a request", len(r.GetObjects()))
		}
		answers = append(answers, func() { g.answer(m, r) })
	}
	for _, answer := range answers {
		answer()
	}
	for i, done := range callers {
		if err := g.done("the answer", done); err != nil {
			t.Errorf("single-%d: %v", i, err)
		}
	}
}
