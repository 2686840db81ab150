package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

var secretsOf = client.Resource{Plural: "secrets"}

// parts creates objects of three kinds in two namespaces, and a pod that two of them own, and
// returns the deletions of all three.
func (r *realm) parts() []client.Deletion {
	r.TB.Helper()
	web, rs := r.Create(deployments, "shop", named("web")), r.Create(replicasets, "shop", named("rs"))
	r.Create(secretsOf, "vault", named("key"))
	r.Create(pods, "shop", named("shared", web, rs))
	return []client.Deletion{
		{Resource: deployments, Namespace: "shop", Names: []string{"web"}, Propagation: client.Foreground},
		{Resource: replicasets, Namespace: "shop", Names: []string{"rs"}},
		{Resource: secretsOf, Namespace: "vault", Names: []string{"key"}},
	}
}

func (r *realm) planParts(of []client.Deletion) *client.Plan {
	r.TB.Helper()
	p, err := r.PlanDeletions(r.Ctx, of, client.MinRevision(r.Revision()))
	must.Succeed(r.TB, err)
	return p
}

// B9.1: a plan of objects of several kinds and namespaces is carried out in one commit, or not at all.
func TestPlanParts(t *testing.T) {
	t.Parallel()
	r := start(t)
	of := r.parts()
	if c := r.planParts(of[:1]).GetCounts(); c.GetStripped() != 1 {
		t.Errorf("of one owner: %v", c)
	}
	p := r.planParts(of)
	if c := p.GetCounts(); c.GetRemoved()+c.GetRemovedLater() != 4 || len(p.GetObjects()) != 4 {
		t.Fatalf("of all: %v", p)
	}

	// One part less, or another object, is another plan.
	if _, err := r.DeletePlanned(r.Ctx, p.GetPlan(), of[:2]); !errors.Is(err, client.ErrConflict) {
		t.Errorf("without the last part: %v", err)
	}
	// So are other options of a part. The name says that options are different, and the hash where.
	for _, c := range []struct {
		want         error
		first, other client.PropagationPolicy
		last         client.PropagationPolicy
	}{{client.ErrBadRequest, client.Foreground, "", client.Orphan}, {client.ErrConflict, "", client.Foreground, ""}} {
		other := slices.Clone(of)
		other[0].Propagation, other[1].Propagation, other[2].Propagation = c.first, c.other, c.last
		if _, err := r.DeletePlanned(r.Ctx, p.GetPlan(), other); !errors.Is(err, c.want) {
			t.Errorf("with other options: %v, want %v", err, c.want)
		}
	}
	r.Create(pods, "shop", named("late", r.Get(deployments, "shop", "web")))
	_, err := r.DeletePlanned(r.Ctx, p.GetPlan(), of)
	var e *client.Error
	if !asError(err, &e) || e.Reason != client.ErrConflict || len(e.Causes) == 0 || e.Causes[0].Field != "pods/late (shop)" {
		t.Fatalf("after a change: %v", err)
	}
	for _, d := range of {
		if m := r.Get(d.Resource, d.Namespace, d.Names[0]).GetMetadata(); m.GetDeletionTimestamp() != nil {
			t.Errorf("%s/%s is deleted all the same", d.Resource, m.GetName())
		}
	}

	p = r.planParts(of)
	before := r.Revision()
	dry, err := r.DeletePlanned(r.Ctx, p.GetPlan(), of, client.DryRun(true))
	if err != nil || len(dry) != 3 || r.Revision() != before {
		t.Errorf("a dry run: %v, %v", dry, err)
	}
	results, err := r.DeletePlanned(r.Ctx, p.GetPlan(), of)
	if err != nil || len(results) != 3 {
		t.Fatalf("%v, %v", results, err)
	}
	for i, want := range []string{"web", "rs", "key"} {
		if got := results[i].Object.GetMetadata().GetName(); got != want || results[i].Err != nil {
			t.Errorf("result %d is of %s, %v; want %s", i, got, results[i].Err, want)
		}
	}
	if results[0].State != client.Pending || results[2].State != client.Removed {
		t.Errorf("the policies of the parts: %v", results)
	}
	r.Gone(pods, "shop", "shared")
	r.Gone(pods, "shop", "late")
	r.Gone(deployments, "shop", "web")

	// All of it was one command.
	last, err := r.Log().Last(r.Ctx)
	must.Succeed(t, err)
	var commands int
	for c, err := range r.Log().Read(r.Ctx, client.FromSequence(1), client.ToSequence(last)) {
		must.Succeed(t, err)
		for _, command := range c.GetCommands() {
			if command.GetVerb() == bus.VerbDelete {
				commands++
			}
		}
	}
	if commands != 1 {
		t.Errorf("the log has %d deletions", commands)
	}
}

