package command_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
	"github.com/coppice-gc/coppice/services/graph/writertest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// commands are carried out by a writer on a state in memory.
type commands struct {
	testing.TB
	ctx context.Context
	s   *state.State
	w   *writer.Writer
}

func start(t *testing.T) *commands {
	t.Helper()
	return startWith(t, nil)
}

func startWith(t *testing.T, change func(*writer.Config)) *commands {
	t.Helper()
	w, s := writertest.Start(t, change)
	return &commands{t, testkit.Context(t), s, w}
}

type answer struct {
	reply   proto.Message
	refusal *lifecycle.Error
}

func (b *commands) do(w writer.Work) answer {
	b.Helper()
	answers := make(chan answer, 1)
	b.w.Submit(&writer.Request{Actor: "tester", Verb: "test", Work: w, Done: func(m proto.Message, err *lifecycle.Error) { answers <- answer{m, err} }})
	return testkit.Receive(b, b.ctx, "an answer", answers)
}

// carryOut does work that must not be refused, and returns its reply.
func carryOut[R proto.Message](b *commands, w writer.Work, err *lifecycle.Error) R {
	b.Helper()
	must.Succeed(b, err)
	a := b.do(w)
	if a.refusal != nil {
		b.Fatal(a.refusal)
	}
	return a.reply.(R)
}

func (b *commands) objects(resource string, decide func(*lifecycle.Context, lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error)) *command.Objects {
	return &command.Objects{
		Resource: resource, Namespace: "a", Count: 1,
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			return decide(ctx, at)
		},
	}
}

// create creates an object with these owners, and returns its manifest.
func (b *commands) create(resource, name string, owners ...*coppicev1.Object) *coppicev1.Object {
	b.Helper()
	m := &coppicev1.ObjectMeta{Name: name}
	blocking := true
	for _, o := range owners {
		m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{
			ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Name: o.GetMetadata().GetName(), Uid: o.GetMetadata().GetUid(), BlockOwnerDeletion: &blocking,
		})
	}
	reply := carryOut[*coppicev1.ObjectsReply](b, b.objects(resource, func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: m})
	}), nil)
	return reply.GetResults()[0].GetObject()
}

func (b *commands) delete(resource, name, policy string) {
	b.Helper()
	carryOut[*coppicev1.ObjectsReply](b, b.objects(resource, func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
		at.Name = name
		return lifecycle.Delete(ctx, at, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
	}), nil)
}

// node is the object as it is now, nil if it is gone.
func (b *commands) node(o *coppicev1.Object) *lifecycle.Node {
	b.Helper()
	snap := b.s.Snapshot()
	defer snap.Close()
	return snap.Node(uid.MustParse(o.GetMetadata().GetUid()))
}

func pack(objects ...*coppicev1.Object) []byte {
	var b []byte
	for _, o := range objects {
		b = append(b, uid.MustParse(o.GetMetadata().GetUid())...)
	}
	return b
}

// A12.3, A12.10: a proposal that is no longer right has no effect and is refused. It is not
// refused for objects that are gone or were collected before.
func TestPropose(t *testing.T) {
	t.Parallel()
	b := start(t)
	web, api := b.create("deployments.apps", "web"), b.create("deployments.apps", "api")
	garbage, shared, solid := b.create("pods", "garbage", web), b.create("pods", "shared", web, api), b.create("pods", "solid", api)
	gone := b.create("pods", "gone")
	b.delete("pods", "gone", lifecycle.Background)
	b.delete("deployments.apps", "web", lifecycle.Background)
	proposal := &coppicev1.ProposeRequest{Collect: pack(garbage, solid, gone), Strip: pack(shared, solid)}
	w, err := command.NewPropose(proposal)
	reply := carryOut[*coppicev1.ProposeReply](b, w, err)
	if reply.GetCollected() != 1 || reply.GetStripped() != 1 || !slices.Equal(reply.GetRefused(), pack(solid, solid)) {
		t.Errorf("the reply is %v", reply)
	}
	if reply.GetRevision() != b.s.Checkpoint().GetRevision() {
		t.Errorf("decided at %d, and the realm is at %d", reply.GetRevision(), b.s.Checkpoint().GetRevision())
	}
	if b.node(garbage) != nil || b.node(solid) == nil || len(b.node(shared).Owners) != 1 {
		t.Errorf("left: %v, %v, %v", b.node(garbage), b.node(solid), b.node(shared))
	}
	before := b.s.Checkpoint().GetRevision()
	w, err = command.NewPropose(proposal)
	if again := carryOut[*coppicev1.ProposeReply](b, w, err); again.GetCollected()+again.GetStripped() != 0 || b.s.Checkpoint().GetRevision() != before {
		t.Errorf("done twice: %v", again)
	}
}

