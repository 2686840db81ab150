package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestEventLine(t *testing.T) {
	t.Parallel()
	w := &eventWriter{now: func() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local) }}
	e := client.LogEvent{
		Revision: 1042, Time: time.Date(2026, 3, 2, 10, 31, 7, 0, time.Local), Type: "ObjectDeleted",
		Resource: "pods", Namespace: "shop", Name: "web-7d4-x", Reason: coppicev1.Reason_REASON_FINALIZED, Cause: 3,
	}
	e.Detail = "last finalizers example.com/bucket"
	got := w.line(e, []string{"replicasets.apps/web-7d4 was deleting in the foreground", "ana deleted deployments.apps/web"})
	const want = "  1042  10:31:07  ObjectDeleted   pods/web-7d4-x (shop)  because replicasets.apps/web-7d4 was deleting in the foreground, because ana deleted deployments.apps/web"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	e.Type, e.Detail = "FinalizerRemoved", "example.com/bucket"
	if got := w.line(e, nil); !slices.Contains(strings.Split(got, "  "), "example.com/bucket") {
		t.Errorf("%s: the finalizer is missing", got)
	}
}
