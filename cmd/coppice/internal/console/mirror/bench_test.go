package mirror

import (
	"fmt"
	"iter"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// deployed returns changes for n objects: Deployments with a ReplicaSet each, and eight Pods for each of these.
func deployed(n int) func(yield func(Change) bool) {
	created := timestamppb.New(time.Unix(1_700_000_000, 0))
	yes := true
	return func(yield func(Change) bool) {
		var owner, top *coppicev1.Object
		for i := range n {
			o := &coppicev1.Object{ApiVersion: "apps/v1", Metadata: &coppicev1.ObjectMeta{
				Uid: uid.New().String(), Namespace: fmt.Sprintf("team-%d", i/1000), ResourceVersion: uint64(i + 1), CreationTimestamp: created,
				Labels: map[string]string{"app": fmt.Sprintf("web-%d", i/10), "tier": "front"},
			}}
			resource, by := "pods", owner
			switch i % 10 {
			case 0:
				resource, o.Kind, by, top = "deployments.apps", "Deployment", nil, o
				o.Metadata.Name = fmt.Sprintf("web-%d", i/10)
			case 1:
				resource, o.Kind, by, owner = "replicasets.apps", "ReplicaSet", top, o
				o.Metadata.Name = top.GetMetadata().GetName() + "-5d9c7b8f66"
			default:
				o.ApiVersion, o.Kind = "v1", "Pod"
				o.Metadata.Name = fmt.Sprintf("%s-%05x", owner.GetMetadata().GetName(), i)
			}
			if by != nil {
				o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{
					ApiVersion: "apps/v1", Kind: by.GetKind(), Name: by.GetMetadata().GetName(), Uid: by.GetMetadata().GetUid(), Controller: &yes, BlockOwnerDeletion: &yes,
				}}
			}
			if !yield(Change{Op: Put, Resource: resource, Object: o, Revision: uint64(i + 1)}) {
				return
			}
		}
		yield(Change{Op: Synced})
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkMirror reports the memory of an object, the time to read one, and the times of a search that finds all
// objects, of one that finds none, and of a Family.
func BenchmarkMirror(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				before := heap()
				m := New(time.Now)
				var applying time.Duration
				var batch []Change
				root := ""
				for c := range deployed(n) {
					if root == "" {
						root = c.Object.GetMetadata().GetUid()
					}
					if batch = append(batch, c); len(batch) == 1000 || c.Op == Synced {
						began := time.Now()
						m.Apply(batch...)
						applying += time.Since(began)
						batch = batch[:0]
					}
				}
				batch = nil
				b.ReportMetric(float64(heap()-before)/float64(n), "bytes/object")
				b.ReportMetric(float64(applying.Nanoseconds())/float64(n), "ns/object")
				for name, text := range map[string]string{"all": "web", "none": "nothing", "uid": root[:8] + "-ffff", "pods": "pods/web-99"} {
					began := time.Now()
					m.Search(text, 50)
					b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/search-"+name)
				}
				began := time.Now()
				m.Family(root, 0, 200)
				b.ReportMetric(float64(time.Since(began).Microseconds()), "µs/family")
				runtime.KeepAlive(m)
			}
		})
	}
}

// chained returns changes for n objects, each of which owns the next.
func chained(n int) []Change {
	var list []Change
	for i := range n {
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{
			Uid: uid.New().String(), Namespace: "shop", Name: fmt.Sprint("p-", i), ResourceVersion: uint64(i + 1),
		}}
		if i > 0 {
			m := list[i-1].Object.GetMetadata()
			o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "Pod", Name: m.GetName(), Uid: m.GetUid()}}
		}
		list = append(list, Change{Op: Put, Resource: "pods", Object: o})
	}
	return list
}

// BenchmarkCascade reports the times of a deletion in the background of an owner with 200,000 dependents, for each object:
// they lose their owner, and are removed; and of a page of its Family.
func BenchmarkCascade(b *testing.B) {
	const n = 200_000
	for range b.N {
		m := New(time.Now)
		all := chained(n + 1)
		root := all[0].Object.GetMetadata()
		for _, c := range all[2:] {
			c.Object.Metadata.OwnerReferences = all[1].Object.GetMetadata().GetOwnerReferences()
		}
		m.Apply(all...)
		m.Apply(Change{Op: Synced})
		began := time.Now()
		m.Family(root.GetUid(), n/2, 200)
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/family")
		began = time.Now()
		m.Apply(Change{Op: Remove, Object: all[0].Object})
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/n, "ns/orphaned")
		began = time.Now()
		for i, c := range all[1:] {
			c.Op = Remove
			m.Apply(c)
			if i%1000 == 0 {
				m.Deletions(20)
			}
		}
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/n, "ns/removed")
		if list, _ := m.Deletions(1); len(list) != 0 {
			b.Errorf("a deletion is left: %+v", list)
		}
	}
}

// BenchmarkGraph reports the time of a copy of the graph for each object, without and with a label.
func BenchmarkGraph(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		m := New(time.Now)
		for batch := range chunked(deployed(n), 1000) {
			m.Apply(batch...)
		}
		for name, labels := range map[string][]string{"all": nil, "labelled": {"app=web-1"}} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var g chart.Graph
				for b.Loop() {
					m.Graph(labels, &g)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/object")
			})
		}
	}
}

// chunked returns slices of at most n of the changes.
func chunked(all iter.Seq[Change], n int) iter.Seq[[]Change] {
	return func(yield func([]Change) bool) {
		var some []Change
		for c := range all {
			if some = append(some, c); len(some) == n {
				if !yield(some) {
					return
				}
				some = nil
			}
		}
		yield(some)
	}
}
