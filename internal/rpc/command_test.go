package rpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// served is a server that refuses ids of a wrong time, by a clock of its own.
type served struct {
	now    time.Time
	ids    []uuid.UUID
	before []error // answers to the first attempts
}

func (s *served) do(_ context.Context, h nats.Header) error {
	id := uuid.MustParse(h.Get(bus.HeaderCommand))
	s.ids = append(s.ids, id)
	if len(s.before) > 0 {
		err := s.before[0]
		s.before = s.before[1:]
		return err
	}
	sec, nsec := id.Time().UnixTime()
	switch at := time.Unix(sec, nsec); {
	case at.After(s.now.Add(time.Minute)):
		return &lifecycle.Error{Reason: api.ErrInvalid, ServerTime: s.now}
	case at.Before(s.now.Add(-2 * time.Minute)):
		return &lifecycle.Error{Reason: api.ErrOutcomeUnknown, ServerTime: s.now}
	}
	return nil
}

// A client's clock is wrong. The first command is sent with a second id, by the
// server's time, and others go by it from the start.
func TestCommandsCorrectTheClock(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"right": 0, "10 min slow": -10 * time.Minute, "10 min fast": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s := &served{now: now}
			c := &rpc.Commands{Now: func() time.Time { return now.Add(wrong) }}
			for i := range 2 {
				s.ids = nil
				must.Succeed(t, c.Retry(t.Context(), time.Second, s.do))
				want := 1
				if wrong != 0 && i == 0 {
					want = 2
				}
				if len(s.ids) != want {
					t.Errorf("command %d was sent with the ids %v, want %d", i, s.ids, want)
				}
			}
			last := s.ids[len(s.ids)-1]
			if sec, nsec := last.Time().UnixTime(); last.Version() != 7 || last.Variant() != uuid.RFC4122 || !time.Unix(sec, nsec).Equal(now) {
				t.Errorf("the id %s is not a UUIDv7 of %s", last, now)
			}
		})
	}
}

// A command whose first attempt may have reached a service is not sent with another
// id: it could be carried out twice.
func TestCommandsKeepTheID(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		first error
		again bool // with another id
	}{
		"no answer":           {&lifecycle.Error{Reason: api.ErrTimeout}, false},
		"the writer changes":  {&lifecycle.Error{Reason: api.ErrServiceUnavailable}, false},
		"the queue is full":   {&lifecycle.Error{Reason: api.ErrTooManyRequests}, false},
		"there is no service": {noResponders(t), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &served{now: now, before: []error{test.first}}
			c := &rpc.Commands{Now: func() time.Time { return now.Add(-10 * time.Minute) }}
			err := c.Retry(t.Context(), time.Second, s.do)
			if test.again {
				if err != nil || len(s.ids) != 3 || s.ids[0] != s.ids[1] || s.ids[1] == s.ids[2] {
					t.Errorf("it was sent with the ids %v: %v", s.ids, err)
				}
				return
			}
			if !errors.Is(err, api.ErrOutcomeUnknown) || len(s.ids) != 2 || s.ids[0] != s.ids[1] {
				t.Errorf("it was sent with the ids %v: %v", s.ids, err)
			}
			s.ids = nil // the clock is corrected all the same
			if err := c.Retry(t.Context(), time.Second, s.do); err != nil || len(s.ids) != 1 {
				t.Errorf("the next command was sent with the ids %v: %v", s.ids, err)
			}
		})
	}
}

// noResponders is the error of a request that NATS delivers to no service.
func noResponders(t *testing.T) error {
	t.Helper()
	b := start(t)
	err := rpc.Send(b.Ctx, b.asks, subject, nil, nil, nil)
	if !errors.Is(err, api.ErrServiceUnavailable) {
		t.Fatalf("got %v", err)
	}
	return err
}

// If the server refuses every id for its time, the command fails.
func TestCommandsGiveUp(t *testing.T) {
	t.Parallel()
	var c rpc.Commands
	sent := 0
	err := c.Retry(t.Context(), time.Second, func(context.Context, nats.Header) error {
		sent++
		return &lifecycle.Error{Reason: api.ErrInvalid, ServerTime: time.Now().Add(time.Hour)}
	})
	if !errors.Is(err, api.ErrInvalid) || sent != 3 {
		t.Errorf("it was sent %d times: %v", sent, err)
	}
}
