package lifecycle_test

import (
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// TestSafety plays random commands and holds every event against what must
// never happen, and against what events promise.
//
// S1, S2: nothing is collected that has an owner, or one of which nothing is known.
// S3: an object is removed only if nothing blocks its removal, or nothing does after the
// step that removes it.
// S4: what a deletion has done stays done, and generation does not fall.
// S5: a terminating object gets no finalizer, but a built-in one by a DELETE, or
// foregroundDeletion if it waits for users (B3.2).
// S6: a uid that was used is not used by another object.
// S10: no object has both built-in finalizers.
// S12, S15: a command that is repeated does nothing, and has no revision.
// S13: to decide changes nothing.
// C074: no command modifies its request.
func TestSafety(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := lifecycletest.New()
		r.Latecomers, r.Containers, r.Restless, r.Using = true, true, true, true
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			drawSession(t, r)
			r.PassTime(t)
			play(t, r, r.RandomCommand(t))
		}
	})
}

// play decides a command, checks the decision and applies it.
func play(t *rapid.T, r *lifecycletest.Realm, c lifecycletest.Command) {
	before := freeze(r)
	var request proto.Message
	if c.Request != nil {
		request = proto.Clone(c.Request)
	}
	out, err := c.Decide(r.Context())
	before.check(t, c.Verb)
	if c.Request != nil && !proto.Equal(request, c.Request) {
		t.Fatalf("%s modified its request: it is %v, was %v", c.Verb, c.Request, request)
	}
	if err != nil {
		if err.Reason.Code() == 0 || err.Message == "" {
			t.Fatalf("%s was refused without a reason: %+v", c.Verb, err)
		}
		return
	}
	events := cloneEvents(out.Events)
	for i := range out.Events {
		e := &out.Events[i]
		was, state := r.Node(e.UID), r.Clone()
		r.Apply(out.Events[i : i+1])
		verb := c.Verb
		if e.Reason == coppicev1.Reason_REASON_INITIALIZATION_FAILED {
			if !was.InitializationFailed {
				t.Fatalf("A8: %s deletes %+v, of which no initializer has failed", verb, was)
			}
			verb = lifecycletest.VerbDelete // by its rules
		}
		checkSafe(t, state, verb, e, was, r.Node(e.UID))
		checkAfter(t, e, was, r.Node(e.UID), r.Revision)
	}
	before.check(t, "applying the events of "+c.Verb)
	if !reflect.DeepEqual(events, cloneEvents(out.Events)) {
		t.Fatalf("applying the events of %s modified them: %+v, were %+v", c.Verb, out.Events, events)
	}
	removed := len(out.Events) == 1 && out.Events[0].Type == lifecycle.ObjectDeleted
	if c.Verb == lifecycletest.VerbApply && removed {
		return // the apply has removed the last finalizer, and would create the object
	}
	checkRepeated(t, r, c, removed)
}

// checkSafe checks an event that turns was, in the realm before, into is.
func checkSafe(t *rapid.T, before *lifecycletest.Realm, verb string, e *lifecycle.Event, was, is *lifecycle.Node) {
	collected := verb == lifecycletest.VerbCollect
	if collected && !(oracle{before}).collectable(was, before.Clock) {
		t.Fatalf("S1, S2: %+v was collected", was)
	}
	if was != nil && is == nil && (oracle{before}).contents(was) > 0 {
		t.Fatalf("A5.7: %s removed %+v, which has objects", verb, was)
	}
	switch {
	case was == nil:
		o := oracle{before}
		receives := func(c *lifecycle.Node) bool { // an import brings the contents of a container before or after it (R2)
			return verb == lifecycletest.VerbImport && draining(c) && o.importing(c, before.Clock)
		}
		if o.drained(is, func(c *lifecycle.Node) bool { return c.DeletionTime != 0 && !receives(c) }) {
			t.Fatalf("A5.7: %s made %+v in what is being deleted", verb, is)
		}
		if before.Lookup(before.Kinds().OfNode(is), is.Namespace, is.Name) != "" {
			t.Fatalf("%s took the name of another: %+v", verb, is)
		}
		if at, same := before.Removed(is.UID, is.Coordinates()); at != 0 && !same {
			t.Fatalf("S6: uid %s is used again by %+v", is.UID, is)
		}
	case is == nil:
		checkRemoval(t, verb, e, was)
	default:
		checkMonotone(t, before, verb, was, is)
	}
	if is != nil {
		if is.HasFinalizer("orphan") && is.HasFinalizer("foregroundDeletion") {
			t.Fatalf("S10: %s made %+v", verb, is)
		}
		if is.Terminating() && len(is.Finalizers) == 0 && is.GracePeriod == nil {
			t.Fatalf("A2.10: %s left %+v, which nothing holds", verb, is)
		}
	}
}

