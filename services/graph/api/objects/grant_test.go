package objects

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// B9.2: a grant is valid at every graph service with the secret, until it ends, for the actor, the verb,
// the resource, the namespace and the plan for which it was given.
func TestGrants(t *testing.T) {
	t.Parallel()
	const plan = "0123456789abcdef@7"
	secrets := secret.Secrets{}.Draw()
	now := time.UnixMilli(1_700_000_000_000)
	at := bus.API{Realm: "r", Actor: "ana", Verb: bus.VerbDelete, Group: "apps", Plural: "deployments", Namespace: "shop"}
	id := func(id byte) func() [16]byte { return func() [16]byte { return [16]byte{id} } }
	grant := NewGrants(secrets, "r", id(1)).give(at, plan, now)
	part := func(change ...func(*coppicev1.DeletePart)) *coppicev1.DeletePart {
		p := &coppicev1.DeletePart{Resource: "deployments.apps", Namespace: "shop", Names: []string{"web"}, Grant: slices.Clone(grant)}
		for _, c := range change {
			c(p)
		}
		return p
	}
	for _, c := range []struct {
		name    string
		secrets secret.Secrets
		realm   string
		id      byte
		actor   string
		verb    string
		plan    string
		after   time.Duration
		part    *coppicev1.DeletePart
		valid   bool
	}{
		{name: "as it was given", valid: true},
		{name: "by a secret that is not the newest any more", secrets: secrets.Draw()},
		{name: "at its end", after: grantTime, valid: true},
		{name: "after its end", after: grantTime + time.Millisecond},
		{name: "another installation", secrets: secret.Secrets{}.Draw()},
		{name: "another realm", realm: "s"},
		{name: "a realm that was created again", id: 2},
		{name: "another actor", actor: "bob"},
		{name: "another verb", verb: bus.VerbPlan},
		{name: "another plan", plan: "0123456789abcdee@7"},
		{name: "another resource", part: part(func(p *coppicev1.DeletePart) { p.Resource = "deployments" })},
		{name: "another namespace", part: part(func(p *coppicev1.DeletePart) { p.Namespace = "prod" })},
		{name: "none", part: part(func(p *coppicev1.DeletePart) { p.Grant = nil })},
		{name: "too short", part: part(func(p *coppicev1.DeletePart) { p.Grant = p.Grant[:grantSize-1] })},
		{name: "a later end", part: part(func(p *coppicev1.DeletePart) { p.Grant[4]++ }), after: grantTime + time.Second},
		{name: "a secret that does not exist", part: part(func(p *coppicev1.DeletePart) { p.Grant[3] = 9 })},
		{name: "another code", part: part(func(p *coppicev1.DeletePart) { p.Grant[grantSize-1]++ })},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			by, of, realm, named := secrets, at, "r", plan
			if c.secrets.Newest() > 0 {
				by = c.secrets
			}
			if c.realm != "" {
				realm = c.realm
			}
			if c.actor != "" {
				of.Actor = c.actor
			}
			if c.verb != "" {
				of.Verb = c.verb
			}
			if c.plan != "" {
				named = c.plan
			}
			q := &coppicev1.DeleteRequest{Also: []*coppicev1.DeletePart{part(), c.part}}
			if c.part == nil {
				q.Also = q.Also[:1]
			}
			err := NewGrants(by, realm, id(max(c.id, 1))).covers(of, q, named, now.Add(c.after))
			switch {
			case c.valid && err != nil:
				t.Error(err)
			case !c.valid && (err == nil || err.Reason != api.ErrForbidden || len(err.Causes) != 1 || err.Causes[0].Reason != api.CauseGrantInvalid):
				t.Errorf("it is accepted, or refused for another reason: %v", err)
			}
		})
	}
}
