// Package statetest has a realm on a state in memory, for tests of what reads a
// state: its commands are decided by the rules and applied as commits, without
// a log, a writer or NATS. It is for one goroutine; the State is not.
package statetest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Realm is a realm on a state in memory. It knows the built-in kinds, and has
// the namespace "default", at revision 100. The uid of an object is its name, so that what
// tests print can be read; the second one of that name has name-2.
type Realm struct {
	*state.State
	Clock lifecycle.Time
	// Begin is called before a commit. The function that it returns reports whether
	// changes of a resource are recorded. Applied is called after the commit.
	Begin   func() (watched func(resource string) bool)
	Applied func(revision uint64, changes []state.Change, pending []state.WorkChange)

	fs       vfs.FS
	tb       testing.TB
	sequence uint64
	revision uint64
	used     map[uid.UID]bool
	last     map[string]uid.UID
}

// CommandID is a UUIDv7 of a time; those with different n differ.
func CommandID(at lifecycle.Time, n uint64) (id state.CommandID) {
	binary.BigEndian.PutUint64(id[:], uint64(at.Time().UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[8:], n&(1<<62-1)|1<<63)
	id[6] |= 7 << 4
	return id
}

// Decide decides a command by the rules.
type Decide func(*lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error)

// New returns a realm. It ends with the test.
func New(tb testing.TB) *Realm {
	tb.Helper()
	r := &Realm{
		Clock: lifecycletest.Start, fs: vfs.NewMem(), tb: tb, used: map[uid.UID]bool{}, last: map[string]uid.UID{},
		Begin:   func() func(string) bool { return nil },
		Applied: func(uint64, []state.Change, []state.WorkChange) {},
	}
	r.open()
	tb.Cleanup(r.close)
	for _, spec := range lifecycle.BuiltinKinds() {
		r.Register(spec)
	}
	r.revision = 99
	r.Create("namespaces/default", nil)
	return r
}

func (r *Realm) open() {
	r.tb.Helper()
	s, err := state.Open("state", state.Config{FS: r.fs, MemTableSize: 1 << 20, CacheSize: 1 << 20})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.State = s
}

func (r *Realm) close() {
	r.tb.Helper()
	if err := r.Close(); err != nil {
		r.tb.Error(err)
	}
}

// Reopen closes the state and opens it again, as a process that starts again.
func (r *Realm) Reopen() {
	r.tb.Helper()
	if err := r.Sync(); err != nil {
		r.tb.Fatal(err)
	}
	r.close()
	r.open()
}

// Register registers a kind.
func (r *Realm) Register(spec lifecycle.KindSpec) {
	r.tb.Helper()
	o := lifecycletest.Registration(spec)
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		at := lifecycle.Key{Kind: ctx.Kinds().Of(lifecycle.Group, "Kind")}
		return lifecycle.Create(r.naming(ctx, "kind-"+o.Metadata.Name), at, o)
	})
}

// SetSettings sets the realm settings; nil for the defaults.
func (r *Realm) SetSettings(spec *lifecycle.SettingsSpec) {
	r.tb.Helper()
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		at := lifecycle.Key{Kind: ctx.Kinds().Of(lifecycle.Group, "Realm")}
		if spec == nil {
			at.Name = lifecycle.SettingsName
			return lifecycle.Delete(ctx, at, "", nil)
		}
		return lifecycle.Apply(r.naming(ctx, lifecycle.SettingsName), at, lifecycletest.SettingsObject(*spec))
	})
}

// Key reads pods/a, an object in namespace "default", or pods/a@shop, or
// nodes/a, which is cluster-scoped. The group may be left out.
func (r *Realm) Key(target string) lifecycle.Key {
	r.tb.Helper()
	resource, name, _ := strings.Cut(target, "/")
	name, namespace, elsewhere := strings.Cut(name, "@")
	kind := r.Kinds().Resource(resource)
	for _, k := range r.Kinds().All() {
		if kind == nil && k.Plural == resource {
			kind = k
		}
	}
	if kind == nil || name == "" {
		r.tb.Fatalf("%q is not the key of an object", target)
	}
	if !elsewhere && kind.Namespaced() {
		namespace = "default"
	}
	return lifecycle.Key{Kind: kind, Namespace: namespace, Name: name}
}

