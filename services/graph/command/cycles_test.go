package command_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// The collection of an unreachable cycle that is larger than a commit is refused, and the
// writer goes on. It was tried for ever.
func TestCycleLargerThanACommit(t *testing.T) {
	t.Parallel()
	b := startWith(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
	carryOut[*coppicev1.ObjectsReply](b, &command.Objects{
		Resource: "realms.coppice.dev", Count: 1,
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"unreachableCycles":"collect"}`)})
		},
	}, nil)
	// ring makes a cycle of n objects.
	ring := func(n int) (members []uid.UID) {
		name := func(i int) string { return fmt.Sprintf("in-%d-%d", n, i) }
		first := b.create("pods", name(0))
		last := first
		members = append(members, uid.MustParse(first.GetMetadata().GetUid()))
		for i := 1; i < n; i++ {
			last = b.create("pods", name(i), last)
			members = append(members, uid.MustParse(last.GetMetadata().GetUid()))
		}
		first.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{
			ApiVersion: last.GetApiVersion(), Kind: last.GetKind(), Name: last.GetMetadata().GetName(), Uid: last.GetMetadata().GetUid(),
		}}
		carryOut[*coppicev1.ObjectsReply](b, b.objects("pods", func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = name(0)
			return lifecycle.Update(ctx, at, first)
		}), nil)
		return members
	}
	large, small := ring(300), ring(2)
	if a := b.do(&command.CollectCycle{Members: large}); !errors.Is(a.refusal, api.ErrRequestEntityTooLarge) {
		t.Errorf("the collection of the large cycle: %v, %v", a.reply, a.refusal)
	}
	if reply := carryOut[*coppicev1.CyclesReply](b, &command.CollectCycle{Members: small}, nil); reply.GetCollected() != 2 {
		t.Errorf("%d objects of the small cycle were collected", reply.GetCollected())
	}
}