// B9.3: a repetition of a deletion with parts gets its first outcome, also after a restart, and with grants
// that are not valid any more.
func TestRepeatedParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startWith(t, allinone.Config{Dir: dir})
	p := r.planParts(r.parts())
	type reply struct{ Grant string }
	grant := func(rest string) string {
		return decode[reply](t, r.request("delete", rest, fmt.Sprintf(`{"askGrant":true,"plan":%q}`, p.GetPlan())).Data).Grant
	}
	body := func(grants ...string) string {
		return fmt.Sprintf(`{"names":["web"],"options":{"propagationPolicy":"Foreground"},"plan":%q,"also":[`+
			`{"resource":"replicasets.apps","namespace":"shop","names":["rs"],"grant":%q},{"resource":"secrets","namespace":"vault","names":["key"],"grant":%q}]}`,
			p.GetPlan(), grants[0], grants[1])
	}
	id := []string{bus.HeaderCommand, uuid.Must(uuid.NewV7()).String()}
	invalid := body("", "")
	if m := r.request("delete", "apps.deployments.shop", invalid, id...); m.Header.Get(bus.HeaderReason) != "Forbidden" || !strings.Contains(string(m.Data), "GrantInvalid") {
		t.Errorf("without grants: %s", m.Data)
	}
	if m := r.Get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Fatalf("it is deleted without grants: %v", m)
	}
	rs, key := grant("apps.replicasets.shop"), grant("_.secrets.vault")
	if m := r.request("delete", "apps.deployments.shop", body(key, rs), id...); m.Header.Get(bus.HeaderReason) != "Forbidden" {
		t.Errorf("with the grants in the wrong order: %s", m.Data)
	}
	// A command that was refused can be sent again with its id.
	// Until the writer has forgotten the refusal, a repetition gets it, too.
	done := r.request("delete", "apps.deployments.shop", body(rs, key), id...)
	r.WaitFor("the refusal to be forgotten", func() bool {
		if done.Header.Get(bus.HeaderReason) != "Forbidden" {
			return true
		}
		done = r.request("delete", "apps.deployments.shop", body(rs, key), id...)
		return false
	})
	if got := decode[result](t, done.Data); len(got.Results) != 3 || got.Results[0].Code != 202 {
		t.Fatalf("deleted: %s", done.Data)
	}
	if again := r.request("delete", "apps.deployments.shop", invalid, id...); warnings.ReplaceAllString(string(again.Data), "") != string(done.Data) {
		t.Errorf("again:\n%s\nwant\n%s", again.Data, done.Data)
	}
	r.Stop()
	r = startWith(t, allinone.Config{Dir: dir})
	if again := r.request("delete", "apps.deployments.shop", invalid, id...); warnings.ReplaceAllString(string(again.Data), "") != string(done.Data) {
		t.Errorf("again, after a restart:\n%s\nwant\n%s", again.Data, done.Data)
	}
}

