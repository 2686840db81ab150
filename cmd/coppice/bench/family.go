package bench

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// family is the root of a cascade with all objects below it. Its members have
// numbers; 0 is the root.
//
// One member in a hundred survives, because a second owner outside of the family
// keeps it. It has no dependents: they would survive with it, so they belong to
// its owner instead. One member in a thousand is blocked by an external finalizer.
type family struct {
	n      int             // members below the root
	parent func(i int) int // always less than i
	// generations are the first member of each generation, and n+1 at the end.
	// The owners of members are in earlier generations. Nil if every member is
	// a generation of its own; then they are imported.
	generations []int
	// safe: the survivors are protected and have no second owner.
	safe bool
}

const (
	survives = 100
	blocked  = 1000
)

func survivor(i int) bool  { return i%survives == 1 }
func isBlocked(i int) bool { return i%blocked == 2 }

// owner returns the number of a member's owner in the family.
func (f *family) owner(i int) int {
	p := f.parent(i)
	for p > 0 && survivor(p) {
		p = f.parent(p)
	}
	return p
}

// survivors returns how many members survive a background or foreground cascade.
func (f *family) survivors() int { return (f.n + survives - 1) / survives }

// Shapes are the shapes of a cascade.
var Shapes = []string{"wide", "tree", "chain", "random"}

// newFamily returns a family of about n members.
func newFamily(shape string, n int) *family {
	switch shape {
	case "wide":
		return &family{n: n, parent: func(int) int { return 0 }, generations: []int{1, n + 1}}
	case "tree": // three levels, each member with equally many dependents
		w := int(math.Round(math.Cbrt(float64(n))))
		f := &family{n: w + w*w + w*w*w, parent: func(i int) int { return (i - 1) / w }}
		f.generations = []int{1, 1 + w, 1 + w + w*w, f.n + 1}
		return f
	case "chain":
		return &family{n: n, parent: func(i int) int { return i - 1 }}
	default: // random
		draw := rand.New(rand.NewPCG(1, 2)) // the same in every run
		parents := make([]int32, n+1)
		for i := 1; i <= n; i++ {
			parents[i] = draw.Int32N(int32(i))
		}
		return &family{n: n, parent: func(i int) int { return int(parents[i]) }}
	}
}

// finalizer blocks some members until the benchmark runs it.
const finalizer = bus.BenchFinalizer

// identity is what an owner reference names.
type identity struct{ name, uid string }

func identityOf(o *coppicev1.Object) identity {
	return identity{o.GetMetadata().GetName(), o.GetMetadata().GetUid()}
}

// member returns the manifest of a member. ids has the identities of its owners.
func (f *family) member(i int, ids []identity, root, keeper *coppicev1.Object) *coppicev1.Object {
	owner := client.NewOwnerReference(root, client.WithController(true), client.WithBlockOwnerDeletion(true))
	if p := f.owner(i); p != 0 {
		owner.ApiVersion, owner.Kind, owner.Name, owner.Uid = "v1", "Pod", ids[p].name, ids[p].uid
	}
	o := NewObject(Collected, owner)
	switch {
	case survivor(i):
		o.Metadata.Labels[candidate] = Kept
		if f.safe {
			break
		}
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(keeper, client.WithBlockOwnerDeletion(true)))
	case isBlocked(i):
		o.Metadata.Finalizers = []string{finalizer}
	}
	return o
}

// make creates the members, one generation after the other.
func (f *family) make(ctx context.Context, d *Deployment, namespace string, root, keeper *coppicev1.Object) error {
	if f.generations == nil {
		return f.bring(ctx, d, namespace, root, keeper)
	}
	objects := d.Client.Resource(Pods, namespace)
	last := f.generations[len(f.generations)-2]
	ids := make([]identity, last) // of all but the last generation
	for g := range len(f.generations) - 1 {
		first := f.generations[g]
		if err := d.InBatches(ctx, "creating objects", f.generations[g+1]-first, func(ctx context.Context, from, to int) error {
			list := make([]*coppicev1.Object, 0, to-from)
			for i := first + from; i < first+to; i++ {
				list = append(list, f.member(i, ids, root, keeper))
			}
			results, err := objects.CreateBatch(ctx, list)
			if err := FirstError(results, err); err != nil || first == last {
				return err
			}
			for k, r := range results {
				ids[first+from+k] = identityOf(r.Object)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// bring imports the members. Imports choose the uids, so that no generation has
// to wait for the replies of the one before.
func (f *family) bring(ctx context.Context, d *Deployment, namespace string, root, keeper *coppicev1.Object) error {
	objects := d.Client.Resource(Pods, namespace)
	session := "bench-" + RandomName()
	ids := make([]identity, f.n+1)
	for i := range ids {
		ids[i] = identity{RandomName(), uid.New().String()}
	}
	err := d.InBatches(ctx, "importing objects", f.n, func(ctx context.Context, from, to int) error {
		list := make([]*coppicev1.Object, 0, to-from)
		for i := 1 + from; i < 1+to; i++ {
			o := f.member(i, ids, root, keeper)
			o.Metadata.Name, o.Metadata.Uid = ids[i].name, ids[i].uid
			list = append(list, o)
		}
		return FirstError(objects.ImportBatch(ctx, session, list))
	})
	if err != nil {
		return err
	}
	return FirstError(objects.ImportBatch(ctx, session, nil, client.CloseSession(true)))
}
