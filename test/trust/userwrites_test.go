package trust_test

import (
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// The writes of users of a users file are carried out and answered. The reply has the values of the object if the user may get it.
func TestUserWrites(t *testing.T) {
	t.Parallel()
	f, err := access.Parse("users.yaml", []byte(`
version: 1
users:
  author: {may: [{verbs: [read, write], kinds: [configmaps], namespaces: [shop]}]}
  blind: {may: [{verbs: [create], kinds: [configmaps], namespaces: [shop]}]}
`))
	must.Succeed(t, err)
	r := startWith(t, allinone.Config{Auth: true, Users: f})
	for user, sees := range map[string]bool{"author": true, "blind": false} {
		created, err := client.New(r.conn(user), client.WithActor(user)).Resource(client.ParseResource("configmaps"), "shop").Create(r.Ctx, &coppicev1.Object{
			Metadata: &coppicev1.ObjectMeta{Name: user, Annotations: map[string]string{"a": "b"}},
		})
		must.Succeed(t, err)
		if got := created.GetMetadata().GetAnnotations()["a"] == "b"; created.GetMetadata().GetName() != user || got != sees {
			t.Errorf("user %s: the reply is %v; it should have the annotation: %t", user, created, sees)
		}
	}
}
