package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// pair runs two processes whose leaders stop only when they are let go.
type pair struct {
	*world
	net  [2]*network
	stop [2]context.CancelFunc
	let  [2]chan struct{}
	ctx  [2]context.Context // of the terms
	done [2]chan error
}

// newPair returns a pair of which the first leads. clock is that of the first.
func newPair(t *testing.T, clock func(real func() time.Duration) func() time.Duration) *pair {
	t.Helper()
	p := &pair{world: newWorld(1)}
	for i, name := range []string{"first", "second"} {
		p.net[i], p.let[i], p.done[i] = &network{}, make(chan struct{}), make(chan error, 1)
		c := p.config(name, p.net[i], 1)
		if i == 0 && clock != nil {
			c.Clock = clock(c.Clock)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p.stop[i] = cancel
		lead := p.lead(name, 0)
		go func() {
			p.done[i] <- Run(ctx, c, func(ctx context.Context) error {
				p.mu.Lock()
				p.ctx[i] = ctx
				p.mu.Unlock()
				err := lead(ctx)
				p.mu.Lock()
				p.leading[name] = true
				p.mu.Unlock()
				<-p.let[i]
				p.mu.Lock()
				delete(p.leading, name)
				p.mu.Unlock()
				return err
			})
		}()
		synctest.Wait()
	}
	p.leads(t, "first")
	return p
}

func (p *pair) leads(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if names, _ := p.leaders(); fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("after %v: %v lead, want %v", time.Since(p.began), names, want)
	}
}

// end ends both.
func (p *pair) end(t *testing.T) {
	t.Helper()
	for i := range p.stop {
		p.stop[i]()
		p.net[i].set(func(n *network) { n.partitioned = false })
		select {
		case <-p.let[i]:
		default:
			close(p.let[i])
		}
		if err := <-p.done[i]; err != nil {
			t.Error(err)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.stop[0]()
		pass(10 * ttl) // its workers have not returned: it keeps the lease
		p.leads(t, "first")
		close(p.let[0])
		pass(longestLook) // the lease is released: the second need not wait for the ttl
		p.leads(t, "second")
		p.end(t)
	})
}

func TestCrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		pass(ttl/renewals + time.Millisecond) // a renewal
		p.net[0].set(func(n *network) { n.partitioned = true })
		pass(part(ttl, ending-0.2))
		close(p.let[0])
		if p.ctx[0].Err() != nil {
			t.Error("the term ended early")
		}
		pass(part(ttl, 0.2))
		p.leads(t)
		if err := context.Cause(p.ctx[0]); !errors.Is(err, ErrLost) {
			t.Errorf("the cause is %v", err)
		}
		pass(part(ttl, silence-ending) - time.Second)
		p.leads(t)
		pass(2 * time.Second)
		p.leads(t, "second")
		p.end(t)
	})
}

// A leader that does not stop in time, and cannot reach NATS, is reported.
func TestOverstays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.net[0].set(func(n *network) { n.partitioned = true })
		pass(2 * ttl)
		if names, _ := p.leaders(); len(names) != 2 {
			t.Errorf("%v lead", names)
		}
		reported := 0
		p.mu.Lock()
		for _, err := range p.errors {
			if !errors.Is(err, errUnreachable) && !errors.Is(err, ErrLost) {
				reported++
			}
		}
		p.mu.Unlock()
		if reported != 1 {
			t.Errorf("reported %d times: %v", reported, p.errors)
		}
		p.end(t)
	})
}

// A term that was over by time keeps its lease, if NATS can be reached again, until its workers have returned. Then
// the process competes again, and need not wait for its own lease.
func TestOverButReachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, nil)
		p.net[0].set(func(n *network) { n.partitioned = true })
		pass(part(ttl, ending))
		p.net[0].set(func(n *network) { n.partitioned = false })
		pass(10 * ttl)
		p.leads(t, "first")
		if p.ctx[0].Err() == nil {
			t.Error("the term goes on after it was over")
		}
		close(p.let[0])
		pass(longestLook)
		if names, terms := p.leaders(); len(names) != 1 || terms != 2 {
			t.Errorf("%v lead, after %d terms", names, terms)
		}
		p.end(t)
	})
}

// After a stop of the process or a suspension of the machine, the context of the term has ended before a timer runs.
func TestSuspended(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]func(term, derived context.Context) bool{
		"Err":   func(term, _ context.Context) bool { return term.Err() != nil },
		"Check": func(_, derived context.Context) bool { return errors.Is(Check(derived), ErrLost) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				p := newPair(t, func(real func() time.Duration) func() time.Duration {
					return func() time.Duration { return real() + time.Duration(ahead.Load()) }
				})
				derived, cancel := context.WithCancel(p.ctx[0])
				defer cancel()
				if ended(p.ctx[0], derived) {
					t.Error("the term ended early")
				}
				ahead.Store(int64(time.Hour))
				if !ended(p.ctx[0], derived) || !errors.Is(context.Cause(derived), ErrLost) {
					t.Errorf("the context goes on: %v", context.Cause(derived))
				}
				if Check(t.Context()) != nil {
					t.Error("a context of no term has ended")
				}
				p.end(t)
			})
		})
	}
}

