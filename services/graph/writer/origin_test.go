package writer_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// continued ends the writer of a realm with an object, and begins a realm that continues its
// log on another one. It returns the chain at the end of the first.
func continued(t *testing.T) (b *memWriter, before eventlog.Chain) {
	t.Helper()
	b = start(t, nil)
	b.do(withID(1, create("one"))).objects(t)
	return b, b.continueOn(func(*writer.Config) {})
}

// continueOn is continued for a realm that has its objects. It returns the chain at its end.
func (b *memWriter) continueOn(change func(*writer.Config)) (before eventlog.Chain) {
	t := b.t
	t.Helper()
	must.Succeed(t, b.end())
	before = eventlog.ChainOf(b.state.Checkpoint())
	b.log = newLog()
	b.log.begins = before.Sequence + 1
	b.restartWith(func(c *writer.Config) {
		change(c)
		c.Origin = &lifecycle.Origin{RealmID: before.RealmID, Sequence: before.Sequence}
		c.NewestKey = func([16]byte) eventlog.KeyID { return eventlog.KeyID{Number: 1, Fingerprint: [8]byte{7}} }
	})
	return before
}

// A realm that continues another one has a new id and key, and its first commit continues the
// other's chain: sequence, checksum, revision. It is the first message of the stream, behind the
// other's last position.
func TestOrigin(t *testing.T) {
	t.Parallel()
	b, before := continued(t)
	if n := b.log.length(); n != 1 {
		t.Fatalf("the log has %d commits", n)
	}
	c, err := eventlog.Decode(b.log.commits[0])
	must.Succeed(t, err)
	origin := lifecycle.Origin{RealmID: before.RealmID, Sequence: before.Sequence}
	if c.RealmID == before.RealmID || c.RealmID == ([16]byte{}) || c.NewKey.Fingerprint[0] != 7 {
		t.Errorf("the realm has id %x, and had %x; its key is %v", c.RealmID, before.RealmID, c.NewKey)
	}
	if c.Sequence != before.Sequence+1 || c.Previous != before.Checksum || c.Epoch != before.Epoch+1 || c.FirstRevision != before.Revision+1 {
		t.Errorf("the first commit is %+v, after %+v", c.Header, before)
	}
	since := c.Realm[0].Since // see TestPausedTime
	if len(c.Realm) != 1 || c.Realm[0] != (lifecycle.RealmChange{Origin: origin, Paused: true, Since: since}) {
		t.Errorf("the first commit records %+v", c.Realm)
	}
	cp := b.state.Checkpoint()
	realm := lifecycle.Realm{Origin: origin, Paused: true, Pauses: lifecycle.Pauses{{From: since, Until: lifecycle.Never}}}
	if cp.GetPosition() != before.Position+1 || !reflect.DeepEqual(b.state.Realm(), realm) || !b.there()["one"] {
		t.Errorf("the state is at %v, the realm is %+v, and has %v", cp, b.state.Realm(), b.there())
	}
	for sequence, want := range map[uint64]uint64{before.Sequence: before.Position, before.Sequence + 1: before.Position + 1} {
		if at, err := b.state.Position(sequence); at != want || err != nil {
			t.Errorf("commit %d is at %d, %v; want %d", sequence, at, err, want)
		}
	}
}

