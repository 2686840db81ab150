package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph"
)

// clock is a wall clock that a test moves.
type clock struct{ testkit.Clock }

func (c *clock) use(g *graph.Config)   { g.Now = c.Now }
func (c *clock) ahead(g *graph.Config) { g.Now, g.MaxClockSkew = c.Now, 48*time.Hour }

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
			server := newInstallation(t)
			var clock clock
			s := server.serve(t.TempDir(), clock.use).writing()
			c := server.application()
			server.create("before")
			clock.Set(by)
			refuses(server.Ctx, t, c, s, map[bool]string{true: "ahead of", false: "behind"}[by > 0])
			clock.Set(0)
			s.writing()
			o := put(server.Ctx, t, c, configMap("behind"))
			if !nearNow(created(o)) {
				t.Errorf("created at %v", created(o))
			}
			server.has("before", "behind")
			server.WaitFor("the service to be ready", func() bool { return s.Ready() == nil })
		})
	}
}

// refuses waits until a service with a wrong clock is not the writer any more, and its readiness says
// why. It carries out no command meanwhile.
func refuses(ctx context.Context, tb testing.TB, c *client.Client, s *service, why string) {
	tb.Helper()
	testkit.WaitFor(tb, ctx, "a service with a wrong clock not to be the writer", func() bool {
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := c.Resource(configMaps, "a").Create(short, configMap("never"))
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Reason != client.ErrServiceUnavailable && refused.Reason != client.ErrTimeout {
			tb.Fatalf("a command with a wrong clock: %v, want a retryable error", err)
		}
		return !s.Writing()
	})
	testkit.WaitFor(tb, ctx, fmt.Sprintf("readiness to say %q", why), func() bool {
		err := s.Ready()
		return err != nil && strings.Contains(err.Error(), why)
	})
}

// How far the clock may be off is configured. Beyond it the service refuses to commit,
// and names the limit.
func TestMaxClockSkew(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	var clock clock
	s := server.serve(t.TempDir(), func(c *graph.Config) { c.Now, c.MaxClockSkew = clock.Now, time.Minute }).writing()
	c := server.application()
	clock.Set(30 * time.Second)
	server.create("within")
	clock.Set(90 * time.Second)
	refuses(server.Ctx, t, c, s, "more than 1m0s; synchronize both")
	clock.Set(30 * time.Second)
	s.writing()
	server.create("within-again")
	server.has("within", "within-again")
}

// When the writer's clock is wrong a process takes over whose clock is right.
func TestClockFailover(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	var clock clock
	first := server.serve(t.TempDir(), clock.use).writing()
	second := server.serve(t.TempDir(), nil)
	server.WaitFor("the second service to stand by", func() bool { return second.Ready() == nil })
	clock.Set(24 * time.Hour)
	o := put(server.Ctx, t, server.application(), configMap("a"))
	if !nearNow(created(o)) {
		t.Errorf("created at %v", created(o))
	}
	server.WaitFor("the second alone to write", func() bool { return !first.Writing() && second.Writing() })
}

// A log whose newest commit is a day later than all clocks does not stop the time of
// its realm, which grace periods derive from.
func TestLogIsAhead(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	dir := t.TempDir()
	var clock clock
	clock.Set(24 * time.Hour)
	s := server.serve(dir, clock.ahead).writing()
	c := server.application()
	if err := settled(func() error {
		_, err := c.Resource(configMaps, "a").Create(server.Ctx, configMap("tomorrow"))
		return err
	}); err != nil && !errors.Is(err, client.ErrAlreadyExists) {
		t.Fatal(err)
	}
	s.Stop()
	server.serve(dir, nil).writing()
	n := 0
	second := func(what string, last time.Time) time.Time { // that a creation time, in whole seconds, comes to
		t.Helper()
		var at time.Time
		server.WaitFor(what, func() bool {
			o := put(server.Ctx, t, c, configMap(fmt.Sprint("o-", n)))
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
