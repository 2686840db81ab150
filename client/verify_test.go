package client_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
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
	for verb, reply := range map[string]func() proto.Message{
		bus.VerbStatus: func() proto.Message { return &coppicev1.StatusReply{Revision: 42} },
		bus.VerbVerify: func() proto.Message { return &coppicev1.VerifyBatch{Sequence: 1, Last: 1, Result: <-results} },
	} {
		if _, err := answers.Subscribe(bus.APIPattern(bus.DefaultRealm, verb), func(m *nats.Msg) {
			data, err := proto.Marshal(reply())
			if err == nil {
				err = m.Respond(data)
			}
			if err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := answers.Flush(); err != nil {
		t.Fatal(err)
	}
	c := client.New(testkit.Conn(t, server, bus.RoleOperator), client.WithActor(bus.RoleOperator), client.WithTimeout(testkit.Timeout))
	verify := func(want *coppicev1.VerifyReply) {
		t.Helper()
		if got, err := c.Operations().Verify(ctx); err != nil || !proto.Equal(got, want) {
			t.Errorf("verified: %v, %v; want %v", got, err, want)
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