// B9.4: a request with parts that is not well formed says what is wrong, and changes nothing.
func TestPartsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.Create(deployments, "shop", named("web"))
	const plan, part = `"plan":"0123456789abcdef@1"`, `{"resource":"pods","namespace":"shop","names":["p"]}`
	for _, c := range []struct{ name, verb, body, reason, says string }{
		{"no plan", "delete", `{"names":["web"],"also":[` + part + `]}`, "BadRequest", "plan the deletion, and name the plan"},
		{"no names", "delete", `{"names":["web"],` + plan + `,"also":[{"resource":"pods","namespace":"shop"}]}`, "BadRequest", "also[0]: the part of pods names no objects"},
		{"a part with a dry run", "delete", `{"names":["web"],` + plan + `,"also":[{"resource":"pods","names":["p"],"options":{"dryRun":["All"]}}]}`, "BadRequest", "also[0].options.dryRun"},
		{"an object twice", "plan", `{"delete":{"names":["web"],"also":[{"resource":"deployments.apps","namespace":"shop","names":["web"]}]}}`, "BadRequest", `names deployments.apps/web in namespace \"shop\" twice`},
		{"too many parts", "plan", `{"delete":{"names":["web"],"also":[` + part + strings.Repeat(","+part, bus.MaxDeleteParts) + `]}}`, "RequestEntityTooLarge", "101 parts, and at most 100"},
		{"too many objects", "plan", `{"delete":{"names":["web"],"also":[{"resource":"pods","namespace":"shop","names":["p"` + strings.Repeat(`,"p"`, 10000) + `]}]}}`, "RequestEntityTooLarge", "at most 10,000 objects"},
		{"protections", "plan", `{"unprotect":true,"delete":{"names":["web"],"also":[` + part + `]}}`, "BadRequest", "unprotect"},
		{"no grant", "plan", `{"delete":{"names":["web"],"also":[` + part + `]}}`, "Forbidden", "no valid grant to plan pods in namespace shop"},
		{"a grant with names", "delete", `{"askGrant":true,"names":["web"],` + plan + `}`, "BadRequest", "names no objects and has no options"},
		{"a grant for no plan", "delete", `{"askGrant":true}`, "BadRequest", "is not the name of a plan"},
		{"a grant to plan with an offset", "plan", `{"askGrant":true,"offset":1}`, "BadRequest", "askGrant"},
		{"the past", "readpast", `{"plan":{"delete":{"names":["web"],"also":[` + part + `]}}}`, "BadRequest", "a plan of the past is of objects of one resource"},
	} {
		m := r.request(c.verb, "apps.deployments.shop", c.body)
		if got := m.Header.Get(bus.HeaderReason); got != c.reason || !strings.Contains(string(m.Data), c.says) {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, got, m.Data, c.reason, c.says)
		}
	}
	if _, err := r.PlanDeletions(r.Ctx, make([]client.Deletion, bus.MaxDeleteParts+2)); !errors.Is(err, client.ErrRequestEntityTooLarge) {
		t.Errorf("too many deletions: %v", err)
	}
	if m := r.Get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("web is deleted: %v", m)
	}
}

// B9.1: a deletion of which one part is protected, or has a kind that is not registered, is refused as a whole.
func TestPartsThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	r := start(t)
	of := r.parts()
	p := r.planParts(of)
	if _, err := r.Resource(secretsOf, "vault").Protect(r.Ctx, []string{"key"}, "ticket 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.DeletePlanned(r.Ctx, p.GetPlan(), of); !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "ticket 1") {
		t.Errorf("a protected part: %v", err)
	}
	unknown := slices.Concat(of[:2], []client.Deletion{{Resource: client.Resource{Plural: "widgets"}, Namespace: "shop", Names: []string{"w"}}})
	if _, err := r.PlanDeletions(r.Ctx, unknown); !errors.Is(err, client.ErrUnknownKind) {
		t.Errorf("an unknown kind: %v", err)
	}
	var m *coppicev1.ObjectMeta
	if m = r.Get(deployments, "shop", "web").GetMetadata(); m.GetDeletionTimestamp() != nil {
		t.Errorf("web is deleted: %v", m)
	}
}