// UID is the uid that the object has, or had last.
func (r *Realm) UID(target string) uid.UID {
	r.tb.Helper()
	u, ok := r.last[target]
	if !ok {
		r.tb.Fatalf("there never was %s", target)
	}
	return u
}

// Reference is a reference to the object that has this key, or had it last.
func (r *Realm) Reference(target string, blocking bool) *coppicev1.OwnerReference {
	r.tb.Helper()
	k := r.Key(target)
	ref := &coppicev1.OwnerReference{ApiVersion: k.Kind.APIVersion(), Kind: k.Kind.Kind, Name: k.Name, Uid: r.UID(target).String()}
	if blocking {
		ref.BlockOwnerDeletion = &blocking
	}
	return ref
}

// Create creates an object with this metadata; nil for none.
func (r *Realm) Create(target string, meta *coppicev1.ObjectMeta) uid.UID {
	r.tb.Helper()
	r.Must(r.Creation(target, meta))
	return r.last[target]
}

// Creation is the command of Create.
func (r *Realm) Creation(target string, meta *coppicev1.ObjectMeta) Decide {
	r.tb.Helper()
	k, o := r.object(target, meta)
	u := r.draw(target)
	return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Create(r.naming(ctx, u), k, o)
	}
}

// Across creates an object that uses others in other namespaces.
func (r *Realm) Across(target string, meta *coppicev1.ObjectMeta) {
	r.tb.Helper()
	k, o := r.object(target, meta)
	u := r.draw(target)
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.ApplyAcross(r.naming(ctx, u), k, o)
	})
}

// Import imports an object with this metadata, in a session of its own that is
// closed.
func (r *Realm) Import(target string, meta *coppicev1.ObjectMeta) uid.UID {
	r.tb.Helper()
	r.Must(r.Importation(target, "", meta))
	return r.last[target]
}

// Importation is the command of an import in a session, which it keeps open;
// "" is one that is closed.
func (r *Realm) Importation(target, session string, meta *coppicev1.ObjectMeta) Decide {
	r.tb.Helper()
	k, o := r.object(target, meta)
	if o.Metadata.Uid == "" {
		o.Metadata.Uid = r.draw(target)
	}
	r.last[target] = uid.MustParse(o.Metadata.Uid)
	return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		if session != "" {
			ctx.View.(*state.Tx).TouchSession(session, ctx.Now, false)
		}
		return lifecycle.Import(ctx, k, session, o)
	}
}

// CloseSession closes an import session.
func (r *Realm) CloseSession(session string) {
	r.tb.Helper()
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		ctx.View.(*state.Tx).TouchSession(session, ctx.Now, true)
		return &lifecycle.Outcome{}, nil
	})
}

// Delete deletes an object.
func (r *Realm) Delete(target, policy string) {
	r.tb.Helper()
	k := r.Key(target)
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Delete(ctx, k, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
	})
}

// RemoveFinalizer removes a finalizer from an object.
func (r *Realm) RemoveFinalizer(target, finalizer string) {
	r.tb.Helper()
	k := r.Key(target)
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.RemoveFinalizer(ctx, k, finalizer, nil)
	})
}

// Protect protects an object.
func (r *Realm) Protect(target string) {
	r.tb.Helper()
	k := r.Key(target)
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(ctx, k, "ana", "production", nil)
	})
}

// Work does what a worker asks for: it decides on the objects with these uids,
// one after the other in one commit, those that are there.
func (r *Realm) Work(uids []uid.UID, decide func(*lifecycle.Context, *lifecycle.Node) []lifecycle.Event) {
	r.tb.Helper()
	list := make([]Decide, len(uids))
	for i, u := range uids {
		list[i] = func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			out := &lifecycle.Outcome{}
			if n := ctx.Node(u); n != nil {
				out.Events = decide(ctx, n)
			}
			return out, nil
		}
	}
	r.Must(list...)
}