// A dependent loses its reference to the owner that the command names, if that owner
// still orphans it.
func TestOrphan(t *testing.T) {
	t.Parallel()
	b := start(t)
	web, api := b.create("deployments.apps", "web"), b.create("deployments.apps", "api")
	both, alone := b.create("pods", "both", web, api), b.create("pods", "alone", api)
	b.delete("deployments.apps", "web", lifecycle.Orphan)
	request := &coppicev1.OrphanRequest{Groups: []*coppicev1.DependentsOf{
		{Owner: pack(web), Dependents: pack(both, alone)}, {Owner: pack(api), Dependents: pack(both, alone)},
	}}
	w, err := command.NewOrphan(request)
	if reply := carryOut[*coppicev1.OrphanReply](b, w, err); reply.GetOrphaned() != 1 {
		t.Errorf("the reply is %v", reply)
	}
	if n := b.node(both); len(n.Owners) != 1 || n.Owners[0].Name != "api" || len(b.node(alone).Owners) != 1 {
		t.Errorf("left: %+v, %+v", n, b.node(alone))
	}
}

// Objects are deleted with the namespace or the kind that they are named with,
// if they are in it and it is being deleted.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := start(t)
	web, pod := b.create("deployments.apps", "web"), b.create("pods", "pod")
	withdraw := command.Objects{
		Resource: "kinds.coppice.dev", Count: 1,
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = "pods"
			return lifecycle.Delete(ctx, at, "", nil)
		},
	}
	kind := carryOut[*coppicev1.ObjectsReply](b, &withdraw, nil).GetResults()[0].GetObject()
	request := &coppicev1.DrainRequest{Groups: []*coppicev1.DependentsOf{
		{Owner: pack(kind), Dependents: pack(web, pod, pod)}, {Owner: pack(web), Dependents: pack(web, pod)}, {Owner: pack(pod), Dependents: pack(web)},
	}}
	w, err := command.NewDrain(request)
	reply := carryOut[*coppicev1.DrainReply](b, w, err)
	if reply.GetDrained() != 1 || reply.GetRevision() != b.s.Checkpoint().GetRevision() {
		t.Errorf("the reply is %v, and the realm is at %d", reply, b.s.Checkpoint().GetRevision())
	}
	if b.node(web) == nil || b.node(pod) != nil {
		t.Errorf("left: %v, %v", b.node(web), b.node(pod))
	}
	finish, err := command.NewFinish(&coppicev1.FinishRequest{Finalizer: lifecycle.FinalizerContents, Uids: pack(kind)}, nil)
	if reply := carryOut[*coppicev1.FinishReply](b, finish, err); reply.GetFinished() != 1 || b.node(kind) != nil {
		t.Errorf("the reply is %v; left: %v", reply, b.node(kind))
	}
}

