package graph_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// What has come in when a service ends is answered or dropped, and does not
// reach for a state that is closed.
func TestStopWithRequestsQueued(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	dir := t.TempDir()
	request, err := proto.Marshal(&coppicev1.GetRequest{Names: []string{"nobody"}})
	if err != nil {
		t.Fatal(err)
	}
	nc := testkit.Conn(t, server, bus.RoleApplication)
	for range 3 {
		s := serve(t, graphConn(t, server), dir, nil).writing(ctx)
		for range 1500 {
			for _, verb := range []string{bus.VerbGet, bus.VerbResolve, bus.VerbWatch, bus.VerbList} {
				subject := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: verb, Plural: "configmaps", Namespace: "a"}.Subject()
				if err := nc.PublishRequest(subject, nc.NewInbox(), request); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		s.stop(ctx)
	}
}

// While requests come in a service ends in order: without a crash, and each
// request is answered or times out.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	dir := t.TempDir()
	for range 3 {
		s := serve(t, graphConn(t, server), dir, nil).writing(ctx)
		load, end := context.WithCancel(ctx)
		done := make(chan struct{})
		requests := make(chan struct{}, 1<<20)
		const clients = 8
		for i := range clients {
			go func() {
				defer func() { done <- struct{}{} }()
				c := client.New(testkit.Conn(t, server, bus.RoleApplication), client.WithActor(bus.RoleApplication), client.WithTimeout(50*time.Millisecond))
				objects := c.Objects(configMaps, "a")
				for n := 0; load.Err() == nil; n++ {
					_, err := objects.Get(load, "nobody")
					switch {
					case errors.Is(err, client.NotFound), errors.Is(err, client.NotReady), errors.Is(err, client.Timeout), errors.Is(err, client.TooManyRequests), load.Err() != nil:
					default:
						t.Errorf("get: %v", err)
					}
					_, _ = objects.Resolve(load, []string{"nobody"}, client.GraphOptions{})
					_, _ = objects.Page(load, client.ListOptions{}, "")
					_, _ = objects.Create(load, configMap(fmt.Sprintf("n-%d-%d", i, n)), client.WriteOptions{})
					requests <- struct{}{}
				}
			}()
		}
		for range 100 {
			testkit.Receive(t, ctx, "requests", requests)
		}
		s.stop(ctx)
		end()
		for range clients {
			testkit.Receive(t, ctx, "a client's end", done)
		}
	}
}
