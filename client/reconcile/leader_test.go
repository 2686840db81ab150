package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/client/reconcile"
	"github.com/coppice-gc/coppice/internal/election"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// One of two processes works; the other begins with all objects when it has stopped.
func TestLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		created(t, c, deployments, "a", nil)
		first := start(t, c, &recorder{}, reconcile.WithLeader("example.com/web"))
		first.expect("shop/a")
		second := start(t, c, &recorder{}, reconcile.WithLeader("example.com/web"))
		other := start(t, c, &recorder{}, reconcile.WithLeader("example.com/other"))
		second.expect()
		other.expect("shop/a")
		created(t, c, deployments, "b", nil)
		first.expect("shop/b")
		second.expect()
		first.end()
		second.expect("shop/a", "shop/b")
		second.end()
		other.end()
	})
}

// suspendable is a client whose process loses its lease when the clock jumps.
type suspendable struct {
	*fake.Client
	clock   atomic.Int64
	options client.LeaderOptions
}

func (c *suspendable) RunLeader(ctx context.Context, lease string, lead func(context.Context) error, opts ...client.LeaderOption) error {
	for _, o := range opts {
		o.ApplyToLeader(&c.options)
	}
	return election.Run(ctx, election.Config{
		Name: lease, TTL: time.Hour, OnState: func(election.State) {}, OnError: c.options.OnError, Retryable: func(error) bool { return true },
		Clock: func() time.Duration { return time.Duration(c.clock.Load()) },
		Request: func(_ context.Context, q *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
			return &coppicev1.LeaseReply{Held: !q.GetRelease(), Lease: &coppicev1.Lease{Holder: q.GetHolder(), Revision: 1}}, nil
		},
	}, lead)
}

// After a process was suspended for longer than it relies on its lease, no call of Reconcile begins in its old term, although no
// timer has run yet. In its next term it reconciles all objects again.
func TestLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &suspendable{Client: fake.New()}
		for i := range 5 {
			created(t, c, deployments, fmt.Sprint("d", i), nil)
		}
		var mu sync.Mutex
		calls, suspend := []string{}, true
		var lost []error
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- reconcile.Run(ctx, c, deployments, reconcile.Func(func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
				if err := election.Check(ctx); err != nil {
					t.Errorf("%s is reconciled after the term: %v", key, err)
				}
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, key.Name)
				if suspend {
					suspend = false
					c.clock.Add(int64(time.Hour))
				}
				return reconcile.Result{}, nil
			}), reconcile.WithLeader("example.com/web"), reconcile.OnError(func(key reconcile.Key, err error) {
				mu.Lock()
				defer mu.Unlock()
				if key == (reconcile.Key{}) {
					lost = append(lost, err)
				}
			}))
		}()
		pass(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		slices.Sort(calls[1:])
		if len(calls) != 6 || !slices.Equal(calls[1:], []string{"d0", "d1", "d2", "d3", "d4"}) {
			t.Errorf("reconciled %q", calls)
		}
		if len(lost) != 1 || !errors.Is(lost[0], client.ErrLeaseLost) {
			t.Errorf("reported %v", lost)
		}
		mu.Unlock()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
