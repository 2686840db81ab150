package trust_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// A watch ends, and its place is free, when its client unsubscribes or closes its
// connection. If the client is in another account, that takes until the reply ends.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	for _, accounts := range []bool{false, true} {
		t.Run(fmt.Sprintf("accounts %t", accounts), func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			r := startWith(t, allinone.Config{Auth: accounts, OneAccount: !accounts, Registry: registry, Graph: func(c *graph.Config) {
				c.Heartbeat = 20 * time.Millisecond
				if accounts { // NATS does not report that the client is gone
					c.ReplyTime = time.Second
				}
			}})
			open := func(want float64) {
				t.Helper()
				r.WaitFor(fmt.Sprintf("%v watches", want), func() bool {
					open, _ := testkit.Metric(t, registry, "coppice_graph_watches")
					return open == want
				})
			}
			watch := func(nc *nats.Conn) *nats.Subscription {
				t.Helper()
				sub, err := nc.SubscribeSync(nc.NewInbox())
				must.Succeed(t, err)
				at := subject(bus.RoleReader, bus.VerbWatch, "secrets", "prod")
				data, err := rpc.Encode(&coppicev1.WatchRequest{ChangesOnly: true})
				must.Succeed(t, err)
				r.publish(nc, at, sub.Subject, rpc.Header(at, nil), data)
				m, err := sub.NextMsg(testkit.Timeout)
				if err == nil {
					err = rpc.Refusal(m)
				}
				must.Succeed(t, err)
				return sub
			}
			nc, other := r.conn(bus.RoleReader), r.conn(bus.RoleReader)
			first, second := watch(nc), watch(nc)
			watch(other)
			if !accounts {
				open(3)
			}
			must.Succeed(t, first.Unsubscribe())
			if !accounts {
				open(2)
			}
			other.Close()
			if !accounts {
				open(1)
			}
			must.Succeed(t, second.Unsubscribe())
			open(0)
		})
	}
}

// If the server ends a watch or a reader of the log from time to time, the client
// continues: every change is delivered once, in order, and existing objects are not
// delivered again.
func TestStreamsAreRenewed(t *testing.T) {
	t.Parallel()
	for _, accounts := range []bool{false, true} {
		t.Run(fmt.Sprintf("accounts %t", accounts), func(t *testing.T) {
			t.Parallel()
			r := startWith(t, allinone.Config{Auth: accounts, OneAccount: !accounts, Graph: func(c *graph.Config) {
				c.Heartbeat, c.ReplyTime = 10*time.Millisecond, 50*time.Millisecond
			}})
			ctx, stop := context.WithCancel(r.Ctx)
			reader := client.New(r.conn(bus.RoleReader), client.WithActor(bus.RoleReader))
			log := reader.Log()
			last, err := log.Last(ctx)
			must.Succeed(t, err)
			next := client.FromSequence(last + 1)
			var wg sync.WaitGroup
			defer func() { stop(); wg.Wait() }()
			retried := client.OnError(func(err error) { t.Logf("asked again: %v", err) })
			synced, events, commits := make(chan struct{}, 100), make(chan string, 100), make(chan uint64, 100)
			wg.Go(func() {
				for e, err := range reader.Resource(secrets, "new").Watch(ctx, retried) {
					switch {
					case err != nil:
						t.Errorf("the watch ended: %v", err)
					case e.Synced:
						synced <- struct{}{}
					case e.Object != nil:
						events <- e.Object.GetMetadata().GetName()
					}
				}
			})
			wg.Go(func() {
				for c, err := range log.Read(ctx, next, client.Follow(true), retried) {
					if err != nil {
						t.Errorf("the log ended: %v", err)
						return
					}
					commits <- c.Sequence
				}
			})
			wg.Go(func() {
				// That a reply is renewed is no error. That one is late is reported.
				interrupted := client.OnError(func(err error) {
					if strings.Contains(err.Error(), "the reply") {
						t.Errorf("the warnings were interrupted: %v", err)
					}
				})
				for _, err := range reader.FollowWarnings(ctx, interrupted) {
					if err != nil {
						t.Errorf("the warnings ended: %v", err)
					}
				}
			})
			testkit.Receive(t, r.Ctx, "the objects", synced)
			begun := time.Now()
			for i := 0; i < 20 || time.Since(begun) < 500*time.Millisecond; i++ {
				name := fmt.Sprint("n", i)
				r.Create(secrets, "new", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
				if got := testkit.Receive(t, r.Ctx, "the creation of "+name, events); got != name {
					t.Fatalf("the watch delivers %s, want %s", got, name)
				}
				last++
				if got := testkit.Receive(t, r.Ctx, fmt.Sprintf("commit %d, after that of %s", last, name), commits); got != last {
					t.Fatalf("commit %d is read, want %d", got, last)
				}
			}
			stop()
			wg.Wait()
			if n := len(synced); n > 0 {
				t.Errorf("the objects were delivered %d times more", n)
			}
		})
	}
}
