package cli

import (
	"testing"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// wait --idle names all pending work for which it waits, and no other.
func TestPendingText(t *testing.T) {
	t.Parallel()
	for _, pending := range propagator.Types {
		idle := propagator.Idle([]*coppicev1.PendingCount{{Type: pending, Rows: 3}})
		if got := PendingText(&coppicev1.StatusReply{Pending: []*coppicev1.PendingWork{{Type: pending, Rows: 3}}}); (got == "") != idle {
			t.Errorf("wait --idle says %q of %s, idle: %t", got, pending, idle)
		}
	}
}
