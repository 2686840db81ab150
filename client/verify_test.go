package client_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Another client may have begun the verification before the revision that this client has
// seen. Then its result counts only if it is a difference.
func TestVerifyIncludesWhatWasSeen(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	answers := testkit.Conn(t, server, bus.RoleAnswers)
	results := make(chan *coppicev1.VerifyReply, 10)
	for verb, replies := range map[string]func() proto.Message{
		bus.VerbStatus: func() proto.Message { return &coppicev1.StatusReply{Revision: 42} },
		bus.VerbVerify: func() proto.Message { return &coppicev1.VerifyBatch{Sequence: 1, Last: 1, Result: <-results} },
	} {
		answersTo(t, answers, verb, func(m *nats.Msg) { reply(t, m, replies()) })
	}
	c := client.New(testkit.Conn(t, server, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithTimeout(testkit.Timeout))
	verify := func(want *coppicev1.VerifyReply) {
		t.Helper()
		var progress [][2]uint64
		got, err := c.Operations().Verify(ctx, client.OnProgress(func(sequence, last uint64) { progress = append(progress, [2]uint64{sequence, last}) }))
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("verified: %v, %v; want %v", got, err, want)
		}
		if len(progress) == 0 || progress[0] != [2]uint64{1, 1} {
			t.Errorf("the progress is %v, want commit 1 of 1", progress)
		}
	}
	early, late := &coppicev1.VerifyReply{Revision: 41}, &coppicev1.VerifyReply{Revision: 42}
	results <- early
	verify(early)
	if _, err := c.Status(ctx); err != nil {
		t.Fatal(err)
	}
	results <- early
	results <- late
	verify(late)
	different := &coppicev1.VerifyReply{Revision: 41, Difference: "a row"}
	results <- different
	verify(different)
	// The log of a realm that was restored may end before what the client has seen.
	results <- early
	results <- early
	verify(early)
}

// The options of ListParked arrive in the request.
func TestParkedOptions(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	asked := make(chan *coppicev1.ListParkedRequest, 1)
	testkit.Answer(t, testkit.Conn(t, server, bus.RoleAnswers), bus.APIPattern(bus.DefaultRealm, bus.VerbListParked), &coppicev1.ListParkedRequest{},
		func(q *coppicev1.ListParkedRequest) (*coppicev1.ListParkedReply, *lifecycle.Error) {
			asked <- proto.Clone(q).(*coppicev1.ListParkedRequest)
			return &coppicev1.ListParkedReply{}, nil
		})
	c := client.New(testkit.Conn(t, server, bus.RoleOperator), client.WithActor(bus.RoleOperator))
	const subject = "coppice.default.finalize._.pods.a-uid.example.com/x"
	if _, err := c.Operations().ListParked(ctx, client.ForSubject(subject), client.Limit(7), client.AfterID(3)); err != nil {
		t.Fatal(err)
	}
	got := testkit.Receive(t, ctx, "the request", asked)
	if want := (&coppicev1.ListParkedRequest{Subject: subject, Limit: 7, After: 3, Protocol: bus.Protocol}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
}
