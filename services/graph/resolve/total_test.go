package resolve_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// Total counts what a reply has no room for, each object once, within a namespace.
func TestTotal(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	root := r.Create("nodes/root", nil)
	of := func(owners ...string) *coppicev1.ObjectMeta {
		m := &coppicev1.ObjectMeta{}
		for _, o := range owners {
			m.OwnerReferences = append(m.OwnerReferences, r.Reference(o, false))
		}
		return m
	}
	middle := r.Create("configmaps/middle@shop", of("nodes/root"))
	var list []statetest.Decide
	for i := range 300 {
		list = append(list, r.Creation(fmt.Sprintf("pods/p-%d@shop", i), of("configmaps/middle@shop", "nodes/root")))
	}
	list = append(list, r.Creation("pods/elsewhere@other", of("nodes/root")))
	r.Must(list...)
	snap := r.Snapshot()
	defer snap.Close()
	for _, c := range []struct {
		of        uid.UID
		namespace string
		most      int
		want      int
	}{
		{root, "", 1000, 303},
		{middle, "", 1000, 301},
		{middle, "shop", 1000, 301},
		{middle, "other", 1000, 0},
		{root, "", 100, 100},
	} {
		got, ok := resolve.Total(t.Context(), snap, []uid.UID{c.of}, c.namespace, nil, c.most)
		if got != c.want || !ok {
			t.Errorf("%s in %q, at most %d: %d, %t; want %d", c.of, c.namespace, c.most, got, ok, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := resolve.Total(ended, snap, []uid.UID{root}, "", nil, 1000); ok {
		t.Error("it went on after the context had ended")
	}
}
