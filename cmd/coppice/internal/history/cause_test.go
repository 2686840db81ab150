package history

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const (
	reasonRequested = coppicev1.Reason_REASON_REQUESTED
	reasonAbsent    = coppicev1.Reason_REASON_OWNER_ABSENT
	reasonWaiting   = coppicev1.Reason_REASON_OWNER_WAITING
	reasonOrphans   = coppicev1.Reason_REASON_OWNER_ORPHANS
	reasonRemains   = coppicev1.Reason_REASON_SOLID_OWNER_REMAINS
	reasonContainer = coppicev1.Reason_REASON_CONTAINER
	reasonFinalized = coppicev1.Reason_REASON_FINALIZED
	reasonFailed    = coppicev1.Reason_REASON_INITIALIZATION_FAILED
)

// logEvent returns an event of the test log. by has its actor, verb and note.
func logEvent(revision uint64, typ, name string, reason coppicev1.Reason, cause uint64, by ...string) client.LogEvent {
	e := client.LogEvent{
		Revision: revision, Type: typ, Resource: "pods", Name: name, UID: "uid-" + name, Namespace: "shop", Reason: reason, Cause: cause,
		Actor: "processor", Verb: "propose", Time: time.Date(2026, 3, 2, 10, 31, 7, 0, time.Local),
	}
	if len(by) > 1 {
		e.Actor, e.Verb = by[0], by[1]
	}
	if len(by) > 2 {
		e.Note = by[2]
	}
	return e
}

// testLog has, at 10 to 19, the deletion of a in the foreground, and what else
// there is to explain.
func testLog() map[uint64]client.LogEvent {
	byHand := logEvent(31, "ObjectDeleted", "stuck", reasonFinalized, 30, "ana", "removefinalizer", "the bucket is gone")
	byHand.Detail = "last finalizers example.com/bucket"
	shop := logEvent(50, "DeletionMarked", "shop", reasonContainer, 51)
	shop.Resource, shop.Namespace = "namespaces", ""
	namespaces := logEvent(51, "DeletionMarked", "namespaces", reasonRequested, 0, "ana", "delete")
	namespaces.Resource, namespaces.Namespace = "kinds.coppice.dev", ""
	market := logEvent(53, "DeletionMarked", "market", reasonRequested, 0, "ana", "delete")
	market.Resource, market.Namespace = "namespaces", ""
	log := map[uint64]client.LogEvent{}
	for _, e := range []client.LogEvent{
		logEvent(10, "DeletionMarked", "a", reasonRequested, 0, "ana", "delete"),
		logEvent(11, "DeletionMarked", "b", reasonWaiting, 10),
		logEvent(12, "DeletionMarked", "c", reasonWaiting, 11),
		logEvent(13, "ObjectDeleted", "c", reasonFinalized, 12, "controller", "removefinalizer"),
		logEvent(14, "ObjectDeleted", "b", reasonFinalized, 11, "finalizers", "finish"),
		logEvent(15, "ObjectDeleted", "a", reasonFinalized, 10, "finalizers", "finish"),
		logEvent(16, "OwnerReferencesRemoved", "shared", reasonRemains, 10),
		logEvent(17, "OwnerReferencesRemoved", "orphan", reasonOrphans, 10),
		logEvent(18, "OwnerReferencesRemoved", "deep", reasonRemains, 11),
		logEvent(19, "OwnerReferencesRemoved", "deeporphan", reasonOrphans, 11),
		logEvent(20, "ObjectDeleted", "root", reasonRequested, 0, "ana", "deletecollection"),
		logEvent(21, "ObjectDeleted", "child", reasonAbsent, 20),
		logEvent(22, "ObjectDeleted", "grandchild", reasonAbsent, 21),
		logEvent(23, "ObjectDeleted", "nobodys", reasonAbsent, 0),
		logEvent(24, "ObjectDeleted", "forgotten", reasonAbsent, 1),
		logEvent(26, "DeletionMarked", "failed", reasonFailed, 0, "vaccine", "update"),
		logEvent(27, "ObjectDeleted", "failed", reasonFinalized, 26, "controller", "removefinalizer"),
		logEvent(28, "ObjectDeleted", "failedchild", reasonAbsent, 27),
		logEvent(30, "DeletionMarked", "stuck", reasonAbsent, 20),
		byHand, shop, namespaces, market,
		logEvent(52, "ObjectDeleted", "inshop", reasonContainer, 50),
		logEvent(54, "ObjectDeleted", "inmarket", reasonContainer, 53),
		logEvent(40, "ObjectDeleted", "loop", reasonAbsent, 41),
		logEvent(41, "ObjectDeleted", "pool", reasonAbsent, 40),
	} {
		log[e.Revision] = e
	}
	return log
}

func find(log map[uint64]client.LogEvent) Finder {
	return func(_ context.Context, revision uint64) (*client.LogEvent, error) {
		if e, ok := log[revision]; ok {
			return &e, nil
		}
		if revision > 0 {
			return nil, &MissingError{Revision: revision}
		}
		return nil, nil
	}
}

