package lifecycletest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Teardown is a graph of objects that stand for resources of a cloud, with owners and uses.
// The owners of a member, and the members that it uses, precede it, so that there are no
// cycles.
type Teardown struct {
	Family
	// Deletes are members that are deleted, and the policies, in this order.
	Deletes []Deletion
}

// Deletion is the DELETE of a member.
type Deletion struct {
	Member int
	Policy string
}

// DrawTeardown draws a graph of three to ten members. intn draws from 0 up to n. In the end
// each member is deleted.
func DrawTeardown(intn func(n int) int) Teardown {
	t := Teardown{Family: Family{Members: make([]Member, 3+intn(8))}}
	policies := []string{"", lifecycle.Background, lifecycle.Foreground, lifecycle.Orphan}
	for i := range t.Members {
		m := &t.Members[i]
		m.Resource = []string{"deployments.apps", "replicasets.apps", "configmaps"}[intn(3)]
		m.Name = fmt.Sprintf("m%d", i)
		if intn(5) > 0 {
			m.Finalizers = []string{ServedFinalizer}
		}
		if intn(6) == 0 {
			m.Finalizers = append(m.Finalizers, []string{lifecycle.FinalizerOrphan, lifecycle.FinalizerForeground}[intn(2)])
		}
		for range []int{0, 1, 1, 2}[intn(4)] {
			if to := intn(i + 1); to < i && !slices.ContainsFunc(m.Owners, func(b Bond) bool { return b.To == to }) {
				m.Owners = append(m.Owners, Bond{To: to, Blocking: intn(2) == 0})
			}
		}
		for range []int{0, 1, 1, 2, 3}[intn(5)] {
			if to := intn(i + 1); to < i && !slices.Contains(m.Uses, to) {
				m.Uses = append(m.Uses, to)
			}
		}
	}
	for range 1 + intn(3) {
		t.Deletes = append(t.Deletes, Deletion{intn(len(t.Members)), policies[intn(len(policies))]})
	}
	for i := range t.Members {
		t.Deletes = append(t.Deletes, Deletion{i, policies[intn(len(policies))]})
	}
	return t
}

// Cloud has the resources for which objects stand. It refuses to delete a resource that
// another one uses. It is safe for concurrent use.
type Cloud struct {
	mu      sync.Mutex
	uses    map[string][]string // by resource
	refused []string
}

// NewCloud returns a cloud without resources.
func NewCloud() *Cloud { return &Cloud{uses: map[string][]string{}} }

// Add adds the resources of a graph, whose names have a prefix. Members without the
// finalizer have none.
func (c *Cloud) Add(prefix string, t Teardown) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range t.Members {
		if !slices.Contains(m.Finalizers, ServedFinalizer) {
			continue
		}
		uses := []string{}
		for _, to := range m.Uses {
			uses = append(uses, prefix+t.Members[to].Name)
		}
		c.uses[prefix+m.Name] = uses
	}
}

// Delete deletes a resource. It refuses one that another resource uses, and notes that.
func (c *Cloud) Delete(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for user, uses := range c.uses {
		if slices.Contains(uses, name) {
			err := fmt.Errorf("%s is used by %s", name, user)
			c.refused = append(c.refused, err.Error())
			return err
		}
	}
	delete(c.uses, name)
	return nil
}

// Refused returns what the cloud has refused.
func (c *Cloud) Refused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// Left returns the number of resources.
func (c *Cloud) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.uses)
}

// Tear deletes the members of a graph in a realm in which it was played, and does the work
// of processors, finalizers and a program that serves ServedFinalizer from a cloud, in an
// order. Deletions come between rounds of work. It returns the names of the members that are
// left.
func (t Teardown) Tear(r *Realm, uids []string, cloud *Cloud, order Order, rounds func() int) (left []string) {
	var answers []Job
	for i, u := range uids {
		answers = append(answers, Job{Name: "serve " + u, Do: func() []lifecycle.Event { return t.serve(r, uid.MustParse(u), t.Members[i].Name, cloud) }})
	}
	for _, d := range t.Deletes {
		if n := r.Node(uid.MustParse(uids[d.Member])); n != nil {
			out, err := lifecycle.Delete(r.Context(), lifecycle.KeyOf(r, n), "", &coppicev1.DeleteOptions{PropagationPolicy: d.Policy})
			if err != nil {
				panic(err)
			}
			r.Apply(out.Events)
		}
		for range rounds() {
			r.Round(order, answers...)
		}
	}
	for len(r.Round(order, answers...)) > 0 {
		continue
	}
	for i, u := range uids {
		if r.Node(uid.MustParse(u)) != nil {
			left = append(left, t.Members[i].Name)
		}
	}
	return left
}

// serve deletes the resource of an object for which a call of ServedFinalizer is pending,
// and removes the finalizer.
func (t Teardown) serve(r *Realm, u uid.UID, name string, cloud *Cloud) []lifecycle.Event {
	n := r.Node(u)
	if n == nil || !lifecycle.PendingOf(r, u, n).Finalize || cloud.Delete(name) != nil {
		return nil
	}
	return r.serve(u)
}
