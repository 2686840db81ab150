package objects

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
	"github.com/coppice-gc/coppice/services/graph/writertest"
)

// heldLog is a log in memory whose appends wait for a token.
type heldLog struct {
	writertest.Log
	arrived, tokens chan struct{}
}

func (l heldLog) Send(expected uint64, _ [16]byte, _ []byte) func(context.Context) (uint64, error) {
	l.arrived <- struct{}{}
	return func(ctx context.Context) (uint64, error) {
		select {
		case <-l.tokens:
			return expected + 1, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// waiter is a context that reports when a call begins to wait for it.
type waiter struct {
	context.Context
	begins func()
}

func (w waiter) Done() <-chan struct{} {
	w.begins()
	return w.Context.Done()
}

// Between the look at a collection and its deletion one of its objects goes,
// and another is created again under its name.
func TestCollectionChangesMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	log := heldLog{arrived: make(chan struct{}, 100), tokens: make(chan struct{}, 100)}
	log.tokens <- struct{}{}
	w, st := writertest.Start(t, func(c *writer.Config) { c.Log = log })
	for len(log.arrived) > 0 {
		<-log.arrived
	}

	type step = func(*lifecycle.Context, lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error)
	creation := func(name string) step {
		return func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
		}
	}
	deletion := func(name string) step {
		return func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = name
			return lifecycle.Delete(ctx, at, "", nil)
		}
	}
	submit := func(steps ...step) <-chan *coppicev1.ObjectsReply {
		done := make(chan *coppicev1.ObjectsReply, 1)
		w.Submit(&writer.Request{Actor: "ana", Verb: "test", Work: &command.Objects{
			Resource: "pods", Namespace: "shop", Count: len(steps),
			Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
				return steps[i](ctx, at)
			},
		}, Done: func(m proto.Message, err *lifecycle.Error) {
			reply, _ := m.(*coppicev1.ObjectsReply)
			if err != nil {
				t.Error(err)
			}
			done <- reply
		}})
		return done
	}
	log.tokens <- struct{}{}
	testkit.Receive(t, ctx, "three objects", submit(creation("anew"), creation("gone"), creation("stays")))
	testkit.Receive(t, ctx, "their append", log.arrived)

	changed := submit(deletion("anew"), creation("anew"), deletion("gone"))
	testkit.Receive(t, ctx, "the append of what changes", log.arrived)
	labels, err := selector.Parse("")
	must.Succeed(t, err)
	s := NewWriter(serve.NewWriter(&serve.Server{Config: serve.Config{State: st, Log: slog.New(slog.DiscardHandler)}}, w, nil), nil, WriterConfig{})
	reply, _, refusal := s.deletePage(
		waiter{ctx, func() { log.tokens <- struct{}{}; log.tokens <- struct{}{} }}, // listed, and submitted
		bus.API{Actor: "ana", Verb: bus.VerbDeleteCollection, Plural: "pods", Namespace: "shop"},
		&serve.Page{Kind: st.Kinds().Resource("pods"), Namespace: "shop", Labels: labels, Limit: 100, MaxBytes: 1 << 20, MaxLooks: 100},
		&coppicev1.DeleteCollectionRequest{},
	)
	if refusal != nil || len(reply.GetResults()) != 3 {
		t.Fatalf("the reply is %v, %v", reply, refusal)
	}
	// A6.2: an object that was removed meanwhile is no error.
	for i, r := range reply.GetResults() {
		if r.GetCode() != 200 || r.GetError() != nil {
			t.Errorf("result %d is %v", i, r)
		}
	}
	// A6.7, X13: one that was created again under its name stays.
	created := testkit.Receive(t, ctx, "the reply", changed).GetResults()[1].GetObject().GetMetadata().GetUid()
	snap := st.Snapshot()
	defer snap.Close()
	pods := snap.Kinds().Resource("pods")
	if got := snap.Lookup(pods, "shop", "anew"); created == "" || got.String() != created {
		t.Errorf("under the name is %q, want %q", got, created)
	}
	if got := snap.Lookup(pods, "shop", "stays"); got != "" {
		t.Errorf("what was listed, and had not changed, is still there: %s", got)
	}
}