func TestBecause(t *testing.T) {
	t.Parallel()
	log := testLog()
	for revision, want := range map[uint64]string{
		10: "ana deleted it",
		11: "ana deleted pods/a",
		12: "pods/b was deleting in the foreground, ana deleted pods/a",
		13: "pods/b was deleting in the foreground, ana deleted pods/a",
		14: "ana deleted pods/a",
		15: "ana deleted it",
		16: "ana deleted pods/a, and another owner remains",
		17: "ana deleted pods/a, orphaning its dependents",
		18: "pods/b was going, and another owner remains, ana deleted pods/a",
		19: "pods/b was orphaning its dependents, ana deleted pods/a",
		21: "ana deleted pods/root",
		22: "pods/child was gone, ana deleted pods/root",
		23: "no object matches its owner references",
		24: "its owner was gone, revision 1, which caused that, cannot be read",
		26: "its initialization failed",
		27: "its initialization failed",
		28: "pods/failed was gone, its initialization failed",
		50: "ana deleted kinds.coppice.dev/namespaces, with all objects of the kind",
		52: "namespaces/shop was being deleted, with all objects in the namespace, ana deleted kinds.coppice.dev/namespaces, with all objects of the kind",
		54: "ana deleted namespaces/market, with all objects in the namespace",
		31: `ana removed example.com/bucket from it ("the bucket is gone"), ana deleted pods/root`,
	} {
		got, err := Because(t.Context(), log[revision], find(log))
		must.Succeed(t, err)
		if said := strings.Join(got, ", "); said != want {
			t.Errorf("revision %d: because %s\nwant %s", revision, said, want)
		}
	}
	got, err := Because(t.Context(), log[40], find(log))
	if err != nil || len(got) != MaxCauses+1 || got[MaxCauses] != "and so on" {
		t.Errorf("a cycle of causes: %d phrases, %v", len(got), err)
	}
}

// Where the causes of an event cannot be read, the last reason says so.
func TestBecauseOfMissing(t *testing.T) {
	t.Parallel()
	log := testLog()
	missing := func(ctx context.Context, revision uint64) (*client.LogEvent, error) {
		if revision > 0 && revision <= 10 || revision == 20 {
			return nil, &MissingError{Revision: revision}
		}
		return find(log)(ctx, revision)
	}
	for revision, want := range map[uint64]string{
		10: "ana deleted it",
		11: "its owner was deleting in the foreground, revision 10, which caused that, cannot be read",
		12: "pods/b was deleting in the foreground, its owner was deleting in the foreground, revision 10, which caused that, cannot be read",
		15: "nothing blocked it any more, revision 10, which caused that, cannot be read",
		22: "pods/child was gone, its owner was gone, revision 20, which caused that, cannot be read",
		23: "no object matches its owner references",
	} {
		got, err := Because(t.Context(), log[revision], missing)
		if said := strings.Join(got, ", "); err != nil || said != want {
			t.Errorf("revision %d: because %s, %v\nwant %s", revision, said, err, want)
		}
	}
	down := errors.New("no answer")
	if _, err := Because(t.Context(), log[11], func(context.Context, uint64) (*client.LogEvent, error) { return nil, down }); !errors.Is(err, down) {
		t.Errorf("a failure is %v", err)
	}
}

func TestPhrase(t *testing.T) {
	t.Parallel()
	cause := logEvent(1, "ObjectDeleted", "x", reasonAbsent, 0)
	for _, tc := range []struct {
		reason coppicev1.Reason
		cause  *client.LogEvent
		want   string
	}{
		{reasonAbsent, nil, "no object matches its owner references"},
		{reasonWaiting, nil, "its owner was deleting in the foreground"},
		{reasonOrphans, nil, "its owner was orphaning its dependents"},
		{reasonRemains, nil, "another owner remains"},
		{reasonFinalized, nil, "nothing blocked it any more"},
		{reasonFailed, nil, "its initialization failed"},
		{reasonContainer, nil, "its namespace was being deleted, or its kind withdrawn"},
		{reasonRequested, nil, ""},
		{reasonAbsent, &cause, "pods/x was gone"},
		{reasonWaiting, &cause, "pods/x was deleting in the foreground"},
		{reasonOrphans, &cause, "pods/x was orphaning its dependents"},
		{reasonRemains, &cause, "pods/x was going, and another owner remains"},
	} {
		if got := phrase(&client.LogEvent{Reason: tc.reason}, tc.cause); got != tc.want {
			t.Errorf("%s with cause %v: %q, want %q", tc.reason, tc.cause, got, tc.want)
		}
	}
	for verb, want := range map[string]string{
		"create": "ana created it", "update": "ana updated it", "updatestatus": "ana updated the status of it", "patch": "ana patched it",
		"apply": "ana applied it", "applyacross": "ana applied it", "import": "ana imported it", "delete": "ana deleted it", "deletecollection": "ana deleted it",
		"removefinalizer": "ana removed example.com/x from it", "protect": "ana protected it", "unprotect": "ana removed the protection of it", "genesis": "the realm began", "restore": "ana restored it", "deleteunreadable": "ana deleted it, which was unreadable, without its finalizers", "reset": "ana did reset to it",
	} {
		e := logEvent(1, "", "x", reasonRequested, 0, "ana", verb)
		e.Detail = "example.com/x"
		if got := phrase(&e, &e); got != want {
			t.Errorf("%s: %q, want %q", verb, got, want)
		}
	}
}
