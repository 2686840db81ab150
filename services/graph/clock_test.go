package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
)

// stepped is a wall clock that a test steps.
type stepped struct{ by atomic.Int64 }

func (s *stepped) step(by time.Duration) { s.by.Store(int64(by)) }
func (s *stepped) use(c *graph.Config)   { c.Now = s.now }
func (s *stepped) now() time.Time        { return time.Now().Add(time.Duration(s.by.Load())) }
func (s *stepped) ahead(c *graph.Config) { c.Now, c.MaxClockSkew = s.now, 48*time.Hour }
func created(o *client.Object) time.Time {
	return o.GetMetadata().GetCreationTimestamp().AsTime()
}
func nearNow(t time.Time) bool { return time.Since(t).Abs() < testkit.Timeout }

// A writer whose clock is a day off commits nothing, and says why: commands fail as
// retryable, and so does readiness. When the clock is right it goes on.
func TestClockIsWrong(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			server := testkit.NATS(t)
			var clock stepped
			s := serve(t, graphConn(t, server), t.TempDir(), clock.use).writing(ctx)
			c := application(t, server)
			create(ctx, t, c, "before")
			clock.step(by)
			refuses(ctx, t, c, s, map[bool]string{true: "ahead of", false: "behind"}[by > 0])
			clock.step(0)
			s.writing(ctx)
			o, err := c.Resource(configMaps, "a").Create(ctx, configMap("behind"))
			if err != nil {
				t.Fatal(err)
			}
			if !nearNow(created(o)) {
				t.Errorf("created at %v", created(o))
			}
			has(ctx, t, c, "before", "behind")
			testkit.WaitFor(t, ctx, "the service to be ready", func() bool { return s.Ready() == nil })
		})
	}
}

// refuses waits until a service with a wrong clock is not the writer any more, and its readiness says
// why. It carries out no command meanwhile.
func refuses(ctx context.Context, t *testing.T, c *client.Client, s *service, why string) {
	t.Helper()
	testkit.WaitFor(t, ctx, "a service with a wrong clock not to be the writer", func() bool {
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := c.Resource(configMaps, "a").Create(short, configMap("never"))
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Reason != client.ErrServiceUnavailable && refused.Reason != client.ErrTimeout {
			t.Fatalf("a command with a wrong clock: %v, want a retryable error", err)
		}
		return !s.Writing()
	})
	testkit.WaitFor(t, ctx, fmt.Sprintf("readiness to say %q", why), func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), why)
	})
}

// How far the clock may be off is configured. Beyond it the service refuses to commit,
// and names the limit.
func TestMaxClockSkew(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	var clock stepped
	s := serve(t, graphConn(t, server), t.TempDir(), func(c *graph.Config) { c.Now, c.MaxClockSkew = clock.now, time.Minute }).writing(ctx)
	c := application(t, server)
	clock.step(30 * time.Second)
	create(ctx, t, c, "within")
	clock.step(90 * time.Second)
	refuses(ctx, t, c, s, "more than 1m0s; synchronize both")
	clock.step(30 * time.Second)
	s.writing(ctx)
	create(ctx, t, c, "within-again")
	has(ctx, t, c, "within", "within-again")
}

// When the writer's clock is wrong a process takes over whose clock is right.
func TestClockFailover(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	var clock stepped
	first := serve(t, graphConn(t, server), t.TempDir(), clock.use).writing(ctx)
	second := serve(t, graphConn(t, server), t.TempDir(), nil)
	testkit.WaitFor(t, ctx, "the second service to stand by", func() bool { return second.Ready() == nil })
	clock.step(24 * time.Hour)
	o, err := application(t, server).Resource(configMaps, "a").Create(ctx, configMap("a"))
	if err != nil {
		t.Fatal(err)
	}
	if !nearNow(created(o)) {
		t.Errorf("created at %v", created(o))
	}
	testkit.WaitFor(t, ctx, "the second alone to write", func() bool { return !first.Writing() && second.Writing() })
}

// A log whose newest commit is a day later than all clocks does not stop the time of
// its realm, which grace periods derive from.
func TestLogIsAhead(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	dir := t.TempDir()
	var clock stepped
	clock.step(24 * time.Hour)
	s := serve(t, graphConn(t, server), dir, clock.ahead).writing(ctx)
	c := application(t, server)
	if err := settled(func() error {
		_, err := c.Resource(configMaps, "a").Create(ctx, configMap("tomorrow"))
		return err
	}); err != nil && !errors.Is(err, client.ErrAlreadyExists) {
		t.Fatal(err)
	}
	s.stop(ctx)
	serve(t, graphConn(t, server), dir, nil).writing(ctx)
	n := 0
	second := func(what string, last time.Time) time.Time { // that a creation time, in whole seconds, comes to
		t.Helper()
		var at time.Time
		testkit.WaitFor(t, ctx, what, func() bool {
			o, err := c.Resource(configMaps, "a").Create(ctx, configMap(fmt.Sprint("o-", n)))
			if err != nil {
				t.Fatal(err)
			}
			n++
			at = created(o)
			return !at.Equal(last)
		})
		return at
	}
	at := second("the first creation time", time.Time{})
	at = second("time to go on", at)
	second("time to go on again", at)
}
