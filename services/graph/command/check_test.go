package command_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// A command with a check waits for a commit of its own, so that what is checked
// is all that it is decided on; and one that fails its check does nothing.
func TestCheck(t *testing.T) {
	t.Parallel()
	b := start(t)
	answers := make(chan answer, 3)
	submit := func(w writer.Work) {
		b.w.Submit(&writer.Request{Actor: "tester", Verb: "test", Work: w, Done: func(m proto.Message, err *lifecycle.Error) { answers <- answer{m, err} }})
	}
	create := func(name string) *command.Objects {
		return b.objects("pods", func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
		})
	}
	// The first is blocked until the others have queued: they come to be decided
	// together.
	entered, release := make(chan struct{}), make(chan struct{})
	first := create("first")
	decide := first.Decide
	first.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		close(entered)
		<-release
		return decide(ctx, at, i)
	}
	submit(first)
	testkit.Receive(t, b.ctx, "the first to be decided", entered)
	submit(create("second"))
	checked := create("checked")
	seen := false
	checked.Check = func(d *writer.OpenCommit) *lifecycle.Error {
		snap := d.Tx.Stored()
		defer snap.Close()
		seen = d.Empty() && snap.Lookup(snap.Kinds().Resource("pods"), "a", "second") != ""
		return nil
	}
	submit(checked)
	close(release)
	for range 3 {
		if a := testkit.Receive(t, b.ctx, "an answer", answers); a.refusal != nil {
			t.Fatal(a.refusal)
		}
	}
	if !seen {
		t.Error("what was decided before it was not in the state that was checked")
	}
	refused := create("refused")
	refused.Check = func(*writer.OpenCommit) *lifecycle.Error { return lifecycle.ErrBadRequest("no") }
	before := b.s.Checkpoint().GetRevision()
	if a := b.do(refused); a.refusal == nil || a.refusal.Message != "no" || b.s.Checkpoint().GetRevision() != before {
		t.Errorf("the answer is %+v, at revision %d, was %d", a, b.s.Checkpoint().GetRevision(), before)
	}
}
