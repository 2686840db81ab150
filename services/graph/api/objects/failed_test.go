package objects

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writertest"
)

// A process whose state has failed, and which is about to end, does not answer reads:
// another may.
func TestFailedState(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	}))
	s, err := state.Open("state", state.Config{FS: fs})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	tx := s.Begin()
	tx.EndCommit(state.Commit{Sequence: 1})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	nc := serveRequests(t, s, func(s *serve.Server, q *serve.Request) {
		w := NewWriter(serve.NewWriter(s, nil, nil), nil, WriterConfig{Lease: writertest.Log{}})
		w.read(q, func(*state.Snapshot) (proto.Message, *lifecycle.Error) { return &coppicev1.ObjectsReply{}, nil })
	})
	ctx := testkit.Context(t)
	read := func() error {
		reply, err := nc.RequestMsgWithContext(ctx, request(nil))
		must.Succeed(t, err)
		return rpc.Refusal(reply)
	}
	must.Succeed(t, read())
	broken.Store(true)
	if err := s.Sync(); err == nil {
		t.Fatal("the state has not failed")
	}
	var refusal *lifecycle.Error
	if err := read(); !errors.As(err, &refusal) || refusal.Reason != api.ErrServiceUnavailable || !strings.Contains(refusal.Message, "try again") || !rpc.Retryable(err) {
		t.Errorf("the reply is %v, want one that is retryable", err)
	}
	broken.Store(false)
	testkit.WaitFor(t, ctx, "Pebble, which goes on to try, to write the memtables", func() bool { return s.Metrics().MemTable.Count == 1 })
}