// A built-in finalizer goes when it is done, and not before.
func TestFinish(t *testing.T) {
	t.Parallel()
	b := start(t)
	web, api := b.create("deployments.apps", "web"), b.create("deployments.apps", "api")
	b.create("pods", "a", web)
	b.delete("deployments.apps", "web", lifecycle.Foreground)
	b.delete("deployments.apps", "api", lifecycle.Foreground)
	w, err := command.NewFinish(&coppicev1.FinishRequest{Finalizer: lifecycle.FinalizerForeground, Uids: pack(web, api)}, nil)
	reply := carryOut[*coppicev1.FinishReply](b, w, err)
	if reply.GetFinished() != 1 || !slices.Equal(reply.GetRefused(), pack(web)) {
		t.Errorf("the reply is %v", reply)
	}
	if b.node(api) != nil || !b.node(web).HasFinalizer(lifecycle.FinalizerForeground) {
		t.Errorf("left: %v, %v", b.node(api), b.node(web))
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	bad := []byte{0x7f}
	for name, read := range map[string]func() *lifecycle.Error{
		"collect": func() *lifecycle.Error {
			_, err := command.NewPropose(&coppicev1.ProposeRequest{Collect: bad})
			return err
		},
		"strip": func() *lifecycle.Error {
			_, err := command.NewPropose(&coppicev1.ProposeRequest{Strip: bad})
			return err
		},
		"uids": func() *lifecycle.Error {
			_, err := command.NewFinish(&coppicev1.FinishRequest{Finalizer: "orphan", Uids: bad}, nil)
			return err
		},
		"not built in": func() *lifecycle.Error {
			_, err := command.NewFinish(&coppicev1.FinishRequest{Finalizer: "example.com/x"}, nil)
			return err
		},
		"groups[0].owner": func() *lifecycle.Error {
			_, err := command.NewOrphan(&coppicev1.OrphanRequest{Groups: []*coppicev1.DependentsOf{{Owner: bad}}})
			return err
		},
		"groups[0].dependents": func() *lifecycle.Error {
			_, err := command.NewDrain(&coppicev1.DrainRequest{Groups: []*coppicev1.DependentsOf{{Owner: []byte(uid.MustParse("a")), Dependents: bad}}})
			return err
		},
	} {
		if err := read(); err == nil || err.Reason != api.ErrBadRequest {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Message, name) {
			t.Errorf("%q does not say %q", err.Message, name)
		}
	}
}

// The reply to a batch has a result for each object. An atomic batch with a refusal is
// refused, names the object, and changes nothing.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.create("pods", "b")
	names := []string{"a", "b", "c"}
	batch := func(change func(*command.Objects)) *command.Objects {
		o := &command.Objects{
			Resource: "pods", Namespace: "a", Count: len(names),
			Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
				return lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: names[i]}})
			},
		}
		change(o)
		return o
	}
	before := b.s.Checkpoint().GetRevision()
	a := b.do(batch(func(o *command.Objects) { o.Atomic = true }))
	if a.refusal == nil || a.refusal.Reason != api.ErrAlreadyExists || a.refusal.Index != 1 {
		t.Errorf("atomic: %v, %v", a.reply, a.refusal)
	}
	codes := func(o *command.Objects) string {
		var list []uint32
		for _, r := range carryOut[*coppicev1.ObjectsReply](b, o, nil).GetResults() {
			list = append(list, r.GetCode())
		}
		return fmt.Sprint(list)
	}
	if got := codes(batch(func(o *command.Objects) { o.DryRun = true })); got != "[201 409 201]" {
		t.Errorf("dry run: %s", got)
	}
	if after := b.s.Checkpoint().GetRevision(); after != before {
		t.Errorf("the realm went from %d to %d", before, after)
	}
	if got := codes(batch(func(*command.Objects) {})); got != "[201 409 201]" {
		t.Errorf("each for itself: %s", got)
	}
	if a := b.do(batch(func(o *command.Objects) { o.Resource = "widgets.example.com" })); a.refusal == nil || a.refusal.Reason != api.ErrUnknownKind {
		t.Errorf("an unknown kind: %v", a.refusal)
	}
}

// What the results of a batch may need together is estimated, and may be more than a commit has. A batch that
// changes nothing is answered also then, and a dry run and an atomic batch are, which have no parts.
func TestLargeBatchThatChangesNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	m := &coppicev1.ObjectMeta{Name: "wide"}
	for i := range 1000 {
		m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/finalizer-%d", i))
	}
	carryOut[*coppicev1.ObjectsReply](b, b.objects("pods", func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: m})
	}), nil)
	b.delete("pods", "wide", "Background")
	const objects = 200
	for name, change := range map[string]func(*command.Objects){
		"each": func(*command.Objects) {}, "atomic": func(o *command.Objects) { o.Atomic = true }, "dry run": func(o *command.Objects) { o.DryRun = true },
	} {
		batch := &command.Objects{
			Resource: "pods", Namespace: "a", Count: objects,
			Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
				at.Name = "wide"
				return lifecycle.Delete(ctx, at, "", nil)
			},
		}
		change(batch)
		a := b.do(batch)
		if a.refusal != nil {
			t.Errorf("%s: %v", name, a.refusal)
			continue
		}
		reply := a.reply.(*coppicev1.ObjectsReply)
		for i, r := range reply.GetResults() {
			if r.GetCode() != 202 {
				t.Fatalf("%s: object %d: %v", name, i, r)
			}
		}
		if len(reply.GetResults()) != objects {
			t.Errorf("%s: %d results", name, len(reply.GetResults()))
		}
	}
}
