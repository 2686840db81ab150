package writer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// work is the work of one decision about config maps.
func work(decide func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error), name string) *writer.Request {
	return &writer.Request{Work: &command.Objects{
		Resource: "configmaps", Namespace: "a", Count: 1, Name: func(int) string { return name },
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			return decide(ctx, at)
		},
	}}
}

// A fold of the log lets through what the writer does, also if a later command of the commit
// of a release changes the owners of an object, removes it, or creates one that was absent.
func TestReleaseInACommit(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	uids := map[string]uid.UID{}
	for _, name := range []string{"kept", "adopted", "removed"} {
		uids[name] = uid.MustParse(b.do(create(name)).objects(t)[0].GetObject().GetMetadata().GetUid())
	}
	uids["imported"] = uid.New()
	all := []uid.UID{uids["kept"], uids["adopted"], uids["removed"], uids["imported"]}

	first, release := b.underWay()
	answers := []<-chan answer{
		b.submit(&writer.Request{Work: &command.ReleaseBrake{Resource: "configmaps", UIDs: slices.Clone(all), Revision: 1 << 40}}),
		b.submit(work(func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
			o := configMap("adopted")
			o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "kept", Uid: uids["kept"].String()}}
			return lifecycle.Update(ctx, at, o)
		}, "adopted")),
		b.submit(remove("removed")),
		b.submit(work(func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
			o := configMap("imported")
			o.Metadata.Uid = uids["imported"].String()
			return lifecycle.Import(ctx, at, "", o)
		}, "imported")),
	}
	release()
	testkit.Receive(t, b.ctx, "the first answer", first).objects(t)
	for _, a := range answers {
		if got := testkit.Receive(t, b.ctx, "an answer", a); got.err != nil {
			t.Fatal(got.err)
		}
	}
	must.Succeed(t, b.end())
	folded, _ := b.fold()
	snap := b.state.Snapshot()
	defer snap.Close()
	for name, u := range uids {
		if got, want := folded.Released(u), name == "kept"; got != want || snap.Released(u) != want {
			t.Errorf("%s is let through: %t, by the fold of the log %t, want %t", name, snap.Released(u), got, want)
		}
	}
}

// fold folds the log, and returns the result and the number of commits that let something through.
func (b *memWriter) fold() (folded *state.Tx, releases int) {
	b.t.Helper()
	s, err := state.Open("fold", state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20})
	must.Succeed(b.t, err)
	b.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	})
	folded = s.Begin()
	for _, c := range b.log.check(b.t) {
		must.Succeed(b.t, c.Each(func(e *eventlog.Entry) error {
			_, err := folded.Add(e.Event, e.Revision, e.Body)
			return err
		}))
		if folded.LetThrough(c.Released); len(c.Released) > 0 {
			releases++
		}
	}
	return folded, releases
}

// What a release lets through is recorded by more than one commit, if the NATS server takes small
// messages only. The writer tried 4,000 uids without end, which no commit of 64 KiB can have. Imported
// uids can be longer than those of Coppice.
func TestReleaseLargerThanACommit(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	var uids []uid.UID
	for i := range uint64(30) {
		var objects []*coppicev1.Object
		for j := range 100 {
			o := configMap(fmt.Sprintf("n-%02d-%02d", i, j))
			o.Metadata.Uid = strings.Repeat("u", 100) + o.Metadata.Name
			objects = append(objects, o)
			uids = append(uids, uid.MustParse(o.Metadata.Uid))
		}
		work := creation(objects...)
		work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, k int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Import(ctx, at, "", proto.Clone(objects[k]).(*coppicev1.Object))
		}
		for _, r := range b.do(withID(1+i, &writer.Request{Work: work})).objects(t) {
			if r.GetCode() != 201 {
				t.Fatalf("%v", r)
			}
		}
	}
	slices.Sort(uids)
	got := b.do(withID(100, &writer.Request{Work: &command.ReleaseBrake{Resource: "configmaps", UIDs: slices.Clone(uids), Revision: 1 << 40}}))
	if reply, _ := got.reply.(*coppicev1.ReleaseBrakeReply); got.err != nil || reply.GetReleased() != uint64(len(uids)) {
		t.Fatalf("the release replied %v, %v", got.reply, got.err)
	}
	must.Succeed(t, b.end())
	folded, releases := b.fold()
	if releases < 2 {
		t.Errorf("%d commits have what is let through, want several", releases)
	}
	snap := b.state.Snapshot()
	defer snap.Close()
	for _, u := range uids {
		if !snap.Released(u) || !folded.Released(u) {
			t.Fatalf("%v is let through: %t, by the fold of the log %t", u, snap.Released(u), folded.Released(u))
		}
	}
}

// notice is the work of giving or withdrawing a notice about objects.
type notice struct {
	objects []uid.UID
	lifecycle.Notice
}

func (n *notice) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	for _, u := range n.objects {
		if !d.Notice(u, n.Notice) {
			return false, nil
		}
	}
	return true, nil
}

func (*notice) ReplyInLog() bool { return false }

func (*notice) NewReply() proto.Message { return &coppicev1.VetoReply{} }

func (*notice) Reply(*writer.OpenCommit) proto.Message { return &coppicev1.VetoReply{} }

// What the end of a commit records belongs to the command that did it, and not to the last command of the commit: an
// audit names its actor.
func TestTailOfACommitNamesActors(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	var uids []uid.UID
	for _, name := range []string{"a", "b", "c", "d"} {
		uids = append(uids, uid.MustParse(b.do(create(name)).objects(t)[0].GetObject().GetMetadata().GetUid()))
	}
	policy := uid.New()
	given := func(actor string, objects ...uid.UID) *writer.Request {
		n := lifecycle.Notice{Policy: policy, Generation: 1, Given: 1, Ends: 2, Answer: lifecycle.NoticeAnswer{Actor: "same", Until: 3}}
		return &writer.Request{Actor: actor, Work: &notice{objects, n}}
	}
	let := func(actor string, u uid.UID) *writer.Request {
		return &writer.Request{Actor: actor, Work: &command.ReleaseBrake{Resource: "configmaps", UIDs: []uid.UID{u}, Revision: 1 << 40}}
	}
	first, release := b.underWay()
	last := create("last")
	last.Actor = "bert"
	var answers []<-chan answer
	for _, r := range []*writer.Request{let("olga", uids[0]), given("victor", uids[0], uids[1]), let("otto", uids[1]), given("vera", uids[1], uids[2]), last} {
		answers = append(answers, b.submit(r))
	}
	release()
	testkit.Receive(t, b.ctx, "the first answer", first)
	for _, a := range answers {
		if got := testkit.Receive(t, b.ctx, "an answer", a); got.err != nil {
			t.Fatal(got.err)
		}
	}
	must.Succeed(t, b.end())
	got := map[string]string{}
	for _, c := range b.log.commits {
		var commit coppicev1.Commit
		must.Succeed(t, proto.Unmarshal(c, &commit))
		by := func(what string, e *coppicev1.Event, packed []byte) {
			for u := range uid.All(packed) {
				got[fmt.Sprint(what, slices.Index(uids, u))] = commit.GetCommands()[e.GetCommand()].GetActor()
			}
		}
		for _, e := range commit.GetEvents() {
			by("released", e, e.GetReleased().GetUids())
			by("noticed", e, e.GetNotice().GetUids())
		}
	}
	want := map[string]string{"released0": "olga", "released1": "otto", "noticed0": "victor", "noticed1": "vera", "noticed2": "vera"}
	if !maps.Equal(got, want) {
		t.Errorf("the log says %v, want %v", got, want)
	}
}
