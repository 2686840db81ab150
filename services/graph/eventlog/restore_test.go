package eventlog_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A commit that the stream has lost is appended again at its position, once, and only as it was.
func TestRestore(t *testing.T) {
	t.Parallel()
	from, to := newBench(t), newBench(t)
	var lost []eventlog.Message
	for i := range byte(3) {
		if err := appendTo(from.ctx, from.other, uint64(i), i+1); err != nil {
			t.Fatal(err)
		}
		m, err := from.other.Message(from.ctx, uint64(i)+1)
		if err != nil {
			t.Fatal(err)
		}
		lost = append(lost, m)
	}
	broken := (*eventlog.BrokenError)(nil)
	if err := to.log.Restore(to.ctx, lost[1]); !errors.As(err, &broken) {
		t.Errorf("behind the end of the stream: %v", err)
	}
	for _, l := range []*eventlog.Log{to.log, to.other} { // two processes
		for _, m := range lost[:2] {
			if err := l.Restore(to.ctx, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	to.has(1, 2)
	moved := lost[2]
	moved.Sequence++
	if err := to.log.Restore(to.ctx, moved); !errors.As(err, &broken) {
		t.Errorf("at another position: %v", err)
	}
	if err := testkit.Conn(t, to.server, bus.RoleGraph).Publish(bus.LogSubject(realm), []byte("no commit")); err != nil {
		t.Fatal(err)
	}
	to.waitForLast(3)
	if err := to.log.Restore(to.ctx, lost[2]); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("where a foreign message stands: %v", err)
	}
	if last, _, err := to.other.Last(to.ctx); err != nil || last != 3 {
		t.Errorf("the stream ends at %d, %v", last, err)
	}
}
