package plan_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// TestScripts plays the stories in testdata/script.
//
//	create pods/a owners=(deployments/web) blocking finalizers=(example.com/x)
//	across pods/a@shop uses=(Secret/key@infra)   with uses of objects in other namespaces
//	share *                       sets sharedNamespaces in the realm settings
//	import pods/a session=s ...   the same, with the owner grace, in a session that is open
//	patch pods/a                  a merge patch, in the next line
//	kind widgets                  registers a kind whose objects observe generations
//	delete deployments/web policy=Foreground
//	plan deployments/web deployments/api policy=Foreground max=10
//
// A plan is printed as its counts, and then a line for each object: its outcome, the object
// that it is in the plan because of, the references that it loses, and its blockers. A star
// marks an object that the deletion names. Uids are names.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		t.Helper()
		t.Parallel()
		s := &script{realm: statetest.New(t)}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct{ realm *statetest.Realm }

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	target, values := "", func(key string) []string {
		for _, a := range d.CmdArgs {
			if a.Key == key {
				return a.Vals
			}
		}
		return nil
	}
	var targets []string
	for _, a := range d.CmdArgs {
		if strings.Contains(a.Key, "/") || d.Cmd == "kind" {
			target = a.Key
			targets = append(targets, a.Key)
		}
	}
	policy := strings.Join(values("policy"), "")
	switch d.Cmd {
	case "create", "import", "across":
		m := &coppicev1.ObjectMeta{Finalizers: values("finalizers")}
		for _, o := range values("owners") {
			m.OwnerReferences = append(m.OwnerReferences, s.realm.Reference(o, d.HasArg("blocking")))
		}
		for _, u := range values("uses") {
			kind, name, _ := strings.Cut(u, "/")
			name, namespace, _ := strings.Cut(name, "@")
			m.Uses = append(m.Uses, &coppicev1.Use{Kind: kind, Name: name, Namespace: namespace})
		}
		for _, w := range values("stranger") { // of a kind that is not registered
			m.OwnerReferences = append(m.OwnerReferences, &coppicev1.OwnerReference{ApiVersion: "example.com/v1", Kind: "Stranger", Name: w, Uid: w})
		}
		switch d.Cmd {
		case "import":
			s.realm.Must(s.realm.Importation(target, strings.Join(values("session"), ""), m))
		case "across":
			s.realm.Across(target, m)
		default:
			s.realm.Create(target, m)
		}
	case "share":
		s.realm.SetSettings(&lifecycle.SettingsSpec{SharedNamespaces: []string{d.CmdArgs[0].Key}})
	case "patch":
		k := s.realm.Key(target)
		s.realm.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Patch(ctx, k, &coppicev1.Patch{Name: k.Name, Patch: []byte(d.Input)})
		})
	case "kind":
		s.realm.Register(lifecycle.KindSpec{
			Group: "example.com", Kind: strings.ToUpper(target[:1]) + target[1:len(target)-1], Plural: target, Scope: lifecycle.ScopeNamespaced,
			Versions: []lifecycle.KindVersion{{Name: "v1"}}, ObservesGeneration: true,
		})
	case "delete":
		s.realm.Delete(target, policy)
	case "plan":
		limit := 1000
		if v := values("max"); v != nil {
			var err error
			if limit, err = strconv.Atoi(v[0]); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		p, err := compute(t, s.realm, limit, policy, targets...)
		if err != nil {
			return fmt.Sprintf("%s: %s\n", err.Reason, err.Message)
		}
		return describe(p)
	default:
		d.Fatalf(t, "there is no command %q", d.Cmd)
	}
	return ""
}

// deletion is the deletion of objects of one resource and namespace.
func deletion(r *statetest.Realm, policy string, targets ...string) plan.Deletion {
	at := r.Key(targets[0])
	d := plan.Deletion{Resource: at.Kind.Resource(), Namespace: at.Namespace, DeleteRequest: &coppicev1.DeleteRequest{
		Options: &coppicev1.DeleteOptions{PropagationPolicy: policy},
	}}
	for _, target := range targets {
		d.Names = append(d.Names, r.Key(target).Name)
	}
	return d
}

func compute(t *testing.T, r *statetest.Realm, limit int, policy string, targets ...string) (*plan.Plan, *lifecycle.Error) {
	t.Helper()
	snap := r.Snapshot()
	defer snap.Close()
	return plan.Compute(context.Background(), snap, deletion(r, policy, targets...), r.Clock, limit)
}

func describe(p *plan.Plan) string {
	var b strings.Builder
	b.WriteString(strings.Join(strings.Fields(p.Counts().String()), " "))
	if n := p.Reply(0, 0, 0).GetElsewhere(); n > 0 {
		_, _ = fmt.Fprintf(&b, ", and %d elsewhere", n)
	}
	b.WriteString("\n")
	for _, o := range p.Objects {
		star := ""
		if o.Requested {
			star = "*"
		}
		_, _ = fmt.Fprintf(&b, "%s/%s%s: %s", o.Resource, o.Node.Name, star, outcome(o.Outcome))
		if o.Because != "" {
			_, _ = fmt.Fprintf(&b, " because of %s", o.Because)
		}
		for _, r := range o.Lost {
			_, _ = fmt.Fprintf(&b, "; loses %s", r.UID)
		}
		for _, h := range o.Blockers {
			b.WriteString("; " + blocker(h))
		}
		if o.ForUsers {
			b.WriteString("; in the foreground because it is used")
		}
		b.WriteString("\n")
	}
	for _, c := range p.Cycles {
		b.WriteString("cycle: " + c + "\n")
	}
	return b.String()
}

func outcome(o plan.Outcome) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(o.String(), "PLAN_OUTCOME_"), "_", " "))
}

func blocker(h plan.Blocker) string {
	switch h.Type {
	case coppicev1.PlanBlocker_TYPE_DEPENDENTS:
		return fmt.Sprintf("waits for %d", h.Count)
	case coppicev1.PlanBlocker_TYPE_USERS:
		return fmt.Sprintf("used by %d, %s", h.Count, h.Name)
	case coppicev1.PlanBlocker_TYPE_OWNER:
		return "unknown owner " + h.Name
	case coppicev1.PlanBlocker_TYPE_FINALIZER:
		return "finalizer " + h.Name
	}
	return strings.ToLower(strings.TrimPrefix(h.Type.String(), "TYPE_"))
}

func owned(r *statetest.Realm, owners ...string) *coppicev1.ObjectMeta {
	m := &coppicev1.ObjectMeta{}
	for _, o := range owners {
		m.OwnerReferences = append(m.OwnerReferences, r.Reference(o, true))
	}
	return m
}
