package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A batch of the log whose message is lost is requested again: no commit is left out.
func TestReadLogAfterLostBatch(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	answers := testkit.Conn(t, server, bus.RoleAnswers)
	requests := make(chan *nats.Msg, 10)
	if _, err := answers.ChanSubscribe(bus.APIPattern(bus.DefaultRealm, bus.VerbReadLog), requests); err != nil {
		t.Fatal(err)
	}
	if err := answers.Flush(); err != nil {
		t.Fatal(err)
	}
	log := client.New(testkit.Conn(t, server, bus.RoleReader), client.WithActor(bus.RoleReader), client.WithTimeout(testkit.Timeout)).Log()
	read := make(chan uint64, 10)
	ended := make(chan error, 1)
	go func() {
		var failure error
		for c, err := range log.Read(ctx, client.FromSequence(1), client.ToSequence(4)) {
			if failure = err; err != nil {
				break
			}
			read <- c.Sequence
		}
		ended <- failure
	}()
	h := eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{1}, Sequence: 1, Epoch: 1, Time: 1, FirstRevision: 1, Key: 1}
	stored, err := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm).Seal(eventlog.NewBuilder(h).Bytes(), 1)
	if err != nil {
		t.Fatal(err)
	}
	request := func(from uint64) *nats.Msg {
		t.Helper()
		m := testkit.Receive(t, ctx, "a request", requests)
		var r coppicev1.ReadLogRequest
		if err := proto.Unmarshal(m.Data, &r); err != nil || r.GetFromSequence() != from {
			t.Fatalf("the client asks from sequence %d, %v; want %d", r.GetFromSequence(), err, from)
		}
		return m
	}
	send := func(to *nats.Msg, from uint64) {
		t.Helper()
		b := &coppicev1.LogBatch{Format: 1, From: from, Next: from + 1, First: 1, Last: 4, Entries: []*coppicev1.LogEntry{{Sequence: from, Stored: stored}}}
		data, err := proto.Marshal(b)
		if err == nil {
			err = answers.Publish(to.Reply, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := request(1)
	send(m, 1)
	send(m, 3) // the batch from sequence 2 is lost
	m = request(2)
	for at := range uint64(3) {
		send(m, 2+at)
	}
	if err := testkit.Receive(t, ctx, "the end", ended); err != nil {
		t.Fatal(err)
	}
	for want := range uint64(4) {
		if got := testkit.Receive(t, ctx, "a commit", read); got != want+1 {
			t.Errorf("sequence %d comes, want %d", got, want+1)
		}
	}
}

// A read of the log that is answered with the same failure again and again ends with it after the retry timeout.
func TestReadLogThatCannotBeServed(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	answers := testkit.Conn(t, server, bus.RoleAnswers)
	why := (&client.Error{Reason: client.ErrServiceUnavailable, Message: "sequence 1 is in the archive, which cannot be read now"}).Status()
	data, err := proto.Marshal(&coppicev1.LogBatch{Format: 1, From: 1, Next: 1, First: 5, Last: 9, End: true, Error: why})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answers.Subscribe(bus.APIPattern(bus.DefaultRealm, bus.VerbReadLog), func(m *nats.Msg) {
		if err := m.Respond(data); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := answers.Flush(); err != nil {
		t.Fatal(err)
	}
	c := client.New(testkit.Conn(t, server, bus.RoleReader), client.WithActor(bus.RoleReader), client.WithTimeout(testkit.Timeout), client.WithRetryTimeout(50*time.Millisecond))
	for _, err := range c.Log().Read(testkit.Context(t), client.FromSequence(1)) {
		if !errors.Is(err, client.ErrServiceUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "cannot be read now") {
			t.Errorf("the read ends with %v", err)
		}
		return
	}
	t.Error("the read ends without an error")
}
