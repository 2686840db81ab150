package policies_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/policies"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
	"github.com/coppice-gc/coppice/services/graph/writertest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// realm is a writer on a state in memory.
type realm struct {
	testing.TB
	ctx  context.Context
	s    *state.State
	w    *writer.Writer
	last uint64 // revision of the last reply
}

func start(t *testing.T) *realm {
	t.Helper()
	w, s := writertest.Start(t, nil)
	return &realm{TB: t, ctx: testkit.Context(t), s: s, w: w}
}

func (r *realm) do(actor string, work writer.Work) proto.Message {
	r.Helper()
	reply, err := r.w.Do(r.ctx, &writer.Request{Actor: actor, Verb: "test", Work: work})
	must.Succeed(r, err)
	return reply
}

type decide = func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)

func (r *realm) objects(resource, namespace string, how decide, list ...*coppicev1.Object) {
	r.Helper()
	for len(list) > 0 {
		n := min(len(list), 500)
		part := list[:n]
		reply := r.do("ana", &command.Objects{
			Resource: resource, Namespace: namespace, Count: n,
			Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
				return how(ctx, at, part[i])
			},
		}).(*coppicev1.ObjectsReply)
		for _, result := range reply.GetResults() {
			if result.GetError() != nil {
				r.Fatal(result.GetError().GetMessage())
			}
		}
		r.last, list = reply.GetRevision(), list[n:]
	}
}

// read calls visit with a snapshot that has all replies.
func (r *realm) read(visit func(*state.Snapshot)) {
	r.Helper()
	testkit.WaitFor(r, r.ctx, "the state to have the last commit", func() bool { return r.s.Checkpoint().GetRevision() >= r.last })
	snap := r.s.Snapshot()
	visit(snap)
	must.Succeed(r, errors.Join(snap.Err(), snap.Close()))
}

// covered returns how many ConfigMaps the policy protects, and its status.
func (r *realm) covered() (n int, status lifecycle.PolicyStatus) {
	r.read(func(snap *state.Snapshot) {
		snap.EachProtected(func(string, string, string, uid.UID) bool { n++; return true })
		if p := snap.Kinds().Policies(); len(p) > 0 {
			status = lifecycle.PolicyStatusOf(snap.BodyOf(p[0].UID))
		}
	})
	return n, status
}

func (r *realm) walker(steps *[]policies.Step) *policies.Walker {
	return policies.New(r.s, func(ctx context.Context, s policies.Step) error {
		*steps = append(*steps, s)
		reply, err := r.w.Do(ctx, &writer.Request{Actor: "graph", Verb: "cover", Work: command.NewCover(s.Policy, s.From, s.To, s.Objects)})
		if err == nil {
			r.last = reply.(*coppicev1.UnblockReply).GetRevision()
			r.read(func(*state.Snapshot) {})
		}
		return err
	})
}

func policy(selector string) *coppicev1.Object {
	return &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "production"},
		Spec:     fmt.Appendf(nil, `{"kind":"ConfigMap","selector":%q,"reason":"production"}`, selector),
	}
}

// TestWalk: B2.11, B2.13: A walk is done in steps that are bounded, and resumes after a
// restart where the log says that it was. Objects that change behind it are covered too.
func TestWalk(t *testing.T) {
	t.Parallel()
	r := start(t)
	const all = 2500
	var list []*coppicev1.Object
	for i := range all {
		env := "prod"
		if i%5 == 4 {
			env = "test"
		}
		list = append(list, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("c%04d", i), Labels: map[string]string{"env": env}}})
	}
	r.objects("configmaps", "shop", lifecycle.Create, list...)
	r.objects("protectionpolicies.coppice.dev", "", lifecycle.Create, policy("env=prod"))
	if n, status := r.covered(); n != 0 || status.Message != "covered 0 of 2500" || status.Complete || status.Author != "ana" {
		t.Fatalf("before the walk %d are covered: %+v", n, status)
	}

	var steps []policies.Step
	w := r.walker(&steps)
	if _, err := w.Step(r.ctx); err != nil {
		t.Fatal(err)
	}
	if n, status := r.covered(); n == 0 || n > 1000 || status.Complete || status.Covered < 1000 || status.After.Name == "" {
		t.Fatalf("after one step %d are covered: %+v", n, status)
	}
	// A step that is repeated has no effect.
	before := r.s.Checkpoint().GetRevision()
	r.do("graph", command.NewCover(steps[0].Policy, steps[0].From, steps[0].To, steps[0].Objects))
	if after := r.s.Checkpoint().GetRevision(); after != before {
		t.Fatalf("a repeated step advances the revision from %d to %d", before, after)
	}
	// Behind the walk, an object comes to match.
	r.objects("configmaps", "shop", lifecycle.Apply, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "c0004", Labels: map[string]string{"env": "prod"}}})

	restarted := r.walker(&steps)
	finish := func() (n int) {
		for {
			walked, err := restarted.Step(r.ctx)
			must.Succeed(t, err)
			if !walked {
				return n
			}
			n++
		}
	}
	if n := finish(); n == 0 || n > 3 {
		t.Fatalf("%d more steps", n)
	}
	if n, status := r.covered(); n != all*4/5+1 || !status.Complete || status.Message != "covered 2500 of 2500" {
		t.Fatalf("%d are covered: %+v", n, status)
	}

	r.objects("protectionpolicies.coppice.dev", "", lifecycle.Apply, policy("env=test"))
	if _, status := r.covered(); status.Complete {
		t.Fatalf("complete before the walk: %+v", status)
	}
	finish()
	if n, _ := r.covered(); n != all/5-1 {
		t.Fatalf("%d are covered with another selector", n)
	}

	r.objects("protectionpolicies.coppice.dev", "", func(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error) {
		at.Name = o.GetMetadata().GetName()
		return lifecycle.Delete(ctx, at, "", nil)
	}, policy(""))
	if n, _ := r.covered(); n != all/5-1 {
		t.Fatalf("%d are covered by a policy that is being deleted", n)
	}
	finish()
	r.read(func(snap *state.Snapshot) {
		if n := len(snap.Kinds().Policies()); n != 0 {
			t.Errorf("%d policies are left", n)
		}
	})
	if n, _ := r.covered(); n != 0 {
		t.Errorf("%d are covered without a policy", n)
	}
	for _, s := range steps {
		if len(s.Objects) > 1000 {
			t.Errorf("a step changes %d objects", len(s.Objects))
		}
	}
}
