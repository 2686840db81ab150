package streams

import (
	"context"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A verification whose clients leave while it waits for the previous one ends at once, and the
// previous one goes on alone.
func TestVerificationsDoNotPileUp(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	runs, gate := make(chan bool, 10), make(chan struct{})
	served, err := serve.New(serve.Config{Realm: bus.DefaultRealm, Conn: testkit.Conn(t, testkit.NATS(t), bus.RoleAnswers), State: statetest.New(t).State}, serve.Shares{}, "coppice-test", "a test", "")
	must.Succeed(t, err)
	s := New(serve.NewReplica(served, nil, nil), Config{
		Verify: func(_ context.Context, full bool, _ func(sequence, last uint64)) (*coppicev1.VerifyReply, error) {
			runs <- full
			<-gate
			return &coppicev1.VerifyReply{Sequence: 1}, nil
		},
	})
	first, leaveFirst, _ := s.verification(false)
	defer leaveFirst()
	if full := testkit.Receive(t, ctx, "the first verification", runs); full {
		t.Error("the first verification is full")
	}
	for range 3 {
		v, leave, _ := s.verification(true)
		leave()
		testkit.Receive(t, ctx, "the end of a verification that no client waits for", v.done)
		if v.err == nil {
			t.Error("it has carried out a verification")
		}
	}
	last, leaveLast, _ := s.verification(true)
	defer leaveLast()
	if n := len(runs); n != 0 {
		t.Errorf("%d verifications are carried out at the same time as the first", n)
	}
	close(gate)
	testkit.Receive(t, ctx, "the first result", first.done)
	testkit.Receive(t, ctx, "the last result", last.done)
	if full := testkit.Receive(t, ctx, "the last verification", runs); !full || len(runs) != 0 {
		t.Errorf("full is %v, and %d more were carried out", full, len(runs))
	}
	if first.err != nil || last.err != nil {
		t.Errorf("the first failed with %v, the last with %v", first.err, last.err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
