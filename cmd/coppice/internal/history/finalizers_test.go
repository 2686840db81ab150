package history

import (
	"slices"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// How long a finalizer took is counted from the first mark of its object, over the last 100 removals,
// without those by force and those whose mark is not known.
func TestFinalizerTimes(t *testing.T) {
	t.Parallel()
	const bucket, other = "example.com/bucket", "example.com/other"
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	mark := func(s int, uid string) client.LogEvent {
		return client.LogEvent{Time: at(s), Type: "DeletionMarked", UID: uid, Detail: "grace period 10s  finalizers " + bucket + ", " + other}
	}
	removed := func(s int, uid, detail string) client.LogEvent {
		e := client.LogEvent{Time: at(s), Type: "FinalizerRemoved", UID: uid, Detail: detail}
		if detail != bucket {
			e.Type = "ObjectDeleted"
		}
		return e
	}
	forced := removed(900, "f", bucket)
	forced.Reason = coppicev1.Reason_REASON_FORCED
	events := []client.LogEvent{
		removed(1, "unknown", bucket), mark(10, "a"), mark(12, "a"), mark(10, "b"), mark(10, "c"), mark(10, "f"),
		removed(15, "a", bucket), removed(20, "b", bucket), removed(70, "c", bucket), removed(100, "a", "last finalizers "+other), forced,
	}
	want := []FinalizerTime{
		{Name: bucket, Removals: 3, Median: 10 * time.Second, Longest: time.Minute}, {Name: other, Removals: 1, Median: 90 * time.Second, Longest: 90 * time.Second},
	}
	if got := finalizerTimes(events, []string{bucket, "example.com/none", other}); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	events = nil
	for i := range 2 * maxFinalizerRemovals {
		events = append(events, mark(i, "a"), removed(2*i, "a", bucket))
	}
	got := finalizerTimes(events, []string{bucket})
	if len(got) != 1 || got[0].Removals != maxFinalizerRemovals || got[0].Median != 150*time.Second {
		t.Errorf("of %d removals: %+v", 2*maxFinalizerRemovals, got)
	}
}
