package memrealm_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/memrealm"
)

// SettleActive leaves nothing to do that Settle, which looks at all objects, would do.
func TestSettleActive(t *testing.T) {
	t.Parallel()
	worked := 0
	rapid.Check(t, func(t *rapid.T) {
		r := lifecycletest.New()
		r.Latecomers, r.Restless, r.Containers, r.Using = true, true, true, true
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			r.RandomEvents(t)
			if rapid.Bool().Draw(t, "settle") {
				before := r.Revision
				r.SettleActive()
				worked += int(r.Revision - before)
				if left := r.Settle(memrealm.InOrder); len(left) > 0 {
					t.Fatalf("left to do: %+v", left)
				}
			}
		}
	})
	if worked == 0 {
		t.Error("SettleActive had nothing to do")
	}
}
