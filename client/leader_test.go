package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/election"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// lastsLong keeps a lease on a slow machine.
const lastsLong = client.LeaseTTL(5 * time.Minute)

// A candidate waits while another leads, learns who it is, and leads as soon as it has stopped.
func TestRunLeader(t *testing.T) {
	t.Parallel()
	s := start(t)
	states := make(chan client.LeaderState, 10)
	leads, ended := make(chan string, 2), make(chan error, 2)
	run := func(ctx context.Context, name string, opts ...client.LeaderOption) {
		opts = append(opts, lastsLong, client.LeaderName(name))
		ended <- s.RunLeader(ctx, "example.com/sites", func(ctx context.Context) error {
			leads <- name
			<-ctx.Done()
			return nil
		}, opts...)
	}
	first, stop := context.WithCancel(s.Ctx)
	go run(first, "first")
	testkit.Receive(t, s.Ctx, "the first leader", leads)
	second, stopSecond := context.WithCancel(s.Ctx)
	go run(second, "second", client.OnLeaderState(func(s client.LeaderState) { states <- s }))
	if state := testkit.Receive(t, s.Ctx, "the state of the candidate", states); state.Leading || state.Leader != "first" || state.Remaining <= 0 || state.Remaining > time.Duration(lastsLong) {
		t.Errorf("the candidate sees %+v", state)
	}
	if len(leads) > 0 {
		t.Error("both lead")
	}
	stop()
	must.Succeed(t, testkit.Receive(t, s.Ctx, "the end of the first leader", ended))
	if name := testkit.Receive(t, s.Ctx, "the second leader", leads); name != "second" {
		t.Errorf("%s leads", name)
	}
	for state := (client.LeaderState{}); !state.Leading; {
		state = testkit.Receive(t, s.Ctx, "the state of the leader", states)
	}
	stopSecond()
	must.Succeed(t, testkit.Receive(t, s.Ctx, "the end of the second leader", ended))
	if state := testkit.Receive(t, s.Ctx, "the last state", states); state != (client.LeaderState{}) {
		t.Errorf("the last state is %+v", state)
	}
	failed := errors.New("failed")
	if err := s.RunLeader(s.Ctx, "example.com/sites", func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
}

// RunLeader returns what cannot be repeated.
func TestRunLeaderFails(t *testing.T) {
	t.Parallel()
	s := startWith(t, allinone.Config{Auth: true})
	past, err := s.At(s.Ctx, client.Moment{})
	must.Succeed(t, err)
	lead := func(context.Context) error { t.Error("it leads"); return nil }
	for _, tc := range []struct {
		name   string
		run    func() error
		reason error
		says   string
	}{
		{"the name", func() error { return s.RunLeader(s.Ctx, "A", lead) }, client.ErrBadRequest, `"A" is not the name of a lease`},
		{"the duration", func() error { return s.RunLeader(s.Ctx, "a", lead, client.LeaseTTL(time.Millisecond)) }, client.ErrBadRequest, "it must be 1s to 10m0s"},
		{"what it says", func() error { return s.RunLeader(s.Ctx, "a", lead, client.LeaderName(strings.Repeat("a", 257))) }, client.ErrBadRequest, "257 bytes"},
		{"an application", func() error { return s.As(bus.RoleApplication).RunLeader(s.Ctx, "a", lead) }, client.ErrForbidden, "lease"},
		{"the past", func() error { return past.RunLeader(s.Ctx, "a", lead) }, client.ErrMethodNotAllowed, "lease"},
	} {
		if err := tc.run(); !errors.Is(err, tc.reason) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %v that says %q", tc.name, err, tc.reason, tc.says)
		}
	}
}

// No request is sent with the context of a leader whose term is over by the clock, although the context has not ended yet.
func TestNoRequestAfterTerm(t *testing.T) {
	t.Parallel()
	s := start(t)
	var suspended atomic.Int64
	c := election.Config{
		Name: "a", TTL: time.Hour, OnState: func(election.State) {}, OnError: func(error) {}, Retryable: func(error) bool { return true },
		Clock: func() time.Duration { return time.Duration(suspended.Load()) },
		Request: func(_ context.Context, q *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
			return &coppicev1.LeaseReply{Held: !q.GetRelease(), Lease: &coppicev1.Lease{Holder: q.GetHolder(), Revision: 1}}, nil
		},
	}
	ctx, stop := context.WithCancel(s.Ctx)
	err := election.Run(ctx, c, func(ctx context.Context) error {
		defer stop()
		derived, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if _, err := s.objects.Create(derived, stack.Finalized("before")); err != nil {
			t.Error(err)
		}
		suspended.Store(int64(time.Hour))
		if _, err := s.objects.Create(derived, stack.Finalized("after")); !errors.Is(err, client.ErrLeaseLost) {
			t.Errorf("create after the term: %v", err)
		}
		if _, err := s.objects.Get(derived, "before"); !errors.Is(err, client.ErrLeaseLost) {
			t.Errorf("get after the term: %v", err)
		}
		return nil
	})
	must.Succeed(t, err)
	if _, err := s.objects.Get(s.Ctx, "after"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("the object was created: %v", err)
	}
}