// A leader relies on a renewal from before it sent it, however late the reply is.
func TestReliesFromSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		c, answered := w.config("a", &network{}, 1), false
		request := c.Request
		c.Request = func(ctx context.Context, q *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
			if answered {
				<-ctx.Done()
				return nil, errUnreachable
			}
			reply, err := request(ctx, q)
			pass(ttl/attempts - 1)
			answered = true
			return reply, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := Run(ctx, c, func(term context.Context) error {
			<-term.Done()
			if d := time.Since(w.began); d > part(ttl, ending)+time.Millisecond {
				t.Errorf("the term ended %v after the request was sent", d)
			}
			cancel()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A candidate waits from the moment at which it received the revision.
func TestWaitsFromReceiving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		w.store.entry, w.store.revision = Entry{Holder: "other", TTL: ttl, Revision: 5}, 5
		c, received := w.config("a", &network{}, 1), time.Duration(0)
		request := c.Request
		c.Request = func(ctx context.Context, q *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
			if d := time.Since(w.began) - received; q.GetRevision() == 5 && d < part(ttl, silence) {
				t.Errorf("it replaces the revision %v after it received it", d)
			}
			if received == 0 {
				pass(ttl/attempts - 1)
				received = time.Since(w.began)
			}
			return request(ctx, q)
		}
		if err := Run(t.Context(), c, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// A process that has lost its lease, and is the only one, leads again as soon as it reaches NATS.
func TestTakesItsOwnLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(1), &network{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, w.config("a", n, 1), w.lead("a", 0)) }()
		pass(time.Second)
		n.set(func(n *network) { n.partitioned = true })
		pass(ttl)
		n.set(func(n *network) { n.partitioned = false })
		pass(2*time.Second + ttl/attempts)
		if names, terms := w.leaders(); len(names) != 1 || terms != 2 {
			t.Errorf("%v lead, after %d terms", names, terms)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Run returns an error of the first request that must not be repeated, and the error of lead.
func TestErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, refused, failed := newWorld(1), errors.New("refused"), errors.New("failed")
		c := w.config("a", &network{}, 1)
		if err := Run(t.Context(), c, func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v", err)
		}
		if w.store.read().Revision != 0 {
			t.Error("the lease was not released")
		}
		c.Request = func(context.Context, *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) { return nil, refused }
		if err := Run(t.Context(), c, w.lead("a", 0)); !errors.Is(err, refused) {
			t.Errorf("%v", err)
		}
	})
}

func TestDecide(t *testing.T) {
	t.Parallel()
	held := Entry{Holder: "a", Revision: 7}
	for _, tc := range []struct {
		name string
		have Entry
		q    *coppicev1.LeaseRequest
		want Action
	}{
		{"asks", held, &coppicev1.LeaseRequest{Revision: 7}, None},
		{"asks for none", Entry{}, &coppicev1.LeaseRequest{}, None},
		{"acquires", Entry{}, &coppicev1.LeaseRequest{Holder: "b"}, Put},
		{"acquires a held one", held, &coppicev1.LeaseRequest{Holder: "b"}, None},
		{"replaces", held, &coppicev1.LeaseRequest{Holder: "b", Revision: 7}, Put},
		{"replaces one that was renewed", held, &coppicev1.LeaseRequest{Holder: "b", Revision: 6}, None},
		{"renews", held, &coppicev1.LeaseRequest{Holder: "a", Revision: 7}, Put},
		{"renews after a reply was lost", held, &coppicev1.LeaseRequest{Holder: "a", Revision: 6}, Put},
		{"renews a released one", Entry{}, &coppicev1.LeaseRequest{Holder: "a", Revision: 7}, None},
		{"renews one that was replaced", Entry{Holder: "b", Revision: 8}, &coppicev1.LeaseRequest{Holder: "a", Revision: 7}, None},
		{"releases", held, &coppicev1.LeaseRequest{Holder: "a", Release: true}, Drop},
		{"releases that of another", held, &coppicev1.LeaseRequest{Holder: "b", Revision: 7, Release: true}, None},
		{"releases none", Entry{}, &coppicev1.LeaseRequest{Holder: "a", Release: true}, None},
		{"a lease that cannot be read", Entry{Revision: 3}, &coppicev1.LeaseRequest{Release: true}, None},
	} {
		if got := Decide(tc.have, tc.q); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
