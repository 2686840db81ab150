package replay

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A replicated log that ends before the checkpoint is refused only after the server that
// leads the stream has had time to catch up. A log on one server is refused at once.
func TestCheckLogWaits(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js, err := jetstream.New(testkit.Conn(t, testkit.NATS(t), bus.RoleGraph))
	must.Succeed(t, err)
	log, err := eventlog.Open(ctx, js, bus.DefaultRealm, 1, eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm))
	must.Succeed(t, err)
	if log.MaxLag() != 0 {
		t.Errorf("a stream on one server is waited for: %v", log.MaxLag())
	}
	seen := &coppicev1.Checkpoint{Sequence: 1, Position: 1, StreamCreated: log.Created()}
	check := func(catching bool) error { return CheckLog(ctx, seen, log, bus.DefaultRealm, "dir", catching) }
	if err := check(true); !errors.Is(err, ErrBehind) {
		t.Errorf("while it may catch up: %v", err)
	}
	var mismatch *MismatchError
	if err := check(false); !errors.As(err, &mismatch) {
		t.Errorf("when it had its time: %v", err)
	}
}
