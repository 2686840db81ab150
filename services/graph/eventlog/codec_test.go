package eventlog_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// said is one event of a commit as text, which can be compared.
func said(revision uint64, e *lifecycle.Event, body []byte) string {
	s := fmt.Sprintf("%d: type %d of %s, %s by %d, finalizers %q", revision, e.Type, e.UID, e.Reason, e.Cause, e.Finalizers)
	if e.Object.Node != nil {
		n := *e.Object.Node
		n.Revision = 0 // the event's
		s += fmt.Sprintf(", object %v", lifecycle.Object{Node: &n}.API())
	}
	if e.Type == lifecycle.DeletionMarked {
		s += fmt.Sprintf(", mark %d %d %d %q", e.Mark.Time, e.Mark.Generation, e.Mark.AwaitedGeneration, e.Mark.Finalizers)
		if e.Mark.GracePeriod != nil {
			s += fmt.Sprintf(" grace %d", *e.Mark.GracePeriod)
		}
	}
	for _, r := range e.References {
		s += fmt.Sprintf(", reference %s %s %s %s", r.APIVersion, r.Kind, r.Name, r.UID)
	}
	return s + fmt.Sprintf(", body %q", body)
}

// play draws commands in a realm and adds their events to a commit.
func play(t *rapid.T, realm *lifecycletest.Realm, b *eventlog.Builder) (want []string, names []string) {
	for i := range rapid.IntRange(1, 12).Draw(t, "commands") {
		b.Begin(eventlog.Command{Actor: "ana", Verb: "test"})
		before := map[uid.UID]*lifecycle.Node{}
		for _, u := range realm.UIDs() {
			before[u] = realm.Node(u)
		}
		for _, e := range realm.RandomEvents(t) {
			n := before[e.UID]
			if n == nil {
				n = e.Object.Node
			}
			body, err := state.Encode(e.Object.Body)
			must.Succeed(t, err)
			resource := realm.Kinds().OfNode(n).Resource()
			size := b.Size()
			revision := b.Add(&e, n, resource, body)
			if grown, bound := b.Size()-size, eventlog.Bound(&e, n, resource, body); grown > bound {
				t.Fatalf("event %+v made the commit grow by %d bytes, Bound said %d", e, grown, bound)
			}
			want = append(want, said(revision, &e, body))
			names = append(names, fmt.Sprintf("%d: %s %s/%s", revision, resource, n.Namespace, n.Name))
		}
		b.End(eventlog.CommandRef{ID: [16]byte{byte(i + 1)}, PreviousPart: uint64(i % 3), Unfinished: i%2 == 1}, []byte("reply"))
	}
	return want, names
}

func TestCommitSurvivesTheLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		realm := lifecycletest.New()
		realm.Restless = true
		h := eventlog.Header{
			RealmID: [16]byte{1}, ID: [16]byte{2}, Previous: rapid.Uint64().Draw(t, "previous"),
			Epoch: 3, Time: realm.Clock, FirstRevision: realm.Revision + 1,
			Sequence: 9, Key: 1, Format: commitcodec.BaseFormat,
		}
		b := eventlog.NewBuilder(h)
		newKey := eventlog.KeyID{Number: rapid.Uint32Range(0, 2).Draw(t, "new key"), Fingerprint: [8]byte{1}}
		if newKey.Number == 0 {
			newKey = eventlog.KeyID{}
		} else {
			b.NewKey(newKey)
		}
		b.Begin(eventlog.Command{Actor: "graph", Verb: "epoch"})
		want, names := play(t, realm, b)
		// Only what stays in the commit after Reset decides its format.
		if slices.ContainsFunc(want, func(s string) bool { return strings.Contains(s, "sharedNamespaces") }) {
			h.Format = commitcodec.FormatNotice
		}
		if slices.ContainsFunc(want, func(s string) bool { return strings.Contains(s, `\"blockOwnerDeletion\":`) }) {
			h.Format = commitcodec.FormatBlockOwnerDeletion
		}
		mark := b.Mark()
		revision := b.Revision()
		play(t, realm, b)
		b.Reset(mark)
		if b.Revision() != revision {
			t.Fatalf("revision %d after Reset, want %d", b.Revision(), revision)
		}
		b.Session("s", true)
		realms := []lifecycle.RealmChange{{Origin: lifecycle.Origin{RealmID: [16]byte{1}, Sequence: 8}, Paused: true}, {}}
		for _, r := range realms {
			b.Realm(r)
		}
		size := b.Size()
		enc := b.Bytes()
		if len(enc) > size {
			t.Fatalf("the commit has %d bytes, Size said %d", len(enc), size)
		}

		message, err := keys.Seal(slices.Clone(enc), 11)
		must.Succeed(t, err)
		if opened, err := envelope.Open(message); err != nil || !bytes.Equal(opened, enc) {
			t.Fatalf("of %d bytes %d came out of the envelope, %v", len(enc), len(opened), err)
		}
		if got, foreign := keys.Check(eventlog.Message{Position: 11, Data: message}); got != h || foreign != "" {
			t.Fatalf("the message has header %+v, and %q", got, foreign)
		}
		c, err := eventlog.Decode(enc)
		must.Succeed(t, err)
		if got, err := eventlog.NewKeyOf(enc); c.Header != h || c.NewKey != newKey || got != newKey || err != nil {
			t.Fatalf("header %+v, want %+v; key %+v and %+v, want %+v, %v", c.Header, h, c.NewKey, got, newKey, err)
		}
		if n, err := commitcodec.CountEvents(enc); n != uint64(len(want)) || err != nil {
			t.Fatalf("%d events are counted, %v; want %d", n, err, len(want))
		}
		if !reflect.DeepEqual(c.Sessions, []eventlog.Session{{ID: "s", Closed: true}}) {
			t.Fatalf("sessions %v", c.Sessions)
		}
		if !reflect.DeepEqual(c.Realm, realms) {
			t.Fatalf("changes of the realm %v", c.Realm)
		}
		var got []string
		must.Succeed(t, c.Each(func(e *eventlog.Entry) error {
			got = append(got, said(e.Revision, e.Event, e.Body))
			if n := e.Object.Node; n != nil && (e.Object.Body != nil) != (e.Body != nil && lifecycle.Governs(n)) {
				t.Fatalf("the body of %s %q is decoded: %t", n.Kind, n.Name, e.Object.Body != nil)
			}
			return nil
		}))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got\n%q\nwant\n%q", got, want)
		}
		summarized(t, enc)
		filtered(t, enc)
		var p coppicev1.Commit
		must.Succeed(t, proto.Unmarshal(enc, &p))
		if got := namesOf(&p); !reflect.DeepEqual(got, names) {
			t.Fatalf("names\n%q\nwant\n%q", got, names)
		}
		for i, command := range p.GetCommands() {
			var id [16]byte
			copy(id[:], command.GetId())
			reply, err := c.Reply(i)
			ref := eventlog.CommandRef{ID: id, Actor: command.GetActor(), PreviousPart: command.GetPreviousPart(), Unfinished: command.GetUnfinished()}
			if ref != c.Commands[i] || err != nil || string(reply) != string(command.GetReply()) {
				t.Fatalf("command %d is %+v with reply %q, %v; generated code reads %v", i, c.Commands[i], reply, err, command)
			}
			if i > 0 && (ref.PreviousPart != uint64((i-1)%3) || ref.Unfinished != ((i-1)%2 == 1)) {
				t.Fatalf("command %d is %+v", i, ref)
			}
			actor, wantID, want := "ana", [16]byte{byte(i)}, "reply"
			if i == 0 {
				actor, want = "graph", ""
			}
			if command.GetActor() != actor || id != wantID || string(reply) != want {
				t.Fatalf("command %d is %v", i, command)
			}
		}
	})
}

// summarized compares the results of Removals and References with those of Each.
func summarized(t *rapid.T, commit []byte) {
	c, err := eventlog.Decode(commit)
	must.Succeed(t, err)
	var removed, wantRemoved []uid.UID
	var referred, wantReferred []string
	commitSummary := func(e *lifecycle.Event) string {
		return said(0, &lifecycle.Event{
			Type: e.Type, UID: e.UID, Object: lifecycle.Object{Node: e.Object.Node}, References: e.References,
		}, nil)
	}
	must.Succeed(t, c.Each(func(e *eventlog.Entry) error {
		switch e.Type {
		case lifecycle.ObjectDeleted:
			wantRemoved = append(wantRemoved, e.UID)
		case lifecycle.ObjectCreated, lifecycle.ObjectUpdated, lifecycle.OwnerReferencesRemoved:
			wantReferred = append(wantReferred, commitSummary(e.Event))
		}
		return nil
	}))
	if err := eventlog.Removals(commit, func(u uid.UID) { removed = append(removed, u) }); err != nil || !slices.Equal(removed, wantRemoved) {
		t.Fatalf("removals %v, %v, want %v", removed, err, wantRemoved)
	}
	if err := eventlog.References(commit, func(e *lifecycle.Event) { referred = append(referred, commitSummary(e)) }); err != nil || !slices.Equal(referred, wantReferred) {
		t.Fatalf("references %q, %v, want %q", referred, err, wantReferred)
	}
}

