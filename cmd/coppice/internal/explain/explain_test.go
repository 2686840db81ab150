package explain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/explain"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup/lookuptest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const bucket = "example.com/bucket"

// find explains an object of namespace shop, as data and as text without times.
func find(t *testing.T, r *lookup.Reader, kind, name string) (*explain.Explanation, string, error) {
	t.Helper()
	k, err := r.Kinds.Find(kind)
	must.Succeed(t, err)
	e, err := explain.Explain(t.Context(), r, k, "shop", name)
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	must.Succeed(t, e.Write(&out, time.Now()))
	text := regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d`).ReplaceAllString(out.String(), "TIME")
	return e, regexp.MustCompile(`for \d+s`).ReplaceAllString(text, "for 0s"), nil
}

func explained(t *testing.T, r *lookup.Reader, kind, name string) (*explain.Explanation, string) {
	t.Helper()
	e, text, err := find(t, r, kind, name)
	must.Succeed(t, err)
	return e, text
}

// marked is the commit of a mark for deletion, caused by another revision or by a command.
func marked(o *client.Object, resource string, revision, cause uint64) *client.Commit {
	e := &coppicev1.Event{
		Reason: coppicev1.Reason_REASON_OWNER_WAITING, Cause: cause,
		Event: &coppicev1.Event_DeletionMarked{DeletionMarked: &coppicev1.DeletionMarked{Object: lookuptest.Of(o)}},
	}
	if cause == 0 {
		e.Reason = coppicev1.Reason_REASON_REQUESTED
	}
	return &client.Commit{
		FirstRevision: revision, Time: time.Now().UnixMicro(), Commands: []*coppicev1.Command{{Actor: "ana", Verb: "delete"}},
		Resources: []string{resource}, Namespaces: []string{"shop"}, Events: []*coppicev1.Event{e},
	}
}

// The owners of an object are shown with theirs, and the summary names those that keep it.
func TestActive(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	api := realm.Create(t, "deployments.apps", "api", nil)
	rs := realm.Create(t, "replicasets.apps", "rs", nil, web)
	realm.Create(t, "configmaps", "both", nil, rs, api)
	e, text := explained(t, r, "cm", "both")
	const want = `configmaps/both is not deleted: replicasets.apps/rs (solid), deployments.apps/api (solid) own it
Owners:
  replicasets.apps/rs      blocking   solid: the owner exists
    deployments.apps/web   blocking   solid: the owner exists
  deployments.apps/api     blocking   solid: the owner exists
Dependents:  <none>
Finalizers:  <none>
`
	if text != want {
		t.Errorf("explained\n%s\nwant\n%s", text, want)
	}
	if e.State != explain.Active || len(e.Owners) != 3 || e.Owners[1].Depth != 1 || e.Owners[1].Of != "replicasets.apps/rs" {
		t.Errorf("explanation %+v", e)
	}
	if _, text := explained(t, r, "deploy", "api"); !strings.HasPrefix(text, "deployments.apps/api is not deleted: it has no owners, and no client has deleted it\n") {
		t.Errorf("explained\n%s", text)
	}
}

// A foreground deletion names the objects that block it, through others too, what blocks
// those, and the command that began it.
func TestTerminating(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	rs := realm.Create(t, "replicasets.apps", "rs", nil, web)
	pod := realm.Create(t, "pods", "a", []string{bucket}, rs)
	realm.Delete(t, "deployments.apps", "web", client.Foreground)
	realm.Commit(marked(web, "deployments.apps", 1, 0))
	realm.Commit(marked(rs, "replicasets.apps", 2, 1))
	realm.Commit(marked(pod, "pods", 3, 2))
	realm.Calls[pod.GetMetadata().GetUid()+" "+bucket] = &client.CallStatus{State: coppicev1.CallState_CALL_STATE_PARKED, Attempts: 5, LastError: "no bucket"}

	e, text := explained(t, r, "deploy", "web")
	const want = `deployments.apps/web is being deleted in the foreground since TIME and waits for 1 dependent: pods/a, blocked by example.com/bucket (parked after 5 attempts: no bucket)
Why:         ana deleted it
Owners:      <none>
Dependents:  1 object (1 blocking)
Finalizers:
  foregroundDeletion   for 0s   built in: waits until dependents that block the object are gone
Blocked by:
  pods/a  blocked by example.com/bucket (parked after 5 attempts: no bucket)
Causes:
  1   TIME   DeletionMarked   deployments.apps/web (shop)   ana: delete
`
	if text != want {
		t.Errorf("explained\n%s\nwant\n%s", text, want)
	}
	if e.State != explain.Terminating || len(e.Dependents.Blockers) != 1 || e.Dependents.Blockers[0].UID != pod.GetMetadata().GetUid() {
		t.Errorf("explanation %+v", e)
	}

	e, text = explained(t, r, "po", "a")
	for _, want := range []string{
		"pods/a is being deleted since TIME and is blocked by example.com/bucket (parked after 5 attempts: no bucket)\n",
		"\nWhy:         replicasets.apps/rs was deleting in the foreground, because ana deleted deployments.apps/web\n",
		"\n  example.com/bucket   for 0s   parked after 5 attempts: no bucket; see 'coppice parked'\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("explained\n%s\nwithout %q", text, want)
		}
	}
	if len(e.Causes) != 3 {
		t.Errorf("%d causes", len(e.Causes))
	}
	data, err := json.Marshal(e)
	must.Succeed(t, err)
	for _, want := range []string{`"state":"Terminating"`, `"consumer":"None","state":"Parked","lastError":"no bucket"`, `"why":"the owner is being deleted in the foreground`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s\nwithout %s", data, want)
		}
	}
}

