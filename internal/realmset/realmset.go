// Package realmset runs the work of a service in each realm, and follows the list of realms:
// processors, finalizers and scanners work in realms that are created while they run,
// and stop in those that are deleted.
package realmset

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Config configures Run.
type Config struct {
	// Conn is a connection whose role may publish to the operation bus.OpRealms. Required.
	Conn *nats.Conn
	// Realms are the realms until the list has been read.
	Realms []string
	// Work works in a realm until ctx ends. It returns an error only if waiting does not
	// help; then Run ends. Required.
	Work func(ctx context.Context, realm string) error
	// Ended is called when a realm is no longer in the list, and its work has ended.
	Ended func(realm string)
	// Interval is the time between two looks at the list; 1 s if zero.
	Interval time.Duration
	Log      *slog.Logger
}

// requestTimeout is the time for which a reply is awaited.
const requestTimeout = 5 * time.Second

// Run works in all realms of the list until ctx ends, or until the work in one fails. While
// no graph service replies, it works on in the realms that it knows.
func Run(ctx context.Context, c Config) error {
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ended == nil {
		c.Ended = func(string) {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &set{c: c, fail: cancel, works: map[string]*work{}}
	s.follow(ctx, c.Realms)
	version, reported := "", ""
	for {
		names, now, err := list(ctx, c.Conn, version)
		switch {
		case err == nil:
			if now != version {
				s.follow(ctx, names)
			}
			version, reported = now, ""
		case ctx.Err() == nil && err.Error() != reported:
			reported = err.Error()
			c.Log.Info("waiting for the list of realms", "error", err)
		}
		select {
		case <-ctx.Done():
			s.follow(ctx, nil)
			return s.err
		case <-time.After(c.Interval):
		}
	}
}

// list returns the names of the realms, and the version of the list; no names if that is the
// version of the last reply.
func list(ctx context.Context, nc *nats.Conn, last string) (names []string, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var reply coppicev1.RealmsReply
	subject := bus.InternalSubject(bus.SystemRealm, bus.OpRealms)
	if err := rpc.Call(ctx, nc, subject, nil, &coppicev1.RealmsRequest{Version: last}, &reply); err != nil {
		return nil, "", err
	}
	return reply.GetNames(), reply.GetVersion(), nil
}

// set are the realms in which work is done.
type set struct {
	c     Config
	fail  context.CancelCauseFunc
	works map[string]*work

	mu  sync.Mutex
	err error // of the work that has failed first
}

// work is the work in one realm.
type work struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// follow begins to work in the realms that are added, and ends the work in those that are
// not there any more. It returns when that has ended.
func (s *set) follow(ctx context.Context, names []string) {
	var gone []string
	for name, w := range s.works {
		if !slices.Contains(names, name) {
			w.cancel()
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		<-s.works[name].ended
		delete(s.works, name)
		if ctx.Err() == nil {
			s.c.Ended(name)
		}
	}
	for _, name := range names {
		if s.works[name] == nil {
			s.works[name] = s.begin(ctx, name)
		}
	}
}

func (s *set) begin(ctx context.Context, name string) *work {
	w := &work{ended: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.ended)
		err := s.c.Work(ctx, name)
		if err == nil || ctx.Err() != nil {
			return
		}
		err = fmt.Errorf("realm %s: %w", name, err)
		s.mu.Lock()
		if s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
		s.fail(err)
	}()
	return w
}
