// Package coppicetest runs a realm inside a test: an embedded NATS server and all
// services of Coppice, with real persistence and the real collector.
//
//	func TestController(t *testing.T) {
//		c := coppicetest.Start(t)
//		runController(c)
//	}
//
// It is for tests of programs that use package client. A test that does not need
// concurrency, restarts or the log runs faster with client/fake.
package coppicetest

import (
	"context"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/allinone"
)

// startTimeout is the longest time that Start waits for the realm.
const startTimeout = 3 * time.Minute

// Start starts the realm "default" in a temporary directory, waits until it serves
// requests, and returns a client for it. The realm listens on no port; it stops, and its
// data is removed, when the test ends. Tests that run in parallel have a realm each.
//
// opts are the options of the client. Client.Conn is a connection with which further
// clients can be made, such as one for each actor.
func Start(tb testing.TB, opts ...client.Option) *client.Client {
	tb.Helper()
	// The realm must outlive the test's context, so that cleanup functions can use it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), startTimeout)
	defer cancel()
	s, err := allinone.Start(context.WithoutCancel(ctx), allinone.Config{Dir: tb.TempDir()})
	if err != nil {
		tb.Fatalf("start a realm: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Errorf("stop the realm: %v", err)
		}
	})
	if err := s.Await(ctx); err != nil {
		tb.Fatalf("start a realm: %v", err)
	}
	nc, err := s.Conn(bus.LocalUser)
	if err != nil {
		tb.Fatalf("connect to the realm: %v", err)
	}
	return client.New(nc, opts...)
}
