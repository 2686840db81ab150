package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// auditor reads the log from its beginning, commit by commit. It fails the test for a gap,
// a repetition, a fork, a second writer in one epoch, and the removal of an object that was
// blocked. It knows only the objects that these tests create: a reference is valid if uid,
// kind, name and namespace agree.
type auditor struct {
	t *testing.T

	realm    []byte
	sequence uint64
	revision uint64
	epoch    uint64
	time     int64
	checksum uint64
	commits  map[string]bool
	commands map[uuid.UUID][]effect // those with an id
	epochs   map[uuid.UUID]uint64   // the epoch of the command, or of its last part
	parts    map[uuid.UUID]uint64   // sequence of the last part of commands with further parts
	objects  map[string]*object     // by uid
	children map[string]map[string]*object
	watched  map[string]string // by uid: names of the objects that were in the namespace histories
	changes  []change          // of these objects
}

// effect is an event of a command for one object.
type effect struct {
	uid      string
	revision uint64
}

// object has the fields of an object that decide whether it may be removed.
type object struct {
	uid         string
	ns          string
	kind, name  string
	owners      []*coppicev1.NodeOwner
	finalizers  []string
	terminating bool
}

func newAuditor(t *testing.T) *auditor {
	t.Helper()
	return &auditor{
		t: t, commits: map[string]bool{}, commands: map[uuid.UUID][]effect{}, epochs: map[uuid.UUID]uint64{}, parts: map[uuid.UUID]uint64{},
		objects: map[string]*object{}, children: map[string]map[string]*object{}, watched: map[string]string{},
	}
}

// read reads the new commits of the log. It returns an error if the log cannot be read, and
// fails the test if a commit violates a rule.
func (a *auditor) read(ctx context.Context, nc *nats.Conn) error {
	a.t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	if err != nil {
		return err
	}
	for last := stream.CachedInfo().State.LastSeq; a.sequence < last; {
		m, err := stream.GetMsg(ctx, a.sequence+1)
		if err != nil {
			return fmt.Errorf("sequence %d of the log: %w", a.sequence+1, err)
		}
		if err := a.commit(m.Data); err != nil {
			a.t.Fatalf("sequence %d of the log: %v", m.Sequence, err)
		}
	}
	return nil
}

// mustRead is read for a log that must be readable.
func (a *auditor) mustRead(ctx context.Context, nc *nats.Conn) {
	a.t.Helper()
	must.Succeed(a.t, a.read(ctx, nc))
}

// commit folds the next message. It returns an error if the rest of the log cannot be
// understood, and fails the test for other violations.
func (a *auditor) commit(data []byte) error {
	data, err := envelope.Open(data)
	if err != nil {
		return err
	}
	var c coppicev1.Commit
	if err := proto.Unmarshal(data, &c); err != nil {
		return err
	}
	if a.realm == nil {
		a.realm = c.GetRealmId()
	}
	begins := len(c.GetCommands()) > 0 && slices.Contains([]string{"epoch", "genesis"}, c.GetCommands()[0].GetVerb())
	epoch := a.epoch
	if begins {
		epoch++
	}
	switch {
	case string(c.GetRealmId()) != string(a.realm):
		return fmt.Errorf("it is of realm %x, not %x", c.GetRealmId(), a.realm)
	case c.GetPreviousChecksum() != a.checksum:
		return fmt.Errorf("it names another message before it")
	case c.GetFirstRevision() != a.revision+1:
		return fmt.Errorf("its first revision is %d, after %d", c.GetFirstRevision(), a.revision)
	case c.GetEpoch() != epoch:
		return fmt.Errorf("its epoch is %d; a writer of epoch %d was to come", c.GetEpoch(), epoch)
	case c.GetTime() < a.time:
		return fmt.Errorf("its time is %d, after %d", c.GetTime(), a.time)
	case a.commits[string(c.GetId())]:
		return fmt.Errorf("commit %x is there twice", c.GetId())
	}
	a.commits[string(c.GetId())] = true
	a.sequence, a.epoch, a.time, a.checksum = a.sequence+1, epoch, c.GetTime(), xxhash.Sum64(data)
	for _, k := range c.GetCommands() {
		id, _ := uuid.FromBytes(k.GetId())
		if id == uuid.Nil {
			continue
		}
		if _, again := a.commands[id]; again && (k.GetPreviousPart() == 0 || k.GetPreviousPart() != a.parts[id]) {
			return fmt.Errorf("command %s is there twice", id)
		}
		if _, known := a.commands[id]; !known {
			a.commands[id] = nil
		}
		a.epochs[id] = epoch
		if delete(a.parts, id); k.GetUnfinished() {
			a.parts[id] = a.sequence
		}
	}
	for _, e := range c.GetEvents() {
		id := uuid.Nil
		if i := int(e.GetCommand()); i < len(c.GetCommands()) {
			id, _ = uuid.FromBytes(c.GetCommands()[i].GetId())
		}
		for _, u := range a.event(e) {
			a.revision++
			if name, ok := a.watched[u]; ok {
				a.changes = append(a.changes, change{changeType(e), a.revision, u, name})
			}
			if id != uuid.Nil {
				a.commands[id] = append(a.commands[id], effect{u, a.revision})
			}
		}
	}
	return nil
}

