package trust_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// B9.2: an actor that may not delete, or plan the deletion of, one of the kinds of a deletion gets nothing
// of it, whatever grants it sends.
func TestParts(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	policies, pods := client.Resource{Group: "coppice.dev", Plural: "protectionpolicies"}, client.Resource{Plural: "pods"}
	policy := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "p"}, Spec: []byte(`{"kind":"Secret","selector":"app=none","reason":"x"}`)}
	r.Create(policies, "", policy)
	r.Create(pods, "prod", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "p"}})
	both := []client.Deletion{{Resource: secrets, Namespace: "prod", Names: []string{"s1"}}, {Resource: policies, Names: []string{"p"}}}
	conn := r.conn(bus.RoleApplication)
	application := client.New(conn, client.WithActor(bus.RoleApplication))
	p, err := application.PlanDeletions(r.Ctx, both)
	must.Succeed(t, err)
	refused := func(what string, err error, says string) {
		t.Helper()
		if !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
		r.unharmed()
		if _, err := r.Resource(policies, "").Get(r.Ctx, "p"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = application.DeletePlanned(r.Ctx, p.GetPlan(), both)
	refused("without the permission", err, "may not delete protectionpolicies.coppice.dev")

	// The grants that the actor can get, and one that another actor got, do not replace it.
	ask := func(c *client.Client, actor, verb string, of client.Resource, namespace string) []byte {
		t.Helper()
		a := bus.API{Realm: bus.DefaultRealm, Actor: actor, Verb: verb, Group: of.Group, Plural: of.Plural, Namespace: namespace}
		var grant []byte
		if verb == bus.VerbPlan {
			var reply coppicev1.PlanReply
			err = rpc.Send(r.Ctx, c.Conn(), a.Subject(), nil, encoded(t, &coppicev1.PlanRequest{AskGrant: true}), &reply)
			grant = reply.GetGrant()
		} else {
			var reply coppicev1.ObjectsReply
			err = rpc.Send(r.Ctx, c.Conn(), a.Subject(), nil, encoded(t, &coppicev1.DeleteRequest{AskGrant: true, Plan: p.GetPlan()}), &reply)
			grant = reply.GetGrant()
		}
		if err != nil || len(grant) == 0 {
			t.Fatalf("a grant of %s to %s %s: %v", actor, verb, of, err)
		}
		return grant
	}
	for what, grant := range map[string][]byte{
		"no grant":                             nil,
		"the grant of another kind":            ask(application, bus.RoleApplication, bus.VerbDelete, secrets, "prod"),
		"the grant to plan":                    ask(application, bus.RoleApplication, bus.VerbPlan, policies, ""),
		"the grant of another actor to delete": ask(r.Client, bus.RoleOperator, bus.VerbDelete, policies, ""),
	} {
		a := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleApplication, Verb: bus.VerbDelete, Plural: "secrets", Namespace: "prod"}
		err := rpc.Send(r.Ctx, conn, a.Subject(), nil, encoded(t, &coppicev1.DeleteRequest{
			Names: []string{"s1"}, Plan: p.GetPlan(),
			Also: []*coppicev1.DeletePart{{Resource: policies.String(), Names: []string{"p"}, Grant: grant}},
		}), &coppicev1.ObjectsReply{})
		refused(what, err, "no valid grant to delete protectionpolicies.coppice.dev")
	}

	// Nor does a plan show what its actor may not plan.
	agent := client.New(r.conn(bus.RoleAgent), client.WithActor(bus.RoleAgent))
	_, err = agent.PlanDeletions(r.Ctx, []client.Deletion{{Resource: pods, Namespace: "prod", Names: []string{"p"}}, both[0]})
	refused("a plan without the permission", err, "may not plan secrets")

	// With the permission all of it is deleted.
	if p, err = r.PlanDeletions(r.Ctx, both); err != nil {
		t.Fatal(err)
	}
	if _, err := r.DeletePlanned(r.Ctx, p.GetPlan(), both); err != nil {
		t.Fatal(err)
	}
	for _, d := range both {
		o, err := r.Resource(d.Resource, d.Namespace).Get(r.Ctx, d.Names[0])
		if !errors.Is(err, client.ErrNotFound) && o.GetMetadata().GetDeletionTimestamp() == nil {
			t.Errorf("%s/%s is not deleted: %v", d.Resource, d.Names[0], err)
		}
	}
}

// encoded returns a request as it is sent.
func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := rpc.Encode(m)
	must.Succeed(t, err)
	return data
}
