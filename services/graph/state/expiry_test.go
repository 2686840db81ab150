package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// B6.2: the table of objects that expire has exactly those that are not being deleted, in the order in
// which they expire, after any changes; a search ends at its time and continues behind a cursor.
func TestExpiryTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := statetest.New(t)
		start := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
		want := map[string]int64{}
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name")
			target := "pods/" + name
			meta := &coppicev1.ObjectMeta{Name: name, Finalizers: []string{"example.com/x"}}
			at := rapid.Int64Range(0, 5).Draw(rt, "at")
			if at > 0 {
				meta.ExpiresAt = timestamppb.New(start.Add(time.Duration(at) * time.Second))
			}
			switch _, there := want[name]; {
			case !there:
				r.Create(target, meta)
				want[name] = at
			case rapid.Bool().Draw(rt, "delete"):
				r.Delete(target, "")
				want[name] = 0
			case want[name] != -1:
				key := r.Key(target)
				r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
					n, err := lifecycle.Find(ctx.View, key)
					if err != nil || n.Terminating() {
						return &lifecycle.Outcome{}, err
					}
					meta.Namespace = key.Namespace
					want[name] = at
					return lifecycle.Update(ctx, lifecycle.Key{Kind: key.Kind, Namespace: key.Namespace}, &coppicev1.Object{Metadata: meta})
				})
			}
			if i%5 == 4 {
				r.Reopen()
			}
		}
		now := rapid.Int64Range(0, 6).Draw(rt, "now")
		var expected, got []string
		for name, at := range want {
			if at > 0 && at <= now {
				expected = append(expected, fmt.Sprintf("%d %s", at, r.UID("pods/"+name)))
			}
		}
		slices.Sort(expected)
		snap := r.Snapshot()
		defer snap.Close()
		var after state.ExpiryCursor
		for more := true; more; {
			more = false
			snap.EachExpired(lifecycle.TimeOf(start.Add(time.Duration(now)*time.Second)), after, func(c state.ExpiryCursor) bool {
				got = append(got, fmt.Sprintf("%d %s", c.At.Time().Sub(start)/time.Second, c.UID))
				after, more = c, true
				return false
			})
		}
		slices.Sort(got)
		if !slices.Equal(got, expected) {
			rt.Fatalf("expired are %v, want %v", got, expected)
		}
	})
}