// event folds an event, and returns the uids of the objects that it changes.
func (a *auditor) event(e *coppicev1.Event) (uids []string) {
	of := func(ids *coppicev1.Identities, do func(*object)) {
		for u := range uid.All(ids.GetUids()) {
			uids = append(uids, u.String())
			if o := a.objects[u.String()]; o != nil {
				do(o)
			} else {
				a.t.Errorf("sequence %d: an event of %s, which is not there", a.sequence, u)
			}
		}
	}
	switch v := e.GetEvent().(type) {
	case *coppicev1.Event_Created:
		uids = a.put(v.Created.GetNode(), true)
	case *coppicev1.Event_Updated:
		uids = a.put(v.Updated.GetNode(), false)
	case *coppicev1.Event_DeletionMarked:
		of(v.DeletionMarked.GetObject(), func(o *object) {
			a.mayCollect(o, e.GetReason())
			o.terminating, o.finalizers = true, v.DeletionMarked.GetFinalizers()
		})
	case *coppicev1.Event_OwnerReferencesRemoved:
		of(v.OwnerReferencesRemoved.GetObjects(), func(o *object) { a.strip(o, v.OwnerReferencesRemoved.GetReferences()) })
	case *coppicev1.Event_FinalizerRemoved:
		of(v.FinalizerRemoved.GetObjects(), func(o *object) { a.finish(o, v.FinalizerRemoved.GetFinalizer()) })
	case *coppicev1.Event_Deleted:
		of(v.Deleted.GetObjects(), func(o *object) {
			a.mayCollect(o, e.GetReason())
			for _, f := range v.Deleted.GetFinalizers() {
				a.finish(o, f)
			}
			if len(o.finalizers) > 0 {
				a.t.Errorf("sequence %d: %s was removed in spite of finalizers %v", a.sequence, o, o.finalizers)
			}
			a.link(o, nil)
			delete(a.objects, o.uid)
		})
	}
	return uids
}

func (o *object) String() string { return o.kind + " " + o.ns + "/" + o.name }

func (a *auditor) put(n *coppicev1.Node, created bool) (uids []string) {
	u := uid.UID(n.GetUid()).String()
	o := a.objects[u]
	if (o == nil) != created {
		a.t.Errorf("sequence %d: %s was created twice, or updated while it was not there", a.sequence, u)
	}
	if o == nil {
		o = &object{uid: u}
		a.objects[u] = o
	}
	o.kind, o.ns, o.name, o.finalizers, o.terminating = n.GetKind(), n.GetNamespace(), n.GetName(), n.GetFinalizers(), n.GetDeletionTime() != 0
	a.link(o, n.GetOwners())
	if o.ns == histories {
		a.watched[u] = o.name
	}
	return []string{u}
}