// Only a deletion in the foreground waits for dependents: an object that was deleted in the background waits for its
// own finalizers alone, also as a dependent of an object that is deleted in the foreground.
func TestBackground(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	rs := realm.Create(t, "replicasets.apps", "rs", []string{bucket}, web)
	realm.Create(t, "pods", "a", nil, rs)
	realm.Delete(t, "replicasets.apps", "rs", client.Background)
	e, text := explained(t, r, "rs", "rs")
	if len(e.Dependents.Blockers) > 0 || strings.Contains(text, "Blocked by:") ||
		!strings.HasPrefix(text, "replicasets.apps/rs is being deleted since TIME and is blocked by example.com/bucket (no consumer)\n") {
		t.Errorf("explained\n%s", text)
	}
	realm.Delete(t, "deployments.apps", "web", client.Foreground)
	e, text = explained(t, r, "deploy", "web")
	if len(e.Dependents.Blockers) != 1 || e.Dependents.Blockers[0].Object != "replicasets.apps/rs" {
		t.Errorf("explained\n%s", text)
	}
}

// Dependents that were created after the mark are counted by actor.
func TestLate(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	realm.Create(t, "configmaps", "early", []string{bucket}, web)
	realm.Delete(t, "deployments.apps", "web", client.Foreground)
	realm.Commit(marked(web, "deployments.apps", 1, 0))
	late := realm.Create(t, "configmaps", "late", []string{bucket}, web)
	node := &coppicev1.Node{ApiVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "late", Uid: lookuptest.Of(late).GetUids()}
	realm.Commit(&client.Commit{
		FirstRevision: 2, Time: time.Now().UnixMicro(), Commands: []*coppicev1.Command{{Actor: "bob", Verb: "create"}},
		Events: []*coppicev1.Event{{Reason: coppicev1.Reason_REASON_REQUESTED, Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Node: node}}}},
	})
	e, text := explained(t, r, "deploy", "web")
	if !strings.Contains(text, "\nCreated since it was marked:\n  by bob   1 dependent   the last, configmaps/late, at TIME\n") {
		t.Errorf("explained\n%s", text)
	}
	if len(e.Dependents.Late) != 1 || e.Dependents.Late[0].Actor != "bob" {
		t.Errorf("late dependents %+v", e.Dependents.Late)
	}
}

// Only the first blockers are listed.
func TestManyBlockers(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	for i := range 25 {
		realm.Create(t, "configmaps", fmt.Sprintf("c%02d", i), []string{bucket}, web)
	}
	realm.Delete(t, "deployments.apps", "web", client.Foreground)
	e, text := explained(t, r, "deploy", "web")
	if len(e.Dependents.Blockers) != 25 || !slices.IsSortedFunc(e.Dependents.Blockers, func(a, b explain.Blocker) int { return strings.Compare(a.Object, b.Object) }) {
		t.Errorf("%d blockers", len(e.Dependents.Blockers))
	}
	if strings.Count(text, "\n  configmaps/") != 10 || !strings.Contains(text, "\n  and 15 more\n") {
		t.Errorf("explained\n%s", text)
	}
}

// The log explains an object that is gone. If it does not mention the object, the error
// says so.
func TestRemoved(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	c := realm.Create(t, "configmaps", "c", nil, web)
	realm.Delete(t, "deployments.apps", "web", client.Background)
	gone := func(o *client.Object, resource string, revision, cause uint64, reason coppicev1.Reason) {
		commit := marked(o, resource, revision, 0)
		commit.Events[0] = &coppicev1.Event{Reason: reason, Cause: cause, Event: &coppicev1.Event_Deleted{Deleted: &coppicev1.ObjectsDeleted{Objects: lookuptest.Of(o)}}}
		realm.Commit(commit)
	}
	gone(web, "deployments.apps", 1, 0, coppicev1.Reason_REASON_REQUESTED)
	gone(c, "configmaps", 2, 1, coppicev1.Reason_REASON_OWNER_ABSENT)
	realm.Commits = append(realm.Commits, client.LogCommit{Sequence: 3, Skipped: "a copy"})
	e, text := explained(t, r, "cm", "c")
	if want := "configmaps/c was removed at TIME, because ana deleted deployments.apps/web\n"; !strings.HasPrefix(text, want) {
		t.Errorf("explained\n%s", text)
	}
	if e.State != explain.Removed || e.UID != c.GetMetadata().GetUid() || len(e.Causes) != 2 || !slices.Equal(e.Skipped, []uint64{3}) {
		t.Errorf("explanation %+v", e)
	}
	_, _, err := find(t, r, "cm", "nope")
	if !errors.Is(err, client.ErrNotFound) || !strings.HasSuffix(err.Error(), "and the log does not say that it was removed") {
		t.Errorf("error %v", err)
	}
}

