package mirror

import (
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// compareGraph checks that the graph of a mirror has the objects, their states and the owners that the model has.
func (w *model) compareGraph(t *rapid.T, m *Mirror, into *chart.Graph) {
	labels := rapid.SampledFrom([][]string{nil, {"app=a"}, {"app=b"}, {"app=b", "tier=x"}}).Draw(t, "labels")
	m.Graph(labels, into)
	numbers := make([]uint32, len(into.Places))
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	names := make([]chart.Named, len(numbers))
	m.Named(numbers, names)
	objects := 0
	for i, p := range into.Places {
		if p == 0 {
			if names[i] != (chart.Named{}) {
				t.Fatalf("number %d is %+v, want no object", i, names[i])
			}
			continue
		}
		objects++
		uid := names[i].UID.String()
		o := w.objects[uid]
		meta := o.Object.GetMetadata()
		if names[i].Name != meta.GetName() || into.Kinds[p] != (chart.Kind{Resource: o.Resource, Namespace: meta.GetNamespace()}) || m.Number(uid) != uint32(i) {
			t.Fatalf("number %d is %+v, %+v, want %v", i, names[i], into.Kinds[p], o)
		}
		if got := stateNames[into.States[i]]; got != w.state(uid) {
			t.Fatalf("%s is %s, want %s", uid, got, w.state(uid))
		}
		var owners []uint32
		for _, r := range refs(o) {
			if id := m.Number(r.GetUid()); w.class(o, r) == valid && !slices.Contains(owners, id) {
				owners = append(owners, id)
			}
		}
		if got := into.Owners[into.First[i]:into.First[i+1]]; !slices.Equal(got, owners) {
			t.Fatalf("the owners of %s are %d, want %d", uid, got, owners)
		}
		matches := true
		for _, l := range labels {
			matches = matches && slices.Contains(labelsOf(o), l)
		}
		if got := into.Labelled == nil || into.Labelled[i]; got != matches {
			t.Fatalf("%s with %v matches %v: %v, want %v", uid, meta.GetLabels(), labels, got, matches)
		}
	}
	if objects != len(w.objects) || into.Loading == w.loaded || into.Revision != m.Revision() {
		t.Fatalf("%d objects at %d, loading %v; want %d at %d, %v", objects, into.Revision, into.Loading, len(w.objects), m.Revision(), !w.loaded)
	}
	for uid := range w.gone {
		if id := m.Number(uid); id != 0 {
			t.Fatalf("%s was removed and is number %d", uid, id)
		}
	}
}

func labelsOf(o Change) (list []string) {
	for k, v := range o.Object.GetMetadata().GetLabels() {
		list = append(list, k+"="+v)
	}
	return list
}

// A graph is arranged at each time of its life: all its objects are in the picture, below the first owner that Family has.
func TestGraphOfFamilies(t *testing.T) {
	t.Parallel()
	m := New(time.Now)
	var all []Change
	for c := range deployed(500) {
		all = append(all, c)
	}
	m.Apply(all...)
	var g chart.Graph
	m.Graph(nil, &g)
	p := (&chart.Chart{}).Arrange(&g, &chart.Ask{Fit: 1000, Most: 1000})
	if len(p.Nodes) != 500 || p.Objects != 500 || p.Levels != 3 {
		t.Fatalf("%d nodes of %d objects in %d levels, want 500 of 500 in 3", len(p.Nodes), p.Objects, p.Levels)
	}
	named := make([]chart.Named, 2)
	for _, n := range p.Nodes {
		of := []uint32{n.Key.Object, 0}
		if n.Parent >= 0 {
			of[1] = p.Nodes[n.Parent].Key.Object
		}
		m.Named(of, named)
		f, _ := m.Family(named[0].UID.String(), 0, 0)
		var first view.Relative
		if len(f.Owners) > 0 {
			first = f.Owners[0]
		}
		if first.Name != named[1].Name || f.Self.Below != uint64(n.Below) || f.Self.Dependents != int(n.Children) {
			t.Fatalf("%s is below %q with %d of %d; want %q, %d of %d", named[0].Name, named[1].Name, n.Children, n.Below, first.Name, f.Self.Dependents, f.Self.Below)
		}
	}
	if id := m.Number("00000000-0000-7000-8000-000000000000"); id != 0 {
		t.Errorf("an object that does not exist is number %d", id)
	}
	if id := m.Number("no uid!"); id != 0 {
		t.Errorf("a text that is no uid is number %d", id)
	}
	m.Named([]uint32{0, 1 << 31}, named)
	if named[0] != (chart.Named{}) || named[1] != (chart.Named{}) {
		t.Errorf("numbers that nothing has are %+v", named)
	}
}

// Graphs are copied and arranged while objects are created and removed, so that their numbers are used again: what is
// copied then can be arranged, and the next picture is right again.
func TestGraphWhileApplying(t *testing.T) {
	t.Parallel()
	m := New(time.Now)
	const n = copied + copied/2 // the lock is free in between
	var all []Change
	for c := range deployed(n) {
		all = append(all, c)
	}
	m.Apply(all...)
	changes := 0
	var applying sync.WaitGroup
	done := make(chan struct{})
	applying.Go(func() {
		for ; ; changes++ {
			select {
			case <-done:
				return
			default:
			}
			from := changes * 1000 % n
			for _, c := range all[from : from+1000] {
				c.Op = Remove
				m.Apply(c)
			}
			slices.Reverse(all[from : from+1000]) // the objects get other numbers, and other orders
			m.Apply(all[from : from+1000]...)
		}
	})
	var g chart.Graph
	var c chart.Chart
	var named []chart.Named
	for range 20 {
		m.Graph([]string{"tier=front"}, &g)
		p := c.Arrange(&g, &chart.Ask{Fit: n, Most: n})
		var numbers []uint32
		for _, is := range p.Nodes {
			numbers = append(numbers, is.Key.Object)
		}
		named = slices.Grow(named[:0], len(numbers))[:len(numbers)]
		m.Named(numbers, named)
	}
	close(done)
	applying.Wait()
	m.Graph(nil, &g)
	if p := c.Arrange(&g, &chart.Ask{Fit: n, Most: n}); p.Objects != n || p.Levels != 4 {
		t.Errorf("%d objects in %d levels, want %d in 4", p.Objects, p.Levels, n)
	}
}
