package mirror

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type coordinates struct{ resource, apiVersion, kind, namespace, name string }

var places = []coordinates{
	{"configmaps", "v1", "ConfigMap", "shop", "a"}, {"pods", "v1", "Pod", "shop", "b"}, {"pods", "v1", "Pod", "other", "c"},
	{"namespaces", "v1", "Namespace", "", "shop"}, {"kinds.coppice.dev", "coppice.dev/v1", "Kind", "", "pods"},
	{"widgets.example.com", "example.com/v1", "Widget", "", "d"}, {"deployments.apps", "apps/v1", "Deployment", "shop", "e"},
	{"configmaps", "v1", "ConfigMap", "other", "a"}, {"pods", "v1", "Pod", "shop", "f"}, {"secrets", "v1", "Secret", "shop", "g"},
	{"configmaps", "v1", "ConfigMap", "shop", "h"}, {"nodes", "v1", "Node", "", "i"},
}

// A mirror says after every change what the definitions say.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		m := New(func() time.Time { return now })
		w := &model{objects: map[string]Change{}, gone: map[string]Change{}, put: map[string]bool{}}
		var uids []string
		var graph chart.Graph
		of := map[string]coordinates{}
		for i := range 9 {
			uid := fmt.Sprintf("00000000-0000-7000-8000-%012d", i)
			uids = append(uids, uid)
		}
		free := rapid.Permutation(places).Draw(t, "places") // no two objects have the same name
		for _, uid := range uids {
			of[uid], free = free[0], free[1:]
		}
		version := uint64(0)
		draw := func(label string, percent int) bool { return rapid.IntRange(0, 99).Draw(t, label) < percent }
		object := func() *coppicev1.Object {
			uid := rapid.SampledFrom(uids).Draw(t, "uid")
			if draw("elsewhere", 10) { // if it is present, its removal was missed
				of[uid], free = free[0], append(free[1:], of[uid])
			}
			at := of[uid]
			version++
			meta := &coppicev1.ObjectMeta{Uid: uid, Namespace: at.namespace, Name: at.name, ResourceVersion: version, CreationTimestamp: timestamppb.New(now)}
			if draw("labels", 50) {
				meta.Labels = map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app"), "tier": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tier")}
			}
			if draw("terminating", 40) {
				meta.DeletionTimestamp = timestamppb.New(now)
				if draw("agent", 20) {
					grace := int64(5)
					meta.DeletionGracePeriodSeconds = &grace
				}
			}
			if draw("protected", 15) {
				meta.Protection = &coppicev1.Protection{Reason: "r"}
			}
			meta.Finalizers = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
				"example.com/x", "example.com/y", lifecycle.FinalizerOrphan, lifecycle.FinalizerForeground, lifecycle.FinalizerContents, lifecycle.FinalizerInUse,
			}), 0, 2, rapid.ID).Draw(t, "finalizers")
			for range rapid.IntRange(0, 3).Draw(t, "owners") {
				owner := rapid.SampledFrom(uids).Draw(t, "owner")
				is := of[owner]
				blocks := draw("blocks", 50)
				r := &coppicev1.OwnerReference{ApiVersion: is.apiVersion, Kind: is.kind, Name: is.name, Uid: owner, BlockOwnerDeletion: &blocks}
				switch {
				case draw("wrong name", 8):
					r.Name = "wrong"
				case draw("moved", 8):
					r.ApiVersion = "old/v1"
				}
				meta.OwnerReferences = append(meta.OwnerReferences, r)
			}
			return &coppicev1.Object{ApiVersion: at.apiVersion, Kind: at.kind, Metadata: meta}
		}
		apply := func(c Change) {
			w.apply(c)
			m.Apply(c)
		}
		put := func() {
			o := object()
			apply(Change{Op: Put, Resource: of[o.GetMetadata().GetUid()].resource, Object: o, Revision: version})
		}
		t.Repeat(map[string]func(*rapid.T){
			"put":   func(*rapid.T) { put() },
			"again": func(*rapid.T) { put() },
			"remove": func(*rapid.T) {
				uid := rapid.SampledFrom(uids).Draw(t, "uid")
				at := of[uid]
				o := &coppicev1.Object{ApiVersion: at.apiVersion, Kind: at.kind, Metadata: &coppicev1.ObjectMeta{Uid: uid, Namespace: at.namespace, Name: at.name}}
				apply(Change{Op: Remove, Resource: at.resource, Object: o})
			},
			"synced":  func(*rapid.T) { apply(Change{Op: Synced}) },
			"restart": func(*rapid.T) { apply(Change{Op: Restart}) },
			"partial": func(*rapid.T) {
				w.partial = !w.partial
				m.SetPartial(w.partial)
			},
			"kinds": func(t *rapid.T) {
				w.without = rapid.SampledFrom([]string{"", "Pod", "ConfigMap"}).Draw(t, "without")
				var list []Registered
				for _, at := range places {
					for _, group := range []string{api.GroupOf(at.apiVersion), "old"} {
						if at.kind != w.without {
							list = append(list, Registered{Group: group, Kind: at.kind, Resource: at.resource, Namespaced: at.namespace != ""})
						}
					}
				}
				m.SetKinds(list)
			},
			"unchanged": func(*rapid.T) {
				for _, uid := range slices.Sorted(maps.Keys(w.objects)) {
					apply(w.objects[uid])
				}
			},
			"search": func(t *rapid.T) { w.compareSearch(t, m) },
			"": func(t *rapid.T) {
				w.compare(t, m, uids)
				w.compareGraph(t, m, &graph)
			},
		})
	})
}

func (w *model) compareSearch(t *rapid.T, m *Mirror) {
	word := rapid.SampledFrom([]string{"a", "b", "shop", "pods", "pods/", "shop/b", "pods/c", "o", "00000000", "shop a"}).Draw(t, "word")
	want := 0
	for uid, o := range w.objects {
		all := true
		for part := range strings.FieldsSeq(word) {
			in, name, slashed := strings.Cut(part, "/")
			place := func(s string) bool {
				return strings.Contains(o.Resource, s) || strings.Contains(o.Object.GetMetadata().GetNamespace(), s)
			}
			if slashed {
				all = all && place(in) && strings.Contains(o.Object.GetMetadata().GetName(), name)
			} else {
				all = all && (place(part) || strings.Contains(o.Object.GetMetadata().GetName(), part) || strings.HasPrefix(uid, part) && len(part) >= shortestUID)
			}
		}
		if all {
			want++
		}
	}
	if got := m.Search(word, 100); len(got.Matches) != want || got.More {
		t.Fatalf("search %q finds %+v, want %d", word, got, want)
	}
}
