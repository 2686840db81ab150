package api_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// B7.3: a finalizer is removed by force at once while no program works on its call. While one does,
// the removal is refused, and the refusal names the call; a request with this call is carried
// out, with a warning.
func TestForceFinalizer(t *testing.T) {
	t.Parallel()
	const name = "example.com/slow"
	r := start(t)
	objects := r.Resource(client.Resource{Plural: "configmaps"}, "force")
	r.blocked("force", []string{name}, 1, "")
	var reply client.Reply
	if _, err := objects.ForceFinalizer(r.Ctx, "o-0", name, "no controller", client.ReplyInto(&reply)); err != nil {
		t.Fatal(err)
	}
	if len(reply.Warnings) > 0 {
		t.Errorf("no program receives the calls, and the reply warns: %q", reply.Warnings)
	}
	r.emptied("force")

	called := make(chan struct{}, 100)
	testkit.Run(t, func(ctx context.Context) error {
		return r.RunFinalizer(ctx, name, func(ctx context.Context, _ *client.Call) error {
			called <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	})
	r.blocked("force", []string{name}, 1, "")
	testkit.Receive(t, r.Ctx, "a call of the finalizer", called)
	_, refusal := objects.ForceFinalizer(r.Ctx, "o-0", name, "too slow")
	if !errors.Is(refusal, client.ErrConflict) {
		t.Fatalf("refused with %v, want Conflict", refusal)
	}
	found := regexp.MustCompile(`name call (\d+)`).FindStringSubmatch(refusal.Error())
	if found == nil {
		t.Fatalf("the refusal names no call: %v", refusal)
	}
	call, err := strconv.ParseUint(found[1], 10, 64)
	must.Succeed(t, err)
	if _, err := objects.ForceFinalizer(r.Ctx, "o-0", name, "too slow", client.IfCall(call+1)); !errors.Is(err, client.ErrConflict) {
		t.Fatalf("another call: %v, want Conflict", err)
	}
	if _, err := objects.ForceFinalizer(r.Ctx, "o-0", name, "too slow", client.IfCall(call), client.ReplyInto(&reply)); err != nil {
		t.Fatal(err)
	}
	// B7.4: a program receives the calls, and the reply warns.
	if len(reply.Warnings) == 0 {
		t.Error("a program receives the calls, and the reply does not warn")
	}
	r.emptied("force")
}
