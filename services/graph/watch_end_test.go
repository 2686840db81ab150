package graph_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
)

// The reply to a watch ends when its realm closes: with the reason, and with an empty
// message, like the replies to all verbs that are answered with many messages. So do a
// refusal, and a page of the objects.
func TestWatchReplyEnds(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	registry := prometheus.NewRegistry()
	s := n.serve(t.TempDir(), func(c *graph.Config) {
		c.Registry, c.Heartbeat = registry, 20*time.Millisecond
	}).writing()
	n.create("a")
	nc := n.Conn(bus.RoleReader)
	ask := func(plural string, r *coppicev1.WatchRequest) *nats.Subscription {
		t.Helper()
		sub, err := nc.SubscribeSync(nc.NewInbox())
		must.Succeed(t, err)
		at := bus.API{Realm: realm, Actor: bus.RoleReader, Verb: bus.VerbWatch, Plural: plural}.Subject()
		data, err := rpc.Encode(r)
		if err == nil {
			err = nc.PublishMsg(&nats.Msg{Subject: at, Reply: sub.Subject, Header: rpc.Header(at, nil), Data: data})
		}
		must.Succeed(t, err)
		return sub
	}
	// rest returns the messages of a reply until its end.
	rest := func(sub *nats.Subscription) (all []*nats.Msg) {
		t.Helper()
		for {
			m, err := sub.NextMsg(testkit.Timeout)
			must.Succeed(t, err)
			if len(m.Data) == 0 && len(m.Header) == 0 {
				return all
			}
			all = append(all, m)
		}
	}
	if got := rest(ask("nothings", &coppicev1.WatchRequest{})); len(got) != 1 || rpc.Refusal(got[0]) == nil {
		t.Errorf("a refusal has %d messages", len(got))
	}
	if got := rest(ask("configmaps", &coppicev1.WatchRequest{Page: true})); len(got) != 1 || rpc.Refusal(got[0]) != nil {
		t.Errorf("a page has %d messages", len(got))
	}
	watch := ask("configmaps", &coppicev1.WatchRequest{ChangesOnly: true})
	n.WaitFor("the watch", func() bool { return metric(t, registry, "coppice_graph_watches") == 1 })
	s.Stop()
	got := rest(watch)
	var last coppicev1.WatchBatch
	if len(got) == 0 || proto.Unmarshal(got[len(got)-1].Data, &last) != nil || last.GetError().GetReason() != "ServiceUnavailable" {
		t.Errorf("the watch ends after %d messages with %+v", len(got), &last)
	}
	if open := metric(t, registry, "coppice_graph_watches"); open != 0 {
		t.Errorf("%v watches are open", open)
	}
}
