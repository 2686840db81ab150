package state_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A work message that arrives between two commands of one commit may be used up
// by a state that the commit does not leave behind. Then the commit must report
// the row also if it ends as it began: the message that said so is gone.
func TestRowIsReportedAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		commands func(r *statetest.Realm, web uid.UID) []statetest.Decide
		want     string // the finalizer that may be done, before and after
	}{
		{"a finalizer completes, and a DELETE sets it again", func(r *statetest.Realm, web uid.UID) []statetest.Decide {
			return []statetest.Decide{finish(web, lifecycle.FinalizerOrphan), deletion(r, "deployments/web", lifecycle.Orphan)}
		}, lifecycle.FinalizerOrphan},
		{"a finalizer completes, and a DELETE sets it again, foreground", func(r *statetest.Realm, web uid.UID) []statetest.Decide {
			return []statetest.Decide{finish(web, lifecycle.FinalizerForeground), deletion(r, "deployments/web", lifecycle.Foreground)}
		}, lifecycle.FinalizerForeground},
		{"a finalizer cannot complete between two DELETEs", func(r *statetest.Realm, web uid.UID) []statetest.Decide {
			return []statetest.Decide{
				deletion(r, "deployments/web", lifecycle.Foreground), finish(web, lifecycle.FinalizerOrphan), deletion(r, "deployments/web", lifecycle.Orphan),
			}
		}, lifecycle.FinalizerOrphan},
		{"a finalizer cannot complete while a dependent exists", func(r *statetest.Realm, web uid.UID) []statetest.Decide {
			return []statetest.Decide{
				r.Creation("pods/late", owned(r, "deployments/web")), finish(web, lifecycle.FinalizerForeground), deletion(r, "pods/late", lifecycle.Background),
			}
		}, lifecycle.FinalizerForeground},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := statetest.New(t)
			web := r.Create("deployments/web", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/hold"}})
			// What has no dependents and never had any is another case.
			r.Create("pods/a", owned(r, "deployments/web"))
			r.Delete("pods/a", lifecycle.Background)
			policy := lifecycle.Orphan
			if test.want == lifecycle.FinalizerForeground {
				policy = lifecycle.Foreground
			}
			r.Delete("deployments/web", policy)
			if row := pending(t, r, web); row.Finish != test.want {
				t.Fatalf("before: %+v", row.Pending)
			}
			reported := false
			r.Applied = func(_ uint64, _ []state.Change, changes []state.WorkChange) {
				for _, c := range changes {
					reported = reported || c.UID == web && c.Has
				}
			}
			r.Must(test.commands(r, web)...)
			if row := pending(t, r, web); row.Finish != test.want {
				t.Fatalf("after: %+v", row.Pending)
			}
			if !reported {
				t.Errorf("the row of %s was not reported", web)
			}
			// A command that uses up no message reports nothing.
			reported = false
			r.Must(deletion(r, "deployments/web", policy))
			if reported {
				t.Error("a DELETE that changes nothing reported the row")
			}
		})
	}
}

// finish is the command by which the built-in finalizers complete one.
func finish(u uid.UID, finalizer string) statetest.Decide {
	return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return &lifecycle.Outcome{Events: lifecycle.Finish(ctx, ctx.Node(u), finalizer, nil)}, nil
	}
}

func deletion(r *statetest.Realm, target, policy string) statetest.Decide {
	k := r.Key(target)
	return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Delete(ctx, k, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
	}
}