// link replaces the owners of an object.
func (a *auditor) link(o *object, owners []*coppicev1.NodeOwner) {
	for _, r := range o.owners {
		delete(a.children[ownerOf(r)], o.uid)
	}
	o.owners = owners
	for _, r := range owners {
		if a.children[ownerOf(r)] == nil {
			a.children[ownerOf(r)] = map[string]*object{}
		}
		a.children[ownerOf(r)][o.uid] = o
	}
}

func ownerOf(r *coppicev1.NodeOwner) string { return uid.UID(r.GetUid()).String() }

func (a *auditor) strip(o *object, references []*coppicev1.NodeOwner) {
	a.link(o, slices.DeleteFunc(slices.Clone(o.owners), func(r *coppicev1.NodeOwner) bool {
		return slices.ContainsFunc(references, func(gone *coppicev1.NodeOwner) bool {
			return ownerOf(gone) == ownerOf(r) && gone.GetKind() == r.GetKind() && gone.GetName() == r.GetName()
		})
	}))
}

const (
	orphan     = "orphan"
	foreground = "foregroundDeletion"
)

// finish removes a finalizer. It checks that the work of a built-in finalizer is complete.
func (a *auditor) finish(o *object, finalizer string) {
	for _, d := range a.children[o.uid] {
		for _, r := range d.owners {
			held := finalizer == orphan || finalizer == foreground && r.GetBlockOwnerDeletion()
			if held && a.owner(d, r) == o {
				a.t.Errorf("sequence %d: %s lost its finalizer %s in spite of its dependent %s", a.sequence, o, finalizer, d)
			}
		}
	}
	o.finalizers = slices.DeleteFunc(slices.Clone(o.finalizers), func(f string) bool { return f == finalizer })
}

// owner returns the object of a valid reference, nil if the reference is not valid.
func (a *auditor) owner(d *object, r *coppicev1.NodeOwner) *object {
	o := a.objects[ownerOf(r)]
	if o == nil || o.kind != r.GetKind() || o.name != r.GetName() || o.ns != d.ns {
		return nil
	}
	return o
}

// solid reports whether the owner of a reference keeps the object.
func (a *auditor) solid(d *object, r *coppicev1.NodeOwner) bool {
	o := a.owner(d, r)
	return o != nil && (!o.terminating || !slices.Contains(o.finalizers, foreground))
}

// mayCollect reports a violation if a collected object has a solid owner, or no owner.
func (a *auditor) mayCollect(o *object, why coppicev1.Reason) {
	if why != coppicev1.Reason_REASON_OWNER_ABSENT && why != coppicev1.Reason_REASON_OWNER_WAITING {
		return
	}
	if len(o.owners) == 0 || slices.ContainsFunc(o.owners, func(r *coppicev1.NodeOwner) bool { return a.solid(o, r) }) {
		a.t.Errorf("sequence %d: %s was collected, and had owners %v, one of them solid, or none", a.sequence, o, o.owners)
	}
}

// pending counts the objects of a namespace with pending work: they must be removed, lose a
// reference, or lose a built-in finalizer.
func (a *auditor) pending(ns string) (n int) {
	for _, o := range a.objects {
		if o.ns == ns && a.isPending(o) {
			n++
		}
	}
	return n
}

func (a *auditor) isPending(o *object) bool {
	if o.terminating {
		return slices.Contains(o.finalizers, orphan) || slices.Contains(o.finalizers, foreground)
	}
	return slices.ContainsFunc(o.owners, func(r *coppicev1.NodeOwner) bool {
		owner := a.owner(o, r)
		return !a.solid(o, r) || owner.terminating && slices.Contains(owner.finalizers, orphan)
	})
}
