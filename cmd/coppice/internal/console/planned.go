package console

import (
	"cmp"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// planned is a plan whose nodes pages unfold.
type planned struct {
	realm   string
	objects int
	// goes counts the objects that are deleted: those that are removed, and those that are marked and stay blocked. Those that
	// the user may not get are among them, since nothing says that they stay.
	goes int
	// unbound: it has too many objects to be carried out as a plan.
	unbound bool
	trees   *tree.Planned
	// count has the number of objects below each object, and has the objects, by uid.
	count map[string]int
	has   map[string]bool

	mu sync.Mutex
	// unfolded are the nodes below the objects that pages have unfolded, by uid.
	unfolded map[string]children
}

// children are the nodes directly below an object: first the others, then the groups.
type children struct {
	others []*coppicev1.PlannedObject
	groups [][]*coppicev1.PlannedObject
}

func (c children) nodes() int { return len(c.others) + len(c.groups) }

// group returns the objects of the group of a resource.
func (c children) group(resource string) children {
	for _, g := range c.groups {
		if g[0].GetResource() == resource {
			return children{others: g}
		}
	}
	return children{}
}

func newPlanned(realm string, p *client.Plan) *planned {
	c := p.GetCounts()
	t := &planned{
		realm: realm, objects: len(p.GetObjects()), goes: int(c.GetRemoved() + c.GetRemovedLater() + c.GetBlocked() + p.GetElsewhere()),
		unbound: len(p.GetObjects())+int(p.GetElsewhere()) > bus.MaxPlanned,
		trees:   tree.NewPlanned(p), has: make(map[string]bool, len(p.GetObjects())), unfolded: map[string]children{},
	}
	t.count = t.trees.Count()
	for _, o := range p.GetObjects() {
		t.has[o.GetUid()] = true
	}
	return t
}

// root returns the object that the deletion names; nil if the plan does not have it.
func (t *planned) root() *coppicev1.PlannedObject {
	if list := t.trees.Requested(); len(list) == 1 {
		return list[0]
	}
	return nil
}

// children returns what is directly below the object with a uid. It sorts them the first time.
func (t *planned) children(uid string) children {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, has := t.unfolded[uid]
	if !has {
		c.others, c.groups = t.trees.Below(uid, false)
		for _, g := range c.groups {
			slices.SortFunc(g, func(a, b *coppicev1.PlannedObject) int {
				return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetNamespace(), b.GetNamespace()))
			})
		}
		t.unfolded[uid] = c
	}
	return c
}

// The limits of the plans that are kept. The last plan is kept in any case.
const (
	maxPlans          = 4         // of a user
	maxPlanObjects    = 400_000   // in all plans of a user
	maxAllPlanObjects = 1_000_000 // in the plans of all users
	planAge           = 5 * time.Minute
)

// The numbers of plans that are made at once: each is in memory twice for a moment.
const (
	plansAtOnce     = 4
	userPlansAtOnce = 1
)

// plans are the last plans of each user.
type plans struct {
	mu   sync.Mutex
	kept []keptPlan // the newest last
}

type keptPlan struct {
	id string
	at time.Time
	of *user
	*planned
}

// add keeps a plan of a user, and returns its id.
func (p *plans) add(of *user, t *planned, now time.Time) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	id = rand.Text()
	p.kept = append(p.kept, keptPlan{id, now, of, t})
	time.AfterFunc(planAge, func() { p.drop(id) }) // also if no page asks for a plan any more
	all, own, number := 0, 0, 0
	for i, k := range slices.Backward(p.kept) {
		all += k.objects
		if k.of == of {
			own += k.objects
			number++
		}
		if k.id != id && (all > maxAllPlanObjects || k.of == of && (own > maxPlanObjects || number > maxPlans)) {
			p.kept = slices.Delete(p.kept, i, i+1)
			if all -= k.objects; k.of == of {
				own -= k.objects
				number--
			}
		}
	}
	return id
}

func (p *plans) drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = slices.DeleteFunc(p.kept, func(k keptPlan) bool { return k.id == id })
}

// get returns a plan that a user has made of a realm; nil if it is not kept any more.
func (p *plans) get(of *user, realm, id string, now time.Time) *planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	for _, k := range p.kept {
		if k.id == id && k.of == of && k.realm == realm {
			return k.planned
		}
	}
	return nil
}

// forget drops plans that are too old.
func (p *plans) forget(now time.Time) {
	p.kept = slices.DeleteFunc(p.kept, func(k keptPlan) bool { return now.Sub(k.at) >= planAge })
}
