package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The demo fails if an event of a round is missing, unexpected, early, or has another
// cause.
func TestDemoNotices(t *testing.T) {
	t.Parallel()
	r := demoRounds[1]
	var right []happening
	for _, h := range slices.Concat(demoMade, r.events) {
		right = append(right, slices.Repeat([]happening{h}, max(h.times, 1))...)
	}
	must.Succeed(t, r.checkLog(right))
	last := len(right) - 1
	otherwise := slices.Clone(right)
	otherwise[last].why = "ana deleted something else"
	early := slices.Clone(right)
	early[last], early[last-1] = early[last-1], early[last]
	for _, tt := range []struct {
		name     string
		happened []happening
		want     string
	}{
		{"missing", right[:last], "missing: ObjectDeleted deployments.apps/web"},
		{"twice", append(slices.Clone(right), right[0]), "unexpected: ObjectCreated deployments.apps/web"},
		{"otherwise", otherwise, "because ana deleted something else"},
		{"early", early, "ObjectDeleted deployments.apps/web came before ObjectDeleted replicasets.apps/web-7d4f8c6b5d"},
	} {
		if err := r.checkLog(tt.happened); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestDemoChecksAnswer(t *testing.T) {
	t.Parallel()
	r := demoRounds[2]
	before := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Generation: 1}}
	if err := r.checkAnswer(before, &client.DeleteResult{State: client.Removed, Object: before}); err == nil {
		t.Error("an object that is gone at once is no orphaning")
	}
	if err := r.checkAnswer(before, &client.DeleteResult{State: client.Pending, Object: before}); err == nil {
		t.Error("the demo does not notice that the object is not marked")
	}
}
