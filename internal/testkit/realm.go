package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Realm is the default realm on a NATS server of its own, without services: the test runs the one
// that it tests, and plays the others. A fixture of a package embeds it.
type Realm struct {
	testing.TB
	Ctx    context.Context
	Server *natsd.Server
	js     func() jetstream.JetStream
}

// NewRealm returns a realm on a server that NATS starts.
func NewRealm(tb testing.TB) *Realm {
	tb.Helper()
	return NewRealmOn(tb, NATS(tb))
}

// NewRealmOn returns a realm on a server that runs until the test has ended.
func NewRealmOn(tb testing.TB, server *natsd.Server) *Realm {
	tb.Helper()
	r := &Realm{TB: tb, Ctx: Context(tb), Server: server}
	r.js = sync.OnceValue(func() jetstream.JetStream { return r.JetStream(bus.RoleGraph) })
	return r
}

// Conn connects with a role, within this process.
func (r *Realm) Conn(role string) *nats.Conn {
	r.Helper()
	return Conn(r, r.Server, role)
}

// JetStream connects with a role, and returns its JetStream.
func (r *Realm) JetStream(role string) jetstream.JetStream {
	r.Helper()
	return JetStream(r, r.Server, role)
}

// JS is the JetStream of the graph service's role. It is the same for all callers.
func (r *Realm) JS() jetstream.JetStream {
	r.Helper()
	return r.js()
}

// Streams creates the streams of the realm, as the graph service does.
func (r *Realm) Streams() {
	r.Helper()
	must.Succeed(r, bus.EnsureStreams(r.Ctx, r.JS(), bus.DefaultRealm, 1))
}

// Stream returns a stream and its state.
func (r *Realm) Stream(name string) jetstream.Stream {
	r.Helper()
	s, err := r.JS().Stream(r.Ctx, name)
	must.Succeed(r, err)
	return s
}

// Publish stores a message in the stream of a subject.
func (r *Realm) Publish(subject string, data []byte) {
	r.Helper()
	if _, err := r.JS().Publish(r.Ctx, subject, data); err != nil {
		r.Fatal(err)
	}
}

// Enqueue stores a message in a queue of work.
func (r *Realm) Enqueue(queue string, message proto.Message) {
	r.Helper()
	data, err := proto.Marshal(message)
	must.Succeed(r, err)
	r.Publish(bus.WorkSubject(bus.DefaultRealm, queue), data)
}

// WaitForEmptyQueues waits until no queue of work has a message.
func (r *Realm) WaitForEmptyQueues() {
	r.Helper()
	r.WaitFor("the queues to be empty", func() bool {
		ctx, cancel := Attempt(r.Ctx)
		defer cancel()
		s, err := r.JS().Stream(ctx, bus.WorkStream(bus.DefaultRealm))
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

// WaitForConsumer waits until a condition holds for a consumer of the queues of work.
func (r *Realm) WaitForConsumer(durable, what string, holds func(*jetstream.ConsumerInfo) bool) {
	r.Helper()
	r.WaitFor(what, func() bool {
		ctx, cancel := Attempt(r.Ctx)
		defer cancel()
		c, err := r.JS().Consumer(ctx, bus.WorkStream(bus.DefaultRealm), durable)
		return err == nil && holds(c.CachedInfo())
	})
}

// Parked returns what was parked of the message that a stream has stored with a subject and a sequence.
func (r *Realm) Parked(subject string, sequence uint64) *coppicev1.Parked {
	r.Helper()
	m, err := r.Stream(bus.ParkedStream(bus.DefaultRealm)).GetLastMsgForSubject(r.Ctx, bus.ParkedSubject(bus.DefaultRealm, subject, sequence))
	if err != nil {
		r.Fatalf("message %d of %s is not parked: %v", sequence, subject, err)
	}
	p := &coppicev1.Parked{}
	must.Succeed(r, proto.Unmarshal(m.Data, p))
	return p
}

// WaitFor waits until a condition holds.
func (r *Realm) WaitFor(what string, holds func() bool) {
	r.Helper()
	WaitFor(r, r.Ctx, what, holds)
}

// WaitUntilReady waits until a service is ready.
func (r *Realm) WaitUntilReady(s interface{ Ready() error }) {
	r.Helper()
	r.WaitFor("the service to be ready", func() bool { return s.Ready() == nil })
}