// While a realm is paused, every command but resume is refused, and can be retried. The pause
// outlasts the writer, and resume ends it for all later ones.
func TestPaused(t *testing.T) {
	t.Parallel()
	b, _ := continued(t)
	refused := func(r *writer.Request) {
		t.Helper()
		a := b.do(r)
		if a.err == nil || a.err.Reason != api.ErrServiceUnavailable || a.err.RetryAfter == 0 || !strings.Contains(a.err.Message, "coppice realm resume test") {
			t.Errorf("got %v, %v", a.reply, a.err)
		}
	}
	refused(create("two"))
	refused(withID(2, create("two")))
	refused(remove("one"))
	b.restart()
	refused(create("two"))
	resume := func(resumed bool) {
		t.Helper()
		a := b.do(withID(3, &writer.Request{Work: &command.Resume{}}))
		if a.err != nil || a.reply.(*coppicev1.ResumeReply).GetResumed() != resumed {
			t.Errorf("got %v, %v", a.reply, a.err)
		}
	}
	at := b.revision()
	resume(true)
	resume(true) // the same command: the same outcome
	if b.revision() != at {
		t.Error("the end of the pause has a revision")
	}
	if a := b.do(&writer.Request{Work: &command.Resume{}}); a.err != nil || a.reply.(*coppicev1.ResumeReply).GetResumed() {
		t.Errorf("another resume: %v, %v", a.reply, a.err)
	}
	b.do(create("two")).objects(t)
	b.restart()
	b.do(create("three")).objects(t)
	if there := b.there(); len(there) != 3 {
		t.Errorf("there are %v", there)
	}
	if r := b.state.Realm(); r.Paused || r.Origin.Sequence == 0 {
		t.Errorf("the realm is %+v", r)
	}
}

// The time of the outage and of the pause does not count against an import session and the grace
// of owners that it has not brought yet.
func TestPausedTime(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	o := configMap("dependent")
	o.Metadata.Uid = uuid.NewString()
	o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "owner", Uid: uuid.NewString()}}
	work := creation(o)
	work.Session = "import-1"
	work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Import(ctx, at, work.Session, proto.CloneOf(o))
	}
	b.do(&writer.Request{Work: work}).objects(t)
	c.step(4 * time.Minute)
	b.do(create("last")).objects(t)
	last := c.now()
	unknown := func(what string, until lifecycle.Time) {
		t.Helper()
		snap := b.state.Snapshot()
		defer snap.Close()
		n := snap.Node(uid.MustParse(o.Metadata.Uid))
		for _, now := range []lifecycle.Time{c.now(), until - 1, until} {
			of := lifecycle.NewClassifier(snap, n, now)
			got := of.Classify(&n.Owners[0])
			if unknown := got.Class == lifecycle.Unknown; unknown != (now < until) || unknown && got.Until != until {
				t.Errorf("%s, at %v: %+v, want unknown until %v", what, now.Time(), got, until.Time())
			}
		}
		if _, due := lifecycle.PendingWhen(snap, n.Owners[0].UID, nil); due.First != until {
			t.Errorf("%s: the dependents are due at %v, want at %v", what, due.First.Time(), until.Time())
		}
		if is := snap.Session(work.Session).Expires; is != until {
			t.Errorf("%s: the session ends at %v, want %v", what, is.Time(), until.Time())
		}
	}
	unknown("before", last.Add(6*time.Minute))

	c.step(time.Hour)
	b.continueOn(c.set)
	if is := b.state.Realm().Pauses; len(is) != 1 || is[0].From != last {
		t.Errorf("the pauses are %v, want one from %v", is, last)
	}
	c.step(time.Hour)
	unknown("paused", lifecycle.Never)
	b.do(&writer.Request{Work: &command.Resume{}})
	unknown("resumed", c.in(6*time.Minute))

	c.step(time.Minute)
	work = creation() // another session, whose commit deletes the sessions that have ended
	work.Session = "import-2"
	b.do(&writer.Request{Work: work})
	work.Session = "import-1"
	b.restartWith(c.set)
	unknown("after a restart", c.in(5*time.Minute))

	c.step(5 * time.Minute)
	b.do(create("another")).objects(t)
	unknown("at the end", c.now())
}

// A repeated command whose commit is not in the stream has an unknown outcome: it was carried
// out in the realm that this one continues.
func TestCommandOfOrigin(t *testing.T) {
	t.Parallel()
	b, _ := continued(t)
	if a := b.do(withID(1, create("one"))); a.err == nil || a.err.Reason != api.ErrOutcomeUnknown {
		t.Errorf("got %v, %v", a.reply, a.err)
	}
}
