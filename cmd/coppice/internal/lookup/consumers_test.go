package lookup_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup/lookuptest"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const bucket = "example.com/bucket"

// A consumer that cannot be read again keeps its last state; one that was never read
// is unseen.
func TestConsumersThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	now := time.Now()
	c := lookup.New(realm, r.Kinds, &strings.Builder{}, time.Minute, func() time.Time { return now }).Consumers()
	sees := func(what string, err error, want lookup.ConsumerState) {
		t.Helper()
		now = now.Add(time.Second)
		realm.Err = err
		if got := c.Finalizer(t.Context(), bucket).State; got != want {
			t.Errorf("%s: consumer state %v, want %v", what, got, want)
		}
	}
	gone := client.ErrServiceUnavailable
	sees("the first read fails", gone, lookup.Unseen)
	sees("there is none", nil, lookup.None)
	sees("the second read fails", gone, lookup.None)
	realm.Consumers[bucket] = &client.ConsumerState{Exists: true, Unacknowledged: 1}
	sees("one has a call", nil, lookup.Busy)
	sees("the third read fails", gone, lookup.Busy)
	realm.Consumers[bucket] = &client.ConsumerState{Exists: true, Pulling: 1}
	sees("one asks for calls", nil, lookup.Alive)
}

// States are cached for a moment, a denial until the command ends, and a note says once
// what is missing.
func TestConsumersAreCached(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	now, notes := time.Now(), strings.Builder{}
	c := lookup.New(realm, r.Kinds, &notes, time.Minute, func() time.Time { return now }).Consumers()
	for range 3 {
		c.Finalizer(t.Context(), bucket)
	}
	if realm.Asked != 1 {
		t.Errorf("%d requests for one finalizer", realm.Asked)
	}
	realm.Err = &client.Error{Reason: client.ErrForbidden, Message: "may not listconsumers"}
	for _, name := range []string{"example.com/a", "example.com/b", "example.com/c"} {
		c.Finalizer(t.Context(), name)
	}
	if realm.Asked != 2 {
		t.Errorf("%d requests, although the second was denied", realm.Asked)
	}
	if got := notes.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "not shown: consumers of finalizers and agents: ") {
		t.Errorf("notes %q", got)
	}
}

func TestBlockedBy(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	realm.Consumers["example.com/busy"] = &client.ConsumerState{Exists: true, Unacknowledged: 1}
	c := r.Consumers()
	node := func(finalizers ...string) *coppicev1.GraphNode {
		return &coppicev1.GraphNode{
			Dependents: 3, BlockingDependents: 1, Contents: 1000,
			Object: &client.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &client.ObjectMeta{
				Finalizers: finalizers, DeletionTimestamp: timestamppb.Now(),
			}},
		}
	}
	for _, tc := range []struct {
		name     string
		node     *coppicev1.GraphNode
		want     string
		external bool
	}{
		{"nothing", node(), "", false},
		{"foreground", node(lifecycle.FinalizerForeground), "waits for 1 dependent", false},
		{"orphan", node(lifecycle.FinalizerOrphan), "removes the references of 3 dependents", false},
		{"contents", node(lifecycle.FinalizerContents), "removes what is in it: 1000 objects or more left", false},
		{"without a consumer", node(bucket), "blocked by example.com/bucket (no consumer)", true},
		{"busy, and before built-in work", node("example.com/busy", lifecycle.FinalizerForeground), "blocked by example.com/busy (consumer busy)", true},
		{"in use, before a finalizer", node("example.com/busy", lifecycle.FinalizerInUse), "waits for 0 users", true},
	} {
		if got := c.BlockedBy(t.Context(), tc.node); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if got := lookup.External(tc.node); got != tc.external {
			t.Errorf("%s: external is %t", tc.name, got)
		}
	}
}

