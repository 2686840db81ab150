package trust_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// No actor can exhaust what others need: each has a share of the watches, of the readers
// of log and warnings, and of the consumers of finalizers and agents. The refusal of more
// is retryable and names the limit. Places of clients that are gone are soon free again.
func TestSharesOfActors(t *testing.T) {
	t.Parallel()
	const watches = 5
	for _, c := range []share{
		{bus.VerbWatch, bus.RoleReader, bus.RoleApplication, watches, &coppicev1.WatchRequest{}},
		{bus.VerbWatchGraph, bus.RoleReader, bus.RoleApplication, watches, &coppicev1.WatchGraphRequest{}},
		{bus.VerbReadLog, bus.RoleReader, bus.RoleOperator, 16, &coppicev1.ReadLogRequest{Follow: true}},
		{bus.VerbReadWarnings, bus.RoleReader, bus.RoleOperator, 16, &coppicev1.ReadWarningsRequest{Follow: true}},
		{bus.VerbConsumeFinalizer, bus.RoleOperator, bus.RoleFinalizer, 64, &coppicev1.ConsumeRequest{}},
	} {
		t.Run(c.verb, func(t *testing.T) {
			t.Parallel()
			// The replies must last until all requests have been answered. On a busy machine that
			// takes longer.
			for life := 4 * time.Second; ; life *= 4 {
				r := startWith(t, allinone.Config{Auth: true, Graph: func(g *graph.Config) {
					g.Watch = watch.Limits{Watches: 2 * watches, PerActor: watches}
					g.ReplyTime = life
				}})
				if c.exhaust(r, life) {
					return
				}
			}
		})
	}
}

// share is what an actor may have of the replies to a verb.
type share struct {
	verb          string
	greedy, other string
	most          int
	request       proto.Message
}

// exhaust checks that an actor can have its share and no more. A reply lasts for life. It returns
// false, and has checked nothing, if a reply has ended too early.
func (c share) exhaust(r *realm, life time.Duration) bool {
	t := r.TB
	t.Helper()
	greedy, other := r.conn(c.greedy), r.conn(c.other)
	subject := func(actor string, i int) string {
		a := bus.API{Realm: bus.DefaultRealm, Actor: actor, Verb: c.verb}
		switch {
		case c.verb == bus.VerbWatch:
			a.Plural, a.Namespace = "secrets", markers
		case actor == bus.RoleFinalizer:
			a.Finalizer = bus.ExampleFinalizer
		case bus.NamesFinalizer(c.verb):
			a.Finalizer = fmt.Sprintf("greedy.example.com/f%d", i)
		}
		return a.Subject()
	}
	var open []*nats.Subscription
	begun := time.Now()
	for i := range c.most {
		m, sub := r.ask(greedy, subject(c.greedy, i), c.request)
		if why := refusal(t, c.verb, m); why != "" {
			t.Fatalf("number %d is refused: %s", i+1, why)
		}
		open = append(open, sub)
	}
	m, _ := r.ask(greedy, subject(c.greedy, c.most), c.request)
	others, _ := r.ask(other, subject(c.other, 0), c.request)
	if c.verb != bus.VerbConsumeFinalizer && time.Since(begun) > life {
		return false
	}
	if why := refusal(t, c.verb, m); !strings.Contains(why, fmt.Sprint(c.most)) || !strings.Contains(why, string(client.ErrTooManyRequests)) {
		t.Errorf("number %d is answered with %q, want a refusal that can be retried and names the limit", c.most+1, why)
	}
	if why := refusal(t, c.verb, others); why != "" {
		t.Errorf("%s is refused: %s", c.other, why)
	}
	if c.verb == bus.VerbConsumeFinalizer {
		return true // consumers stay until they were not used for a day
	}
	for _, sub := range open {
		must.Succeed(t, sub.Unsubscribe())
	}
	r.WaitFor("the share to be free again", func() bool {
		m, sub := r.ask(greedy, subject(c.greedy, 0), c.request)
		_ = sub.Unsubscribe()
		return refusal(t, c.verb, m) == ""
	})
	return true
}

// refusal is the reason and the message of a refusal, empty for another reply. Watches are refused by their first batch.
func refusal(tb testing.TB, verb string, m *nats.Msg) string {
	tb.Helper()
	if why := m.Header.Get(micro.ErrorHeader); why != "" {
		return m.Header.Get(bus.HeaderReason) + ": " + why
	}
	if verb != bus.VerbWatch {
		return ""
	}
	var b coppicev1.WatchBatch
	must.Succeed(tb, proto.Unmarshal(m.Data, &b))
	if b.GetError() == nil {
		return ""
	}
	return b.GetError().GetReason() + ": " + b.GetError().GetMessage()
}

// Watches and readers of the log end from time to time, and the SDK
// goes on without a gap and without a repetition.
func TestStreamsGoOn(t *testing.T) {
	t.Parallel()
	const life = 100 * time.Millisecond
	r := startWith(t, allinone.Config{Auth: true, Graph: func(c *graph.Config) { c.ReplyTime = life }})
	reader := client.New(r.conn(bus.RoleReader), client.WithActor(bus.RoleReader))
	ctx, stop := context.WithCancel(r.Ctx)
	watched, read := make(chan string, 1000), make(chan string, 1000)
	begun := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	last, err := reader.Log().Last(r.Ctx)
	must.Succeed(t, err)
	running.Go(func() {
		for e, err := range reader.Resource(secrets, "shop").Watch(ctx) {
			switch {
			case err != nil && ctx.Err() == nil:
				t.Error(err)
			case e.Synced:
				close(begun)
			case e.Object != nil:
				watched <- e.Object.GetMetadata().GetName()
			}
		}
	})
	running.Go(func() {
		for c, err := range reader.Log().Read(ctx, client.FromSequence(last+1), client.Follow(true)) {
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			for _, e := range client.Events(c.Commit, resourceOf) {
				read <- e.Name
			}
		}
	})
	testkit.Receive(t, r.Ctx, "the watch to begin", begun)
	for i, since := 0, time.Now(); time.Since(since) < 10*life; i++ {
		name := fmt.Sprint("s", i)
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
		r.Create(secrets, "shop", o)
		for what, from := range map[string]<-chan string{"the watch": watched, "the log": read} {
			if got := testkit.Receive(t, r.Ctx, what+" to deliver "+name, from); got != name {
				t.Fatalf("%s delivers %s, want %s", what, got, name)
			}
		}
	}
}

// ask sends a request and returns the first message of the reply. The subscription
// to the others ends with the connection.
func (r *realm) ask(nc *nats.Conn, subject string, request proto.Message) (*nats.Msg, *nats.Subscription) {
	r.TB.Helper()
	data, err := rpc.Encode(request)
	must.Succeed(r.TB, err)
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	must.Succeed(r.TB, err)
	r.publish(nc, subject, inbox, header(subject), data)
	m, err := sub.NextMsg(testkit.Timeout)
	if err != nil {
		r.TB.Fatalf("%s: %v", subject, err)
	}
	return m, sub
}