// checkRemoval: an object is removed only if nothing blocks its deletion after the step
// that removes it (S3).
func checkRemoval(t *rapid.T, verb string, e *lifecycle.Event, was *lifecycle.Node) {
	if !slices.Equal(e.Finalizers, was.Finalizers) {
		t.Fatalf("%s removed %+v, and reports %q", verb, was, e.Finalizers)
	}
	external := slices.DeleteFunc(slices.Clone(was.Finalizers), lifecycle.IsBuiltinFinalizer)
	switch verb {
	case lifecycletest.VerbDelete, lifecycletest.VerbCollect, lifecycletest.VerbDrain:
		if len(external) > 0 {
			t.Fatalf("S3: %s removed %+v", verb, was)
		}
	case lifecycletest.VerbRemoveFinalizer, lifecycletest.VerbFinish:
		if slices.ContainsFunc(was.Finalizers, func(f string) bool { return f != was.Finalizers[0] }) || !was.Terminating() {
			t.Fatalf("S3: %s removed %+v", verb, was)
		}
	case lifecycletest.VerbUpdate, lifecycletest.VerbPatch, lifecycletest.VerbApply, lifecycletest.VerbUpdateStatus:
		if !was.Terminating() {
			t.Fatalf("A2.10: %s removed %+v", verb, was)
		}
	}
}

// checkMonotone: what a deletion has done stays done (S4, S5).
func checkMonotone(t *rapid.T, before *lifecycletest.Realm, verb string, was, is *lifecycle.Node) {
	if was.UID != is.UID || was.Coordinates() != is.Coordinates() {
		t.Fatalf("A2.7: %s made %+v of %+v", verb, is, was)
	}
	if is.Generation < was.Generation {
		t.Fatalf("generation falls: %s made %+v of %+v", verb, is, was)
	}
	checkInitialization(t, verb, was, is)
	marks := verb == lifecycletest.VerbDelete || verb == lifecycletest.VerbCollect || verb == lifecycletest.VerbDrain
	if !was.Terminating() {
		if is.Terminating() && !marks && verb != lifecycletest.VerbImport {
			t.Fatalf("%s made %+v of %+v", verb, is, was)
		}
		if is.Terminating() && marks && is.Generation != was.Generation+1 {
			t.Fatalf("A7.1: %s made %+v of %+v", verb, is, was)
		}
		return
	}
	switch {
	case !is.Terminating() || is.DeletionTime > max(was.DeletionTime, before.Clock):
		t.Fatalf("S4: %s made %+v of %+v", verb, is, was)
	case marks && is.Generation != was.Generation:
		t.Fatalf("S4: %s made %+v of %+v", verb, is, was)
	}
	for _, f := range is.Finalizers {
		if f == "foregroundDeletion" && verb == lifecycletest.VerbFinish && was.HasFinalizer("coppice.dev/in-use") && before.Users(was).All > 0 {
			continue // B3.2
		}
		if f == "coppice.dev/in-use" && verb == lifecycletest.VerbImport && was.ImportSession != "" {
			continue // a user is imported after it, see TestOrderOfImports
		}
		if !was.HasFinalizer(f) && (verb != lifecycletest.VerbDelete || !lifecycle.IsBuiltinFinalizer(f)) {
			t.Fatalf("S5: %s made %+v of %+v", verb, is, was)
		}
	}
}

