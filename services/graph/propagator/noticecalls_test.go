package propagator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// calling is a program's calls about notices, and a stream that accepts each id once in bus.ExpireAgain.
type calling struct {
	*testing.T
	realm   *statetest.Realm
	recent  *propagator.RecentCalls
	now     time.Time
	waits   int // calls in the stream
	called  map[string]int
	ids     map[string]time.Time
	large   int  // of the largest call
	brief   int  // calls without the object
	refuses bool // with the answer
	answer  error
}

func newCalling(t *testing.T, objects int, spec string) *calling {
	t.Helper()
	c := &calling{T: t, realm: statetest.New(t), now: lifecycle.Time(1).Time(), called: map[string]int{}, ids: map[string]time.Time{}}
	c.recent = propagator.NewRecentCalls(func() time.Time { return c.now })
	for i := range objects {
		name := fmt.Sprintf("configmaps/c%04d", i)
		c.realm.Create(name, nil)
		if spec != "" {
			respec(c.realm, name, spec)
		}
	}
	return c
}

func (c *calling) PublishMsgAsync(m *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	f := &future{m: m, ok: make(chan *jetstream.PubAck, 1), err: make(chan error, 1)}
	id := m.Header.Get(jetstream.MsgIDHeader)
	if c.refuses {
		f.err <- c.answer
		return f, nil
	}
	f.ok <- &jetstream.PubAck{}
	if at, ok := c.ids[id]; ok && c.now.Sub(at) < bus.ExpireAgain {
		return f, nil
	}
	var call coppicev1.ExpireCall
	must.Succeed(c, manifest.UnmarshalMessage(m.Data, &call))
	if call.GetTruncated() {
		c.brief++
	}
	c.ids[id] = c.now
	c.called[call.GetObject().GetMetadata().GetName()]++
	c.waits++
	c.large = max(c.large, m.Size())
	return f, nil
}

// evaluate calls about all objects, as one evaluation in pages does.
func (c *calling) evaluate(most int) error {
	snap := c.realm.Snapshot()
	defer snap.Close()
	var list []*lifecycle.Node
	snap.Nodes(snap.Kinds().Resource("configmaps"), "", state.NameCursor{}, func(n *lifecycle.Node) bool {
		list = append(list, n)
		return true
	})
	c.recent.Begin("policy")
	for page := range slices.Chunk(list, 100) {
		calls := propagator.NewNoticeCalls(c, c.recent, "default", "example.com/keeper", most-c.waits, time.Time{})
		for _, n := range page {
			calls.Add(snap, n, "previews", false, false, lifecycle.Notice{Policy: "policy", Generation: 1})
		}
		if err := calls.Publish(c.Context()); err != nil {
			return err
		}
	}
	return nil
}

// A program that takes calls and answers none is called about every object, also if it takes so few that
// those about the first objects are due again before it has been called about the last.
func TestNoticeCallsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Minute, bus.ExpireAgain} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			c := newCalling(t, 500, "")
			for range 2 {
				for range 10 {
					must.Succeed(t, c.evaluate(50))
					if c.waits > 50 {
						t.Fatalf("%d calls wait", c.waits)
					}
					c.waits, c.now = 0, c.now.Add(every) // taken
				}
				if len(c.called) != 500 {
					t.Fatalf("it is called about %d of 500 objects", len(c.called))
				}
				clear(c.called)
				c.now = c.now.Add(bus.ExpireAgain)
				if err := c.evaluate(0); err != nil { // the stream is full for once
					t.Fatal(err)
				}
			}
		})
	}
}

// Large objects are left out of their calls, so that they take no room from others.
func TestNoticeCallsAreSmall(t *testing.T) {
	t.Parallel()
	c := newCalling(t, propagator.MaxNoticeCalls, `"`+strings.Repeat("x", 20_000)+`"`)
	must.Succeed(t, c.evaluate(propagator.MaxNoticeCalls))
	if len(c.called) != propagator.MaxNoticeCalls || c.brief != propagator.MaxNoticeCalls || c.large > 10_000 {
		t.Errorf("it is called about %d objects, %d times without the object, by at most %d bytes", len(c.called), c.brief, c.large)
	}
}

// A call that cannot be published is an error, so that its object is not deleted, and is published later. A
// call of the object that waits in the stream already is none.
func TestNoticeCallsFail(t *testing.T) {
	t.Parallel()
	failed := func(description string) error {
		return &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: description}
	}
	for name, of := range map[string]struct {
		answer error
		fails  bool
	}{
		"full":      {failed("maximum messages exceeded"), true},
		"too large": {&jetstream.APIError{Code: 400, ErrorCode: 10054}, true},
		"waits":     {failed("maximum messages per subject exceeded"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCalling(t, 1, "")
			c.answer, c.refuses = of.answer, true
			if err := c.evaluate(10); (err != nil) != of.fails {
				t.Errorf("the error is %v", err)
			}
			c.refuses = false
			if err := c.evaluate(10); err != nil || len(c.called) != 1 {
				t.Errorf("it is called about %v afterwards: %v", c.called, err)
			}
		})
	}
}

// Calls that the stream would refuse take no room from that about another object.
func TestNoticeCallsAreRemembered(t *testing.T) {
	t.Parallel()
	c := newCalling(t, 100, "")
	for range 2 {
		must.Succeed(t, c.evaluate(50))
		c.waits = 0
	}
	c.realm.Create("configmaps/last", nil)
	if err := c.evaluate(50); err != nil || c.called["last"] != 1 || len(c.called) != 101 {
		t.Errorf("it is called about %d objects, about the last one %d times: %v", len(c.called), c.called["last"], err)
	}
}
