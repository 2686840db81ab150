package describe_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/describe"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup/lookuptest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const bucket = "example.com/bucket"

// text describes an object of namespace shop, without the uid and times.
func text(t *testing.T, realm *lookuptest.Fake, r *lookup.Reader, kind, name string) string {
	t.Helper()
	k, err := r.Kinds.Find(kind)
	must.Succeed(t, err)
	objects := realm.Resource(client.ResourceOf(k), "shop")
	o, err := objects.Get(t.Context(), name, client.IncludeUninitialized(true))
	must.Succeed(t, err)
	g, err := objects.Resolve(t.Context(), []string{name})
	must.Succeed(t, err)
	var out bytes.Buffer
	d := &describe.Describer{Reader: r, Consumers: r.Consumers(), W: &out, EventTime: time.Minute}
	must.Succeed(t, d.Describe(t.Context(), k, o, g.GetNodes()[0]))
	s := strings.ReplaceAll(out.String(), o.GetMetadata().GetUid(), "UID")
	s = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d`).ReplaceAllString(s, "TIME")
	return regexp.MustCompile(`\d+s ago`).ReplaceAllString(s, "0s ago")
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	realm, r, notes := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	pod := realm.Create(t, "pods", "a", []string{bucket}, web)
	realm.Commit(&client.Commit{
		FirstRevision: 1, Time: time.Now().UnixMicro(), Commands: []*coppicev1.Command{{Actor: "ana", Verb: "delete"}},
		Resources: []string{"pods"}, Namespaces: []string{"shop"},
		Events: []*coppicev1.Event{{
			Reason: coppicev1.Reason_REASON_REQUESTED,
			Event:  &coppicev1.Event_DeletionMarked{DeletionMarked: &coppicev1.DeletionMarked{Object: lookuptest.Of(pod), Finalizers: []string{bucket}}},
		}},
	})
	realm.Warned = []client.Warning{{UID: pod.GetMetadata().GetUid(), Reason: "Stuck", Message: "it waits\x1b", Time: time.Now()}}
	realm.Delete(t, "pods", "a")
	got := text(t, realm, r, "pods", "a")
	const want = `Name:        a
Namespace:   shop
Kind:        Pod (v1)
UID:         UID
Revision:    N
Generation:  2
Created:     TIME (0s ago)
Labels:      <none>
Annotations: <none>
Status:      Terminating since TIME (0s ago); blocked by example.com/bucket (no consumer)
Owners:
  deployments.apps/web   blocking   solid: the owner exists
Dependents:  <none>
Finalizers:
  example.com/bucket   no consumer: no program asks for its calls
Warnings:
  Stuck   it waits?   0s ago
Events:
     1  TIME  DeletionMarked  pods/a (shop)  finalizers example.com/bucket  because ana deleted it
`
	if got = regexp.MustCompile(`(?m)^Revision:    \d+$`).ReplaceAllString(got, "Revision:    N"); got != want {
		t.Errorf("described\n%s\nwant\n%s", got, want)
	}
	if notes.Len() > 0 {
		t.Errorf("notes %q", notes.String())
	}
	if got := text(t, realm, r, "deploy", "web"); !strings.Contains(got, "\nStatus:      Active\nOwners:      <none>\nDependents:  1 object (1 blocking)\nFinalizers:  <none>\nEvents:      none in the last 5000 commits\n") {
		t.Errorf("described\n%s", got)
	}
}

// An object that waits for its initializers, and one that its agent has to end.
func TestDescribeStates(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	pods := realm.Resource(client.Resource{Plural: "pods"}, "shop")
	for _, o := range []*client.Object{
		{Metadata: &client.ObjectMeta{Name: "new", Initializers: &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: "first.example.com"}}}}},
		{Metadata: &client.ObjectMeta{Name: "ends"}, Spec: []byte(`{"nodeName": "n1"}`)},
	} {
		if _, err := pods.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	realm.Delete(t, "pods", "ends")
	if got := text(t, realm, r, "pods", "new"); !strings.Contains(got, "\nWaits for:   first.example.com\n") {
		t.Errorf("described\n%s", got)
	}
	ends, err := pods.Get(t.Context(), "ends")
	must.Succeed(t, err)
	realm.Calls[ends.GetMetadata().GetUid()+" "] = &client.CallStatus{State: coppicev1.CallState_CALL_STATE_QUEUED, Process: "node-1"}
	if got := text(t, realm, r, "pods", "ends"); !strings.Contains(got, "\nAgent:       waiting in the queue; program node-1\n") {
		t.Errorf("described\n%s", got)
	}
}

// Of many finalizers the first are listed, and the others counted.
func TestDescribeManyFinalizers(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	var finalizers []string
	for i := range 1000 {
		finalizers = append(finalizers, fmt.Sprintf("example.com/f%d", i))
	}
	realm.Create(t, "pods", "a", finalizers)
	realm.Delete(t, "pods", "a")
	got := text(t, realm, r, "pods", "a")
	if n := strings.Count(got, "\n  example.com/f"); n != 10 || !strings.Contains(got, "\n  and 990 more\n") {
		t.Errorf("%d finalizers of 1,000 are described:\n%s", n, got)
	}
}

// A deletion with a grace period began that much before deletionTimestamp, which lies in the
// future. If the grace period was shortened to less than what had passed, the log knows when.
func TestDescribeGracefulDeletion(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	pods := realm.Resource(client.Resource{Plural: "pods"}, "shop")
	pod, err := pods.Create(t.Context(), &client.Object{Metadata: &client.ObjectMeta{Name: "ends", Finalizers: []string{bucket}}, Spec: []byte(`{"nodeName": "n1"}`)})
	must.Succeed(t, err)
	realm.Delete(t, "pods", "ends", client.GracePeriod(time.Hour))
	later := lookup.New(realm, r.Kinds, io.Discard, time.Minute, func() time.Time { return time.Now().Add(4*time.Hour + time.Minute) })
	if got := text(t, realm, later, "pods", "ends"); !strings.Contains(got, "\nStatus:      Terminating since TIME (4h1m ago); ") {
		t.Errorf("described\n%s", got)
	}
	realm.Delete(t, "pods", "ends", client.GracePeriod(0))
	mark := func(revision uint64, at time.Time) {
		realm.Commit(&client.Commit{
			FirstRevision: revision, Time: at.UnixMicro(), Commands: []*coppicev1.Command{{Actor: "ana", Verb: "delete"}},
			Resources: []string{"pods"}, Namespaces: []string{"shop"},
			Events: []*coppicev1.Event{{
				Reason: coppicev1.Reason_REASON_REQUESTED,
				Event:  &coppicev1.Event_DeletionMarked{DeletionMarked: &coppicev1.DeletionMarked{Object: lookuptest.Of(pod), Finalizers: []string{bucket}}},
			}},
		})
	}
	mark(1, time.Now().Add(-3*time.Hour-time.Minute))
	mark(2, time.Now())
	if got := text(t, realm, r, "pods", "ends"); !strings.Contains(got, "\nStatus:      Terminating since TIME (3h1m ago); ") {
		t.Errorf("described\n%s", got)
	}
}

// A user who may not read events sees the object, and a note. Any other error is the
// value of the field.
func TestDescribeWithoutEvents(t *testing.T) {
	t.Parallel()
	realm, r, notes := lookuptest.New(t)
	realm.Create(t, "configmaps", "c", nil)
	realm.Err = &client.Error{Reason: client.ErrForbidden, Message: "may not readlog"}
	if got := text(t, realm, r, "configmaps", "c"); !strings.HasPrefix(got, "Name:        c\n") || strings.Contains(got, "Events") {
		t.Errorf("described\n%s", got)
	}
	if got, want := notes.String(), "not shown: warnings: may not readlog\nnot shown: events: may not readlog\n"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
	realm.Err = &client.Error{Reason: client.ErrServiceUnavailable, Message: "no graph service"}
	if got := text(t, realm, r, "configmaps", "c"); !strings.Contains(got, "\nEvents:      no graph service\n") {
		t.Errorf("described\n%s", got)
	}
}