// checkInitialization: initializers go in order, and do not come back; nor does
// an object whose initialization has failed come to be seen (A8).
func checkInitialization(t *rapid.T, verb string, was, is *lifecycle.Node) {
	gone := len(was.Initializers) - len(is.Initializers)
	if gone < 0 || !slices.Equal(was.Initializers[gone:], is.Initializers) {
		t.Fatalf("A8: %s made %+v of %+v", verb, is, was)
	}
	if was.InitializationFailed != is.InitializationFailed && (was.InitializationFailed || !was.Uninitialized() || !is.Terminating() && verb == lifecycletest.VerbImport) {
		t.Fatalf("A8: %s made %+v of %+v", verb, is, was)
	}
}

// checkAfter: an event changes what its type says, and nothing else.
func checkAfter(t *rapid.T, e *lifecycle.Event, was, is *lifecycle.Node, revision uint64) {
	if e.Type == lifecycle.ObjectDeleted {
		if is != nil {
			t.Fatalf("a removal leaves %+v", is)
		}
		return
	}
	var want lifecycle.Node
	switch e.Type {
	case lifecycle.ObjectCreated, lifecycle.ObjectUpdated:
		if (was == nil) != (e.Type == lifecycle.ObjectCreated) {
			t.Fatalf("an event of type %d does not fit %+v", e.Type, was)
		}
		want = *e.Object.Node
		if want.Terminating() && want.DeletionRevision == 0 {
			want.DeletionRevision = revision
		}
	case lifecycle.DeletionMarked:
		want = *was
		want.DeletionTime, want.GracePeriod, want.Generation, want.Finalizers = e.Mark.Time, e.Mark.GracePeriod, e.Mark.Generation, e.Mark.Finalizers
		want.DeletionRevision = revision
	case lifecycle.OwnerReferencesRemoved:
		want = *was
		want.Owners = nil
		for _, r := range was.Owners {
			if !slices.ContainsFunc(e.References, func(g lifecycle.OwnerReference) bool {
				return g.UID == r.UID && g.Kind == r.Kind && g.Name == r.Name && g.Group() == r.Group()
			}) {
				want.Owners = append(want.Owners, r)
			}
		}
	case lifecycle.FinalizerRemoved:
		want = *was
		want.Finalizers = nil
		for _, f := range was.Finalizers {
			if f != e.Finalizers[0] {
				want.Finalizers = append(want.Finalizers, f)
			}
		}
	}
	want.Revision = revision
	if !reflect.DeepEqual(*is, want) {
		t.Fatalf("an event of type %d makes %+v, want %+v", e.Type, is, want)
	}
}

// checkRepeated: what was just done is not done again, and costs no revision
// (S12, S15). But a container that an import has removed, since nothing blocked its deletion any more, comes back for
// what the session of the import may bring, and is deleted with that (R2).
func checkRepeated(t *rapid.T, r *lifecycletest.Realm, c lifecycletest.Command, removed bool) {
	var again *lifecycle.Outcome
	var err *lifecycle.Error
	switch c.Verb {
	case lifecycletest.VerbCollect, lifecycletest.VerbStrip, lifecycletest.VerbOrphan, lifecycletest.VerbFinish, lifecycletest.VerbDrain:
		return // those have looked at an object that is another by now: see TestProposals
	default:
		again, err = c.Decide(r.Context())
	}
	if err != nil {
		return
	}
	if c.Verb == lifecycletest.VerbImport && removed && again.Changed() {
		n := again.Events[len(again.Events)-1].Object.Node
		if n != nil && n.Terminating() && n.ImportSession != "" && slices.Equal(n.Finalizers, []string{lifecycle.FinalizerContents}) {
			return
		}
	}
	if again.Changed() {
		t.Fatalf("%s %v, repeated, does it again: %+v", c.Verb, c.Request, again.Events)
	}
	if again.Code == 0 {
		t.Fatalf("%s %v, repeated, has no code", c.Verb, c.Request)
	}
	if again.Object.Node == nil || again.Object.Body == nil {
		t.Fatalf("%s %v, repeated, has no reply: %+v", c.Verb, c.Request, again)
	}
}
