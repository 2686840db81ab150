package chaos_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// command is a command with an id. It can be sent any number of times.
type command struct {
	id       uuid.UUID
	verb     string
	resource client.Resource
	ns       string
	request  proto.Message
}

func creation(r client.Resource, ns string, objects ...*coppicev1.Object) command {
	return command{uuid.Must(uuid.NewV7()), bus.VerbCreate, r, ns, &coppicev1.ObjectsRequest{Objects: objects}}
}

func update(r client.Resource, ns string, o *coppicev1.Object) command {
	return command{uuid.Must(uuid.NewV7()), bus.VerbUpdate, r, ns, &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{o}}}
}

func deletion(r client.Resource, ns, policy string, names ...string) command {
	return command{uuid.Must(uuid.NewV7()), bus.VerbDelete, r, ns, &coppicev1.DeleteRequest{
		Names: names, Options: &coppicev1.DeleteOptions{PropagationPolicy: policy},
	}}
}

// once sends the command once.
func (c command) once(ctx context.Context, nc *nats.Conn, actor string) (*coppicev1.ObjectsReply, error) {
	at := bus.API{Realm: realm, Actor: actor, Verb: c.verb, Group: c.resource.Group, Plural: c.resource.Plural, Namespace: c.ns}
	var reply coppicev1.ObjectsReply
	err := rpc.Call(ctx, nc, at.Subject(), nats.Header{bus.HeaderCommand: []string{c.id.String()}}, c.request, &reply)
	return &reply, err
}

// attempt is the time for which one attempt of a command waits for the reply.
const attempt = time.Second

// do sends the command until there is a final reply.
func (c command) do(ctx context.Context, nc *nats.Conn, actor string) (reply *coppicev1.ObjectsReply, err error) {
	err = rpc.Retry(ctx, attempt, func(ctx context.Context) (err error) {
		reply, err = c.once(ctx, nc, actor)
		return err
	})
	return reply, err
}

// acknowledged is a command that was acknowledged, and its reply.
type acknowledged struct {
	command
	reply *coppicev1.ObjectsReply
}

// ledger has the replies that a client has received. It is safe for concurrent use.
type ledger struct {
	nc    *nats.Conn
	actor string

	mu      sync.Mutex
	replies []acknowledged // not yet compared with the log
	all     int
}

// do sends a command until there is a final reply, and records it.
func (l *ledger) do(ctx context.Context, c command) (*coppicev1.ObjectsReply, error) {
	reply, err := c.do(ctx, l.nc, l.actor)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.replies = append(l.replies, acknowledged{c, reply})
		l.all++
	}
	return reply, err
}

// take returns the replies that were not compared with the log yet.
func (l *ledger) take() []acknowledged {
	l.mu.Lock()
	defer l.mu.Unlock()
	replies := l.replies
	l.replies = nil
	return replies
}

// check compares the replies with the log: each command is there, and has changed each
// object as its result says.
func (a *auditor) check(t *testing.T, replies []acknowledged) {
	t.Helper()
	for _, k := range replies {
		done, ok := a.commands[k.id]
		if !ok {
			t.Errorf("%s of %s was acknowledged, and is not in the log", k.verb, k.resource)
			continue
		}
		for _, r := range k.reply.GetResults() {
			m := r.GetObject().GetMetadata()
			if r.GetError() != nil {
				t.Errorf("%s of %s: %s", k.verb, k.resource, r.GetError().GetMessage())
				continue
			}
			if !slices.ContainsFunc(done, func(e effect) bool {
				// The result of a deletion that removes the object is the object before it.
				return e.uid == m.GetUid() && (e.revision == m.GetResourceVersion() || k.verb == bus.VerbDelete)
			}) {
				t.Errorf("%s of %s/%s, uid %s at revision %d, was acknowledged; the log has other effects of the command",
					k.verb, k.resource, m.GetName(), m.GetUid(), m.GetResourceVersion())
			}
		}
	}
}
