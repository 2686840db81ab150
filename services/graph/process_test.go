package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// Four realms of a process have twice as many watches as one may have, not four times as many. Each
// realm gets some; the refusal names the process. Realms that stop release what they have.
func TestSharesOfAProcess(t *testing.T) {
	t.Parallel()
	server := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(bus.AnyRealm)})
	realms := []string{"one", "two", "three", "four"}
	const most = 8 // of one realm
	s := server.serve(t.TempDir(), func(c *graph.Config) {
		c.Realms, c.Watch = realms, watch.Limits{Watches: most, PerActor: most}
	}).writing()
	nc := server.Conn(bus.RoleApplication)
	// open returns why a watch was refused, "" if it was not.
	open := func(realm string) (why string) {
		t.Helper()
		subject := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: bus.VerbWatch, Plural: "configmaps", Namespace: "a"}.Subject()
		request, err := rpc.Encode(&coppicev1.WatchRequest{})
		must.Succeed(t, err)
		first, err := nc.SubscribeSync(nc.NewInbox())
		must.Succeed(t, err)
		must.Succeed(t, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: first.Subject, Header: rpc.Header(subject, nil), Data: request}))
		m, err := first.NextMsg(testkit.Timeout)
		must.Succeed(t, err)
		if why = m.Header.Get(micro.ErrorHeader); why != "" {
			return m.Header.Get(bus.HeaderReason) + ": " + why
		}
		return ""
	}
	for i, want := range []int{most, 4, 2, 1} {
		opened, why := 0, ""
		for why = open(realms[i]); why == ""; why = open(realms[i]) {
			opened++
		}
		says := "this process has "
		if i == 0 {
			says = fmt.Sprintf("has %d watches open at this replica", most)
		}
		if opened != want || !strings.HasPrefix(why, "TooManyRequests: ") || !strings.Contains(why, says) {
			t.Errorf("realm %s gets %d watches and then %q; want %d, and %q", realms[i], opened, why, want, says)
		}
	}
	for _, name := range realms {
		c := client.New(nc, client.WithActor(bus.RoleApplication), client.WithRealm(name))
		create(server.Ctx, t, c, "a", "b")
	}
	server.WaitFor("the process to count 15 watches and 8 changes", func() bool {
		used, _ := s.Taken() // a command is answered before its change is kept
		return used.Watches == 15 && used.Changes == 8
	})
	operator := server.as(bus.RoleOperator).Operations()
	if _, err := operator.DeleteRealm(server.Ctx, "one", client.WithoutArchive(true)); err != nil {
		t.Fatal(err)
	}
	server.WaitFor("the realm to release what it has", func() bool {
		used, _ := s.Taken()
		return used.Watches == 7 && used.Changes == 6
	})
	if why := open("four"); why != "" {
		t.Errorf("refused although a realm has released its watches: %s", why)
	}
	s.Stop()
	if used, places := s.Taken(); used != (watch.Usage{}) || places != 0 {
		t.Errorf("a process that has stopped counts %+v and %d places of requests", used, places)
	}
}
