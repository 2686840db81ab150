package lifecycle_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// storedPolicy is a View that has one node.
type storedPolicy struct {
	lifecycle.View
	node *lifecycle.Node
}

func (v storedPolicy) Node(uid.UID) *lifecycle.Node { return v.node }

// An earlier version stored protection policies with a selector of blanks, which protect all
// objects of the kind. They can be replayed, and still protect.
func TestStoredBlankSelector(t *testing.T) {
	t.Parallel()
	node := &lifecycle.Node{UID: "policy", APIVersion: lifecycle.APIVersion, Kind: "ProtectionPolicy", Name: "all"}
	kinds, err := lifecycle.NewKinds().WithPolicy(node, &coppicev1.Body{Spec: []byte(`{"kind":"Pod","reason":"r","selector":" "}`)})
	must.Succeed(t, err)
	pods := &lifecycle.Kind{KindSpec: lifecycle.KindSpec{Kind: "Pod", Plural: "pods"}}
	for _, labels := range []map[string]string{nil, {"env": "prod"}} {
		if p := kinds.Policies()[0]; !p.Covers(storedPolicy{node: node}, pods, labels) {
			t.Errorf("it does not cover a pod with the labels %v", labels)
		}
	}
}