// An object that went because none of its owner references matched an object names these owners, why they did not
// count, and the command that gave it the references.
func TestAbsentOwners(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		owner   *coppicev1.Node // with the uid that the reference names; nil for none
		want    string
		updates int  // that left the references as they are
		again   bool // an earlier object had the uid and the references
	}{
		{name: "never seen", want: "its owner configmaps/x never existed"},
		{name: "changed since", want: "its owner configmaps/x never existed", updates: 50},
		{name: "imported again", want: "its owner configmaps/x never existed", again: true},
		{name: "changed too often to find the command", updates: 100},
		{
			"in another namespace", &coppicev1.Node{ApiVersion: "v1", Kind: "ConfigMap", Namespace: "there", Name: "x"},
			"its owner configmaps/x is in namespace there, and an owner must be in the namespace of the object or cluster-scoped", 0, false,
		},
		{
			"of another name", &coppicev1.Node{ApiVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "y"},
			"the uid of its owner configmaps/x is that of pods/y (shop)", 0, false,
		},
	} {
		realm, r, _ := lookuptest.New(t)
		o := realm.Create(t, "configmaps", "c", nil)
		realm.Delete(t, "configmaps", "c")
		owner := uid.Pack(nil, uid.MustParse("owner"))
		created := func(revision uint64, actor string, n *coppicev1.Node) {
			realm.Commit(&client.Commit{
				FirstRevision: revision, Time: time.Now().UnixMicro(), Commands: []*coppicev1.Command{{Actor: actor, Verb: "apply", Id: []byte("0123456789abcdef")}},
				Events: []*coppicev1.Event{{Reason: coppicev1.Reason_REASON_REQUESTED, Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Node: n}}}},
			})
		}
		if tc.owner != nil {
			tc.owner.Uid = owner
			created(1, "bob", tc.owner)
		}
		c := &coppicev1.Node{
			Uid: lookuptest.Of(o).GetUids(), ApiVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "c",
			Owners: []*coppicev1.NodeOwner{{ApiVersion: "v1", Kind: "ConfigMap", Name: "x", Uid: owner}},
		}
		if tc.again {
			created(1, "bob", c)
		}
		created(2, "ana", c)
		for i := range tc.updates {
			realm.Commit(&client.Commit{
				FirstRevision: uint64(3 + i), Time: time.Now().UnixMicro(), Commands: []*coppicev1.Command{{Actor: "bob", Verb: "update"}},
				Events: []*coppicev1.Event{{Reason: coppicev1.Reason_REASON_REQUESTED, Event: &coppicev1.Event_Updated{Updated: &coppicev1.ObjectUpdated{Node: c}}}},
			})
		}
		gone := marked(o, "configmaps", uint64(3+tc.updates), 0)
		gone.Events[0] = &coppicev1.Event{
			Reason: coppicev1.Reason_REASON_OWNER_ABSENT, Event: &coppicev1.Event_Deleted{Deleted: &coppicev1.ObjectsDeleted{Objects: lookuptest.Of(o)}},
		}
		realm.Commit(gone)
		_, text := explained(t, r, "cm", "c")
		want := "configmaps/c was removed at TIME, because " + tc.want + "; ana named it at TIME (apply, command 30313233-3435-3637-3839-616263646566)\n"
		if tc.want == "" {
			want = "configmaps/c was removed at TIME, because no object matches its owner references\n"
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s: explained\n%s\nwant\n%s", tc.name, text, want)
		}
	}
}

// Without permission to read the log and consumers, the rest is explained.
func TestDenied(t *testing.T) {
	t.Parallel()
	realm, r, notes := lookuptest.New(t)
	realm.Create(t, "configmaps", "c", []string{bucket})
	realm.Delete(t, "configmaps", "c")
	realm.Err = &client.Error{Reason: client.ErrForbidden, Message: "denied"}
	e, text := explained(t, r, "cm", "c")
	if !strings.HasPrefix(text, "configmaps/c is being deleted since TIME and is blocked by example.com/bucket\n") || len(e.Causes) > 0 {
		t.Errorf("explained\n%s", text)
	}
	for _, about := range []string{lookup.AboutEvents, lookup.AboutConsumers} {
		if strings.Count(notes.String(), about) != 1 {
			t.Errorf("notes %q without one about %s", notes.String(), about)
		}
	}
	if _, _, err := find(t, r, "cm", "gone"); !errors.Is(err, client.ErrNotFound) || !strings.Contains(err.Error(), "cannot read from the log whether it existed") {
		t.Errorf("error %v", err)
	}
}