// filtered unpacks a commit without some of its objects, and compares the events of the
// others, and their revisions, with those of the complete commit.
func filtered(t *rapid.T, commit []byte) {
	few := map[uid.UID]uint64{}
	unpack := func(filter eventlog.Filter) (all []string, existing []uid.UID) {
		c, err := eventlog.Decode(commit)
		if err == nil {
			err = c.Unpack(filter)
		}
		must.Succeed(t, err)
		must.Succeed(t, c.Each(func(e *eventlog.Entry) error {
			identity, pass := few[e.UID]
			if e.Passed != (pass && filter != nil) || e.Passed && e.Identity != identity {
				t.Fatalf("%s is passed: %t as %d, want %t as %d", e.UID, e.Passed, e.Identity, pass, identity)
			}
			if filter == nil && rapid.IntRange(0, 2).Draw(t, "few") == 0 {
				few[e.UID] = e.Revision
			}
			if pass && filter != nil {
				all = append(all, fmt.Sprintf("%d: type %d of %s is passed", e.Revision, e.Type, e.UID))
			} else {
				all = append(all, said(e.Revision, e.Event, e.Body))
			}
			return nil
		}))
		return all, c.Existing()
	}
	all, existing := unpack(nil)
	some, left := unpack(func(u uid.UID) (identity uint64, pass bool) {
		identity, pass = few[u]
		return identity, pass
	})
	if len(all) != len(some) {
		t.Fatalf("%d events, want %d", len(some), len(all))
	}
	for i := range all {
		if strings.HasSuffix(some[i], "is passed") {
			all[i], _, _ = strings.Cut(all[i], ",")
			some[i] = strings.TrimSuffix(some[i], " is passed")
		}
		if some[i] != all[i] {
			t.Fatalf("event %q, want %q", some[i], all[i])
		}
	}
	existing = slices.DeleteFunc(existing, func(u uid.UID) bool { _, pass := few[u]; return pass })
	if !slices.Equal(left, existing) {
		t.Fatalf("%v exist, want %v", left, existing)
	}
}

// namesOf expands the columns as a reader with generated code does.
func namesOf(c *coppicev1.Commit) []string {
	var names []string
	revision := c.GetFirstRevision()
	add := func(resource, namespace, name string) {
		names = append(names, fmt.Sprintf("%d: %s %s/%s", revision, resource, namespace, name))
		revision++
	}
	at := func(column []uint32, i int, table []string) string {
		if len(column) == 1 {
			i = 0
		}
		return table[column[i]]
	}
	kinds := lifecycletest.New().Kinds()
	for _, e := range c.GetEvents() {
		n := e.GetCreated().GetNode()
		if n == nil {
			n = e.GetUpdated().GetNode()
		}
		if n != nil {
			add(kinds.Of(lifecycle.GroupOf(n.GetApiVersion()), n.GetKind()).Resource(), n.GetNamespace(), n.GetName())
			continue
		}
		var ids *coppicev1.Identities
		for _, has := range []interface{ GetObjects() *coppicev1.Identities }{e.GetDeleted(), e.GetOwnerReferencesRemoved(), e.GetFinalizerRemoved()} {
			if has.GetObjects() != nil {
				ids = has.GetObjects()
			}
		}
		if m := e.GetDeletionMarked(); m != nil {
			ids = m.GetObject()
		}
		for i, name := range ids.GetNames() {
			add(at(ids.GetResources(), i, c.GetResources()), at(ids.GetNamespaces(), i, c.GetNamespaces()), name)
		}
	}
	return names
}

func FuzzDecode(f *testing.F) {
	b := eventlog.NewBuilder(eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{2}, Epoch: 1, FirstRevision: 1})
	b.Begin(eventlog.Command{Actor: "ana", Verb: "delete"})
	n := &lifecycle.Node{UID: uid.MustParse("a"), APIVersion: "v1", Kind: "Pod", Name: "x"}
	b.Add(&lifecycle.Event{Type: lifecycle.ObjectCreated, UID: n.UID, Object: lifecycle.Object{Node: n}}, n, "pods", []byte{})
	b.Add(&lifecycle.Event{Type: lifecycle.DeletionMarked, UID: n.UID, Mark: lifecycle.Mark{Time: 1, Finalizers: []string{"x/y"}}}, n, "pods", nil)
	b.Add(&lifecycle.Event{Type: lifecycle.ObjectDeleted, UID: n.UID, Finalizers: []string{"x/y"}, Cause: 2}, n, "pods", nil)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = eventlog.Removals(b, func(u uid.UID) {
			if !u.Valid() {
				t.Fatalf("a removal of %q", string(u))
			}
		})
		_ = eventlog.References(b, func(e *lifecycle.Event) {
			if !e.UID.Valid() {
				t.Fatalf("an owner change of %q", string(e.UID))
			}
		})
		c, err := eventlog.Decode(b)
		if err != nil {
			return
		}
		_ = c.Each(func(e *eventlog.Entry) error {
			if !e.UID.Valid() {
				t.Fatalf("an event of %q", string(e.UID))
			}
			return nil
		})
	})
}
