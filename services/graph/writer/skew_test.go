package writer_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// While the clock cannot be trusted, the writer commits nothing: it refuses new commands,
// and those that wait behind a commit in flight, with a retryable error that has the
// reason, and ends.
func TestClockIsChecked(t *testing.T) {
	t.Parallel()
	wrong := errors.New("the clock is a day ahead")
	var off atomic.Bool
	b := start(t, func(c *writer.Config) {
		c.CheckClock = func() error {
			if off.Load() {
				return wrong
			}
			return nil
		}
	})
	first, release := b.underWay()
	length := b.log.length()
	off.Store(true)
	refused := []<-chan answer{b.submit(create("x")), b.submit(withID(1, create("y")))}
	release()
	if err := b.wait(); !errors.Is(err, wrong) {
		t.Errorf("the writer ended with %v", err)
	}
	testkit.Receive(t, b.ctx, "the first answer", first).objects(t) // it was decided before
	refused = append(refused, b.submit(create("z")))
	for i, from := range refused {
		a := testkit.Receive(t, b.ctx, "a refusal", from)
		if !errors.Is(a.err, api.ErrServiceUnavailable) || a.err.RetryAfter == 0 || !strings.Contains(a.err.Message, wrong.Error()) {
			t.Errorf("command %d: %v, %v; want a retryable error with the reason", i, a.reply, a.err)
		}
	}
	if n := b.log.length(); n != length+1 {
		t.Errorf("%d commits were appended, want the one that was decided before", n-length)
	}
}
