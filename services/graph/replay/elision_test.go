package replay

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

func emptyState(t must.T, fs *vfs.MemFS) *state.State {
	s, err := state.Open("state", state.Config{FS: fs, MemTableSize: 1 << 20, CacheSize: 1 << 20})
	must.Succeed(t, err)
	return s
}

// At the end of each stretch, a state that was folded with elision is equal, key by key, to
// one that was folded without. Before the end of the stretch Open refuses it.
//
// S11: the state does not depend on how the log is folded.
func TestElision(t *testing.T) {
	t.Parallel()
	by, owned := map[liveness]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawCommits(t)
		ctx := context.Background()
		until := c.last() - rapid.Uint64Range(0, c.last()-1).Draw(t, "before the end")

		plain := NewFolder(emptyState(t, vfs.NewMem()), 1, realmKeys)
		defer plain.state.Close()
		must.Succeed(t, plain.FoldTo(ctx, c, until))
		fs := vfs.NewMem()
		f := NewFolder(emptyState(t, fs), 1, realmKeys)
		c.applied = rapid.SliceOfN(rapid.Bool(), len(c.all), len(c.all)).Draw(t, "applied")
		f.most.candidates = rapid.SampledFrom([]int{1, 5, 20, memoryBounds.candidates}).Draw(t, "most candidates")
		f.most.many = rapid.SampledFrom([]int{0, 9, memoryBounds.many}).Draw(t, "most owners")
		f.most.references = rapid.SampledFrom([]int{0, 1, memoryBounds.references}).Draw(t, "most references")
		must.Succeed(t, f.FoldFromEmpty(ctx, c, until))
		must.Succeed(t, errors.Join(f.state.Sync(), f.state.Close()))
		again := emptyState(t, fs)
		defer again.Close()
		a, b := plain.state.Snapshot(), again.Snapshot()
		defer a.Close()
		defer b.Close()
		if d, err := state.Diff(a, b); d != nil || err != nil {
			t.Fatalf("after sequence %d of %d: %v, %v", until, c.last(), d, err)
		}
		if f.chain != plain.chain || f.total != plain.total {
			t.Fatalf("the fold is at %+v with %d events, want %+v with %d", f.chain, f.total, plain.chain, plain.total)
		}

		s, err := findElisions(ctx, c, realmKeys, eventlog.Chain{}, 1, until, memoryBounds)
		must.Succeed(t, err)
		for i := range s.candidates.of {
			f := &s.candidates.of[i]
			by[f.liveness]++
			if f.liveness == elided && f.owner != none {
				owned++
			}
		}
		unfinished(t, c, s)
	})
	if t.Logf("%v, %d left out with owners", by, owned); !testing.Short() && (len(by) < 3 || owned == 0) {
		t.Error("there are not objects of every liveness")
	}
}

// unfinished folds until one message before the last commit of a stretch.
func unfinished(t *rapid.T, c *commits, s *elision) {
	if s.commit <= c.first.Sequence {
		return
	}
	fs := vfs.NewMem()
	f := NewFolder(emptyState(t, fs), 1, realmKeys)
	f.elision = s
	must.Succeed(t, f.FoldTo(context.Background(), c, c.at[s.commit-1]-1))
	must.Succeed(t, errors.Join(f.state.Sync(), f.state.Close()))
	again, err := state.Open("state", state.Config{FS: fs})
	if err == nil {
		err = again.Close()
	}
	var refused *state.UnfinishedError
	if left := len(s.candidates.keys) > 0; errors.As(err, &refused) != left {
		t.Fatalf("a state that leaves out objects (%t) and is not finished was opened: %v", left, err)
	}
	if refused != nil && (refused.Checkpoint.GetSequence() != f.chain.Sequence || refused.Checkpoint.GetElidedUntil() != s.commit) {
		t.Fatalf("refused at %v, want %d of %d", refused.Checkpoint, f.chain.Sequence, s.commit)
	}
}

// An object is not left out if one of its owners is older than the stretch, because other
// objects may refer to that owner; or if an object refers to the owner at the end.
func TestElisionOfOwners(t *testing.T) {
	t.Parallel()
	c := &commits{realm: lifecycletest.New()}
	c.realm.UUIDs = true
	at := lifecycle.Key{Kind: c.configMaps(), Namespace: "default"}
	create := func(name string, owners ...*lifecycle.Node) *lifecycle.Node {
		before := c.realm.Clone()
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name}}
		for _, owner := range owners {
			refer(o, owner)
		}
		out, err := lifecycle.Create(c.realm.Context(), at, o)
		c.append(t, before, c.commanded(t, out, err))
		return out.Events[0].Object.Node
	}
	older := create("older")
	younger := create("younger")
	missed := create("missed")
	create("dangling", missed)
	dependents := []*lifecycle.Node{
		create("of-the-older", older), create("of-the-younger", younger),
		create("of-younger-and-missed", younger, missed), create("of-missed-and-younger", missed, younger),
	}
	for _, n := range append(slices.Clone(dependents), older, younger, missed) {
		before := c.realm.Clone()
		out, err := lifecycle.Delete(c.realm.Context(), lifecycle.KeyOf(c.realm, n), "", nil)
		c.append(t, before, c.commanded(t, out, err))
	}
	s, err := findElisions(t.Context(), c, realmKeys, c.first, 2, c.last(), memoryBounds)
	must.Succeed(t, err)
	filter := s.filter()
	for i, want := range []bool{false, true, false, false} {
		if _, pass := filter(dependents[i].UID); pass != want {
			t.Errorf("%s is left out: %t, want %t", dependents[i].Name, pass, want)
		}
	}
}

// An object that was protected is not left out, even if it is removed within the stretch: the
// end of its protection changes the row of its namespace while that is being deleted.
func TestElisionOfProtected(t *testing.T) {
	t.Parallel()
	c := &commits{realm: lifecycletest.New()}
	c.realm.UUIDs = true
	at := lifecycle.Key{Kind: c.configMaps(), Namespace: "default"}
	do := func(act func(*lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error)) *lifecycle.Outcome {
		before := c.realm.Clone()
		out, err := act(c.realm.Context())
		c.append(t, before, c.commanded(t, out, err))
		return out
	}
	create := func(name string) lifecycle.Key {
		return lifecycle.KeyOf(c.realm, do(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(ctx, at, &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name}})
		}).Events[0].Object.Node)
	}
	create("older")
	kept, plain := create("protected"), create("plain")
	uids := []uid.UID{c.realm.Lookup(at.Kind, kept.Namespace, kept.Name), c.realm.Lookup(at.Kind, plain.Namespace, plain.Name)}
	do(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(ctx, kept, "ana", "production", nil)
	})
	do(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Unprotect(ctx, kept, nil)
	})
	for _, key := range []lifecycle.Key{kept, plain} {
		do(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Delete(ctx, key, "", nil)
		})
	}
	s, err := findElisions(t.Context(), c, realmKeys, c.first, 2, c.last(), memoryBounds)
	must.Succeed(t, err)
	filter := s.filter()
	for i, want := range []bool{false, true} {
		if _, pass := filter(uids[i]); pass != want {
			t.Errorf("object %d is left out: %t, want %t", i, pass, want)
		}
	}
}
