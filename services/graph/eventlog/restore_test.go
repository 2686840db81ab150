package eventlog_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A commit that the stream has lost is appended again at its position, once, and only as it was.
func TestRestore(t *testing.T) {
	t.Parallel()
	from, to := newWritten(t), newWritten(t)
	var lost []eventlog.Message
	for i := range byte(3) {
		must.Succeed(t, appendTo(from.Ctx, from.other, uint64(i), i+1))
		m, err := from.other.Message(from.Ctx, uint64(i)+1)
		must.Succeed(t, err)
		lost = append(lost, m)
	}
	broken := (*eventlog.BrokenError)(nil)
	if err := to.log.Restore(to.Ctx, lost[1]); !errors.As(err, &broken) {
		t.Errorf("behind the end of the stream: %v", err)
	}
	for _, l := range []*eventlog.Log{to.log, to.other} { // two processes
		for _, m := range lost[:2] {
			must.Succeed(t, l.Restore(to.Ctx, m))
		}
	}
	to.has(1, 2)
	moved := lost[2]
	moved.Position++
	if err := to.log.Restore(to.Ctx, moved); !errors.As(err, &broken) {
		t.Errorf("at another position: %v", err)
	}
	must.Succeed(t, testkit.Conn(t, to.Server, bus.RoleGraph).Publish(bus.LogSubject(realm), []byte("no commit")))
	to.waitForLast(3)
	if err := to.log.Restore(to.Ctx, lost[2]); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("where a foreign message stands: %v", err)
	}
	if last, _, err := to.other.Last(to.Ctx); err != nil || last != 3 {
		t.Errorf("the stream ends at %d, %v", last, err)
	}
}
