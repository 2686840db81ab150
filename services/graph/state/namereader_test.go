package state

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// What is read by names many at once, ahead or not, is what Names visits, with
// its nodes, from any place on; also when it is closed while something is read ahead.
func TestNameReader(t *testing.T) {
	t.Parallel()
	s := smallState(t, vfs.NewMem())
	kind := lifecycle.NewKinds().Of(lifecycle.Group, "Kind")
	for _, n := range []int{0, 1, nameChunk - 1, 1, 3*nameChunk + 7} {
		create(t, s, kind, n)
		for _, ahead := range []func(chunk int) bool{
			func(int) bool { return false }, func(int) bool { return true }, func(chunk int) bool { return chunk%2 == 1 },
		} {
			snap := s.Snapshot()
			var all []Named
			snap.Names(kind, "", NameCursor{}, func(ns, name string, u uid.UID) bool {
				all = append(all, Named{NameCursor{ns, name}, u, snap.Node(u)})
				return true
			})
			for from := 0; from <= len(all); from += 100 {
				after := NameCursor{}
				if from > 0 {
					after = all[from-1].NameCursor
				}
				if found := readNames(snap, kind, after, ahead); !slices.EqualFunc(found, all[from:], same) {
					t.Fatalf("from %d of %d on: has read %d names, or others", from, len(all), len(found))
				}
			}
			for _, limit := range []int{1, nameChunk, nameChunk + 1, len(all) + 1} {
				var nodes []*lifecycle.Node
				snap.Nodes(kind, "", NameCursor{}, func(n *lifecycle.Node) bool {
					nodes = append(nodes, n)
					return len(nodes) < limit
				})
				if !slices.EqualFunc(nodes, all[:min(limit, len(all))], func(n *lifecycle.Node, e Named) bool { return reflect.DeepEqual(n, e.Node) }) {
					t.Fatalf("%d of %d nodes: has read %d, or others", limit, len(all), len(nodes))
				}
			}
			r := snap.NameReader(kind, "", NameCursor{})
			for chunk, from := 0, 0; ; chunk++ {
				names, last := r.Next()
				bare := chunk%2 == 1 // as was said before it began to be read
				for i, e := range names {
					if want := all[from+i]; e.NameCursor != want.NameCursor || e.UID != want.UID || (e.Node == nil) != bare {
						t.Fatalf("chunk %d, bare: %t, has %v, want %v", chunk, bare, e, want)
					}
				}
				if from += len(names); last {
					break
				}
				if r.Bare(!bare); ahead(chunk) {
					r.Ahead()
				}
			}
			r.Close()
			closed := snap.NameReader(kind, "", NameCursor{})
			closed.Ahead()
			closed.Close()
			must.Succeed(t, errors.Join(snap.Err(), snap.Close()))
		}
	}
}

// A disk that cannot be read is not the end of the names.
func TestNameReaderFails(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	}))
	s := smallState(t, fs)
	kind := lifecycle.NewKinds().Of(lifecycle.Group, "Kind")
	create(t, s, kind, 5*nameChunk)
	must.Succeed(t, s.Sync())
	for _, ahead := range []bool{false, true} {
		snap := s.Snapshot()
		broken.Store(true)
		found := readNames(snap, kind, NameCursor{}, func(int) bool { return ahead })
		broken.Store(false)
		if err := snap.Err(); !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("ahead: %t: has read %d names and %v, want %v", ahead, len(found), err, errorfs.ErrInjected)
		}
		must.Succeed(t, snap.Close())
	}
}

// create creates n objects of a kind, in a commit.
func create(t *testing.T, s *State, kind *lifecycle.Kind, n int) {
	t.Helper()
	tx := s.Begin()
	t.Cleanup(tx.Drop) // where it fails; before s is closed
	revision := s.Checkpoint().GetRevision()
	for range n {
		revision++
		node := &lifecycle.Node{UID: uid.New(), APIVersion: kind.APIVersion(), Kind: kind.Kind, Name: fmt.Sprint("n-", revision), Generation: 1, ImportTime: 1}
		apply(t, tx, &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: node.UID, Object: lifecycle.Object{Node: node}}, revision, []byte{})
	}
	tx.EndCommit(Commit{Sequence: s.Checkpoint().GetSequence() + 1, Time: 1})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
}

// same reports whether both are of the same object, and have its node.
func same(a, b Named) bool {
	return a.NameCursor == b.NameCursor && a.UID == b.UID && reflect.DeepEqual(a.Node, b.Node) && a.Node != nil && a.Node.UID == a.UID
}

// readNames reads all names behind a place.
func readNames(snap *Snapshot, kind *lifecycle.Kind, after NameCursor, ahead func(chunk int) bool) (found []Named) {
	r := snap.NameReader(kind, "", after)
	defer r.Close()
	for chunk := 0; ; chunk++ {
		names, last := r.Next()
		if found = append(found, names...); last {
			return found
		}
		if ahead(chunk) {
			r.Ahead()
		}
	}
}