func TestCallText(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	c := r.Consumers()
	ends := timestamppb.Now()
	n := &coppicev1.GraphNode{Resource: "pods", Object: &client.Object{Metadata: &client.ObjectMeta{
		Uid: "u", DeletionTimestamp: ends, DeletionGracePeriodSeconds: new(int64(30)), Finalizers: []string{bucket, lifecycle.FinalizerOrphan},
	}}}
	long := strings.Repeat("é", 100)
	for _, tc := range []struct {
		is         *client.CallStatus
		text, note string
	}{
		{nil, "no consumer: no program asks for its calls", " (no consumer)"},
		{
			&client.CallStatus{State: coppicev1.CallState_CALL_STATE_PARKED, Attempts: 5, LastError: "no \x1bbucket", Process: "node-1"},
			"parked after 5 attempts: no ?bucket; see 'coppice parked'", " (parked after 5 attempts: no ?bucket)",
		},
		{&client.CallStatus{State: coppicev1.CallState_CALL_STATE_QUEUED, Process: "node-1"}, "waiting in the queue; program node-1", " (waiting in the queue)"},
		{
			&client.CallStatus{State: coppicev1.CallState_CALL_STATE_FAILED, Failures: 2, LastError: long},
			"failed 2 times: " + long, " (failed 2 times: " + strings.Repeat("é", 80) + "…)",
		},
		{&client.CallStatus{State: coppicev1.CallState_CALL_STATE_WORKING}, "working", " (working)"},
		{&client.CallStatus{}, "unknown: the state of the call could not be read", ""},
	} {
		for _, finalizer := range []string{bucket, ""} {
			realm.Calls["u "+finalizer] = tc.is
			c.Read(t.Context(), n)
			if got := c.Call(n, finalizer); got.Text() != tc.text || got.Note() != tc.note {
				t.Errorf("%v of %q: %q, %q, want %q, %q", tc.is, finalizer, got.Text(), got.Note(), tc.text, tc.note)
			}
		}
	}
	realm.Err = client.ErrServiceUnavailable
	c.Read(t.Context(), n)
	if got := c.Call(n, "").Text(); got != "unknown: the state of the call could not be read" {
		t.Errorf("unseen: %q", got)
	}
}

// The states of many calls are read in few requests, and those of very many are not.
func TestReadCalls(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	c := r.Consumers()
	var nodes []*coppicev1.GraphNode
	for i := range 600 {
		nodes = append(nodes, &coppicev1.GraphNode{Resource: "pods", Object: &client.Object{Metadata: &client.ObjectMeta{
			Uid: fmt.Sprint(i), DeletionTimestamp: timestamppb.Now(), Finalizers: []string{bucket},
		}}})
		realm.Calls[fmt.Sprint(i, " ", bucket)] = &client.CallStatus{State: coppicev1.CallState_CALL_STATE_QUEUED}
	}
	c.Read(t.Context(), nodes...)
	if realm.Asked != 5 {
		t.Errorf("%d requests for 600 calls, want 5 for 500", realm.Asked)
	}
	for i, want := range map[int]string{0: "waiting in the queue", 499: "waiting in the queue", 500: "no consumer"} {
		if got := c.BlockedBy(t.Context(), nodes[i]); got != "blocked by "+bucket+" ("+want+")" {
			t.Errorf("object %d: %q, want %s", i, got, want)
		}
	}
}

// Optional information that is denied or late is noted once; another failure is returned.
func TestOptional(t *testing.T) {
	t.Parallel()
	_, r, notes := lookuptest.New(t)
	denied := &client.Error{Reason: client.ErrForbidden, Message: "may not readlog\x1b"}
	for range 2 {
		ok, err := r.Optional(t.Context(), lookup.AboutEvents, func(context.Context) error { return denied })
		if ok || err != nil {
			t.Errorf("denied: %t, %v", ok, err)
		}
	}
	if got, want := notes.String(), "not shown: events: may not readlog?\n"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
	ok, err := r.Optional(t.Context(), lookup.AboutEvents, func(context.Context) error { return client.ErrServiceUnavailable })
	if ok || err == nil {
		t.Errorf("failed: %t, %v", ok, err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	ok, err = r.Optional(interrupted, lookup.AboutOwners, func(ctx context.Context) error { return ctx.Err() })
	if ok || err == nil || strings.Contains(notes.String(), lookup.AboutOwners) {
		t.Errorf("interrupted: %t, %v, notes %q", ok, err, notes.String())
	}
}

// An object waits for its agent also after the agent's time.
func TestBlockedByAgent(t *testing.T) {
	t.Parallel()
	realm, r, _ := lookuptest.New(t)
	until, grace := time.Date(2026, 3, 2, 10, 31, 7, 0, time.Local), int64(30)
	node := &coppicev1.GraphNode{Object: &client.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &client.ObjectMeta{
		DeletionTimestamp: timestamppb.New(until), DeletionGracePeriodSeconds: &grace,
	}}}
	if !lookup.External(node) {
		t.Error("an agent is external")
	}
	for now, want := range map[time.Time]string{
		until.Add(-time.Second): "blocked by its agent (no consumer), which has time until 10:31:07",
		until:                   "blocked by its agent (no consumer), whose time ended at 10:31:07 (delete it with --force to go on without the agent)",
	} {
		c := lookup.New(realm, r.Kinds, io.Discard, time.Minute, func() time.Time { return now }).Consumers()
		if got := c.BlockedBy(t.Context(), node); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
