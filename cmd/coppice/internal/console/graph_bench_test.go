package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// BenchmarkGraph measures a graph from the mirror to the message, without the time on the network: the first message, and that
// after a change of one object. Families have a Deployment, its ReplicaSet and three Pods.
func BenchmarkGraph(b *testing.B) {
	for _, objects := range []int{10_000, 100_000, 1_000_000} {
		m := mirror.New(time.Now)
		for i := range objects / 5 {
			m.Apply(benchFamily(i)...)
		}
		m.Apply(mirror.Change{Op: mirror.Synced})
		g := &liveGraph{m: &graph{Mirror: m}, ask: &view.GraphAsk{}}
		for _, first := range []bool{true, false} {
			b.Run(fmt.Sprintf("objects=%d/first=%t", objects, first), func(b *testing.B) {
				d := &drawer{}
				sent := 0
				for i := 0; b.Loop(); i++ {
					if first {
						g.sent = sentGraph{id: 1}
					} else {
						leaf := benchFamily(i % (objects / 5))[4]
						leaf.Object.Metadata.ResourceVersion = uint64(2 + i)
						leaf.Object.Metadata.Protection = &coppicev1.Protection{}
						m.Apply(leaf)
					}
					ask, _ := chartAsk(m, g.ask)
					sent = len(d.draw(g, &ask, view.GraphFrame{}))
				}
				b.ReportMetric(float64(sent), "bytes/message")
				b.ReportMetric(float64(len(g.sent.nodes)), "nodes")
			})
		}
	}
}

// benchFamily returns a family as the watch of a graph delivers it.
func benchFamily(i int) (changes []mirror.Change) {
	namespace := fmt.Sprintf("team-%d", i%20)
	add := func(place int, resource, version, kind, name string, owner *coppicev1.Object) *coppicev1.Object {
		o := &coppicev1.Object{ApiVersion: version, Kind: kind, Metadata: &coppicev1.ObjectMeta{
			Name: name, Namespace: namespace, Uid: fmt.Sprintf("00000000-0000-4000-8%03d-%012d", place, i), ResourceVersion: 1,
		}}
		if owner != nil {
			o.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: owner.GetMetadata().GetName(), Uid: owner.GetMetadata().GetUid()}}
		}
		changes = append(changes, mirror.Change{Op: mirror.Put, Resource: resource, Object: o})
		return o
	}
	name := fmt.Sprintf("service-%d", i)
	deployment := add(0, "deployments.apps", "apps/v1", "Deployment", name, nil)
	replicas := add(1, "replicasets.apps", "apps/v1", "ReplicaSet", name+"-7d4c9", deployment)
	for pod := range 3 {
		add(2+pod, "pods", "v1", "Pod", fmt.Sprintf("%s-7d4c9-%d", name, pod), replicas)
	}
	return changes
}
