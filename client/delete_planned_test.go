package client_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// One replica gives a grant, and one of an older version, which does not know parts, plans the first
// deletion alone: that is an error, and not a plan.
func TestPlanOfOlderVersion(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	nc, service := testkit.Conn(t, server, bus.LocalUser), testkit.Conn(t, server, bus.RoleAnswers)
	planned := []*coppicev1.PlannedObject{{Name: "a", Requested: true}, {Name: "below"}}
	answersTo(t, service, bus.VerbPlan, func(m *nats.Msg) {
		var q coppicev1.PlanRequest
		if err := proto.Unmarshal(m.Data, &q); err != nil {
			t.Error(err)
		}
		plan := &coppicev1.PlanReply{Revision: 1, Hash: "0123456789abcdef", Plan: "0123456789abcdef@1", Objects: planned}
		if q.GetAskGrant() {
			plan = &coppicev1.PlanReply{Grant: []byte("grant")}
		}
		reply(t, m, plan)
	})
	c, ctx := client.New(nc), testkit.Context(t)
	first := client.Deletion{Resource: configMaps, Namespace: "shop", Names: []string{"a"}}
	if _, err := c.PlanDeletions(ctx, []client.Deletion{first}); err != nil {
		t.Errorf("the plan of one deletion: %v", err)
	}
	second := client.Deletion{Resource: configMaps, Namespace: "prod", Names: []string{"b"}}
	_, err := c.PlanDeletions(ctx, []client.Deletion{first, second})
	refused(t, "the plan of two", err, client.ErrMethodNotAllowed, "only some of the deletions", "older version")
}
