package trust_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// An application may write kinds, and must not delete them: it cannot give a kind an
// owner that does not exist, because of which the collector would delete the kind.
func TestKindHasNoOwner(t *testing.T) {
	t.Parallel()
	r := start(t)
	kinds := client.Resource{Group: "coppice.dev", Plural: "kinds"}
	spec := []byte(`{"group":"example.com","plural":"widgets","kind":"Widget","scope":"Namespaced","versions":[{"name":"v1"}]}`)
	r.Create(kinds, "", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "widgets.example.com"}, Spec: spec})
	application := client.New(r.conn(bus.RoleApplication), client.WithActor(bus.RoleApplication))
	patch := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"coppice.dev/v1","kind":"Kind","name":"gone.example.com","uid":"01890a5d-0000-7000-8000-000000000001"}]}}`)
	_, err := application.Resource(kinds, "").Patch(r.Ctx, "widgets.example.com", patch)
	if !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a kind was given an owner: %v", err)
	}
	if _, err := r.Resource(kinds, "").Get(r.Ctx, "widgets.example.com"); err != nil {
		t.Errorf("the kind is not there: %v", err)
	}
}