// Must decides commands in one commit. None may be refused.
func (r *Realm) Must(commands ...Decide) {
	r.tb.Helper()
	tx := r.State.Begin()
	changes := r.decide(tx, commands)
	r.apply(tx, changes)
}

// Stack decides commits, each on top of the one before, of which none is in the
// state. It returns a Tx on top of the last, and how to write them into the state.
func (r *Realm) Stack(commits ...[]Decide) (top *state.Tx, apply func()) {
	r.tb.Helper()
	var txs []*state.Tx
	var changes [][]state.Change
	top = r.State.Begin()
	for _, commands := range commits {
		changes = append(changes, r.decide(top, commands))
		if err := top.Encode(); err != nil {
			r.tb.Fatal(err)
		}
		txs = append(txs, top)
		top = top.Next()
	}
	return top, func() {
		r.tb.Helper()
		for i, tx := range txs {
			r.apply(tx, changes[i])
		}
	}
}

// decide decides commands in one commit, which ends.
func (r *Realm) decide(tx *state.Tx, commands []Decide) (changes []state.Change) {
	r.tb.Helper()
	watched := r.Begin()
	ctx := &lifecycle.Context{View: tx, Now: r.Clock, MaxObject: 1 << 20}
	for _, decide := range commands {
		out, refusal := decide(ctx)
		if refusal != nil {
			r.tb.Fatal(refusal)
		}
		for i := range out.Events {
			change, err := r.add(tx, &out.Events[i], watched)
			if err != nil {
				r.tb.Fatal(err)
			}
			if change.Resource != "" {
				changes = append(changes, change)
			}
		}
	}
	r.sequence++
	tx.EndCommit(state.Commit{Sequence: r.sequence, Epoch: 1, Time: r.Clock, Checksum: r.sequence})
	return changes
}

func (r *Realm) apply(tx *state.Tx, changes []state.Change) {
	r.tb.Helper()
	pending, err := tx.Apply()
	if err != nil {
		r.tb.Fatal(err)
	}
	r.Applied(tx.Checkpoint().GetRevision(), changes, pending)
}

func (r *Realm) add(tx *state.Tx, e *lifecycle.Event, watched func(string) bool) (state.Change, error) {
	body, err := state.Encode(e.Object.Body)
	if err != nil {
		return state.Change{}, err
	}
	n := e.Object.Node
	if n == nil {
		n = tx.Node(e.UID)
	}
	resource := tx.Kinds().OfNode(n).Resource()
	var before *coppicev1.Body
	if e.Type != lifecycle.ObjectCreated {
		before = tx.Body(n)
	}
	r.revision++
	change, err := tx.Add(e, r.revision, body)
	if err == nil && watched != nil && watched(resource) {
		change.Record(resource, before)
	}
	return change, err
}

func (r *Realm) object(target string, meta *coppicev1.ObjectMeta) (lifecycle.Key, *coppicev1.Object) {
	r.tb.Helper()
	k := r.Key(target)
	if meta == nil {
		meta = &coppicev1.ObjectMeta{}
	}
	meta.Name, meta.Namespace = k.Name, k.Namespace
	return k, &coppicev1.Object{ApiVersion: k.Kind.APIVersion(), Kind: k.Kind.Kind, Metadata: meta}
}

// draw draws the uid of an object.
func (r *Realm) draw(target string) string {
	name := r.Key(target).Name
	text := name
	for i := 2; r.used[uid.MustParse(text)]; i++ {
		text = fmt.Sprintf("%s-%d", name, i)
	}
	r.last[target] = uid.MustParse(text)
	r.used[r.last[target]] = true
	return text
}

// naming is a context in which a created object gets this uid.
func (r *Realm) naming(ctx *lifecycle.Context, text string) *lifecycle.Context {
	c := *ctx
	c.NewUID = func() uid.UID { return uid.MustParse(strings.ReplaceAll(text, ".", "-")) }
	return &c
}
