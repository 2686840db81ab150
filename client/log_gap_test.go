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
	"github.com/coppice-gc/coppice/internal/testkit/must"
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
	answersTo(t, answers, bus.VerbReadLog, func(m *nats.Msg) { requests <- m })
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
	must.Succeed(t, err)
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
		must.Succeed(t, err)
	}
	m := request(1)
	send(m, 1)
	send(m, 3) // the batch from sequence 2 is lost
	m = request(2)
	for at := range uint64(3) {
		send(m, 2+at)
	}
	must.Succeed(t, testkit.Receive(t, ctx, "the end", ended))
	for want := range uint64(4) {
		if got := testkit.Receive(t, ctx, "a commit", read); got != want+1 {
			t.Errorf("sequence %d comes, want %d", got, want+1)
		}
	}
}

// A read of the log that is answered with the same failure again and again ends with it after the retry timeout, also if
// each request is accepted first.
func TestReadLogThatCannotBeServed(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{false, true} {
		server := testkit.NATS(t)
		answers := testkit.Conn(t, server, bus.RoleAnswers)
		why := (&client.Error{Reason: client.ErrServiceUnavailable, Message: "sequence 1 is in the archive, which cannot be read now"}).Status()
		answersTo(t, answers, bus.VerbReadLog, func(m *nats.Msg) {
			if accepted {
				reply(t, m, &coppicev1.LogBatch{Format: 1, From: 1, Next: 1, First: 1, Last: 9})
			}
			reply(t, m, &coppicev1.LogBatch{Format: 1, From: 1, Next: 1, First: 5, Last: 9, End: true, Error: why})
		})
		c := client.New(testkit.Conn(t, server, bus.RoleReader), client.WithActor(bus.RoleReader), client.WithTimeout(testkit.Timeout), client.WithRetryTimeout(50*time.Millisecond))
		var ended error
		for _, ended = range c.Log().Read(testkit.Context(t), client.FromSequence(1)) {
			break
		}
		if !errors.Is(ended, client.ErrServiceUnavailable) || !errors.Is(ended, context.DeadlineExceeded) || !strings.Contains(ended.Error(), "cannot be read now") {
			t.Errorf("accepted %t: the read ends with %v", accepted, ended)
		}
	}
}

// A follower goes on if its reply ends as planned, and if the service that served it is away for less than the retry timeout,
// however long nothing had come before.
func TestFollowAfterSilence(t *testing.T) {
	t.Parallel()
	const patience = 300 * time.Millisecond
	server := testkit.NATS(t)
	answers := testkit.Conn(t, server, bus.RoleAnswers)
	why := (&client.Error{Reason: client.ErrServiceUnavailable, Message: "this replica is shutting down; ask again"}).Status()
	requests := make(chan *nats.Msg, 100)
	answersTo(t, answers, bus.VerbReadWarnings, func(m *nats.Msg) { requests <- m })
	c := client.New(testkit.Conn(t, server, bus.RoleReader), client.WithActor(bus.RoleReader), client.WithTimeout(testkit.Timeout), client.WithRetryTimeout(patience))
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for _, err := range c.FollowWarnings(ctx) {
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for _, end := range []*coppicev1.WarningBatch{{Next: 1, End: true}, {Next: 1, End: true, Error: why}, {Next: 1, End: true}} {
		m := testkit.Receive(t, ctx, "a request", requests)
		reply(t, m, &coppicev1.WarningBatch{Next: 1})
		<-time.After(2 * patience) // the silence
		reply(t, m, end)
	}
	reply(t, testkit.Receive(t, ctx, "a request after the others", requests), &coppicev1.WarningBatch{Next: 1})
	cancel()
	if err := testkit.Receive(t, testkit.Context(t), "the end", ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("the follower ended with %v", err)
	}
}

func answersTo(t *testing.T, nc *nats.Conn, verb string, do func(*nats.Msg)) {
	t.Helper()
	_, err := nc.Subscribe(bus.APIPattern(bus.DefaultRealm, verb), do)
	if err == nil {
		err = nc.Flush()
	}
	must.Succeed(t, err)
}

func reply(t *testing.T, to *nats.Msg, m proto.Message) {
	t.Helper()
	data, err := proto.Marshal(m)
	if err == nil {
		err = to.Respond(data)
	}
	if err != nil {
		t.Error(err)
	}
}
