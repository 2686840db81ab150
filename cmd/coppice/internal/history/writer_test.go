package history

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func noon() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local) }

func TestEventLine(t *testing.T) {
	t.Parallel()
	w := &Writer{Now: noon}
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

func TestReasonName(t *testing.T) {
	t.Parallel()
	for r, want := range map[coppicev1.Reason]string{0: "", coppicev1.Reason_REASON_OWNER_ABSENT: "OwnerAbsent", coppicev1.Reason_REASON_SOLID_OWNER_REMAINS: "SolidOwnerRemains"} {
		if got := ReasonName(r); got != want {
			t.Errorf("%s is %q", r, got)
		}
	}
}

// Events and warnings are merged by time, and only the last of both are written.
func TestAll(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 3, 2, 10, minute, 0, 0, time.UTC) }
	event := func(minute int, name string) client.LogEvent {
		return client.LogEvent{Revision: uint64(minute), Time: at(minute), Type: "ObjectCreated", Resource: "pods", Name: name, Actor: "ana", Verb: "create"}
	}
	warning := func(minute int, name string) client.Warning {
		return client.Warning{Time: at(minute), Reason: "Stuck", Resource: "pods", Name: name, Message: "blocked\x1b"}
	}
	var out strings.Builder
	w := &Writer{W: &out, JSON: true, Now: noon, Find: func(context.Context, uint64) (*client.LogEvent, error) { return nil, nil }}
	err := w.All(t.Context(), []client.LogEvent{event(1, "a"), event(3, "c"), event(5, "e")}, []client.Warning{warning(2, "b"), warning(4, "d")}, 4)
	must.Succeed(t, err)
	var got []string
	for line := range strings.Lines(out.String()) {
		_, name, _ := strings.Cut(line, `"name":"`)
		got = append(got, name[:1])
	}
	if want := []string{"b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v:\n%s", got, want, out.String())
	}
	out.Reset()
	w.JSON = false
	must.Succeed(t, w.Warning(warning(4, "d")))
	if got := out.String(); !strings.HasSuffix(got, "Warning         pods/d  Stuck: blocked?\n") {
		t.Errorf("wrote %q", got)
	}
	out.Reset()
	must.Succeed(t, w.Event(t.Context(), client.LogEvent{Type: MessageSkipped, Resource: "log", Name: "7", Detail: "copied"}))
	if got := out.String(); !strings.HasSuffix(got, "MessageSkipped  log/7  copied\n") || strings.Contains(got, "because") {
		t.Errorf("wrote %q", got)
	}
}

// An event whose causes cannot be read is not written.
func TestEventWithoutCause(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	failed := errors.New("log is gone")
	w := &Writer{W: &out, Now: noon, Find: func(context.Context, uint64) (*client.LogEvent, error) { return nil, failed }}
	err := w.Event(t.Context(), client.LogEvent{Revision: 2, Type: "ObjectDeleted", Resource: "pods", Name: "a", Reason: coppicev1.Reason_REASON_FINALIZED, Cause: 1})
	if !errors.Is(err, failed) || out.Len() > 0 {
		t.Errorf("error %v, wrote %q", err, out.String())
	}
}
