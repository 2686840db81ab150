package bus_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A message that has come when the time is over is returned.
func TestReplyAtTheEnd(t *testing.T) {
	t.Parallel()
	all := bus.Role{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}}
	nc := testkit.Conn(t, testkit.StartNATS(t, natsd.Config{Roles: []bus.Role{all}}), all.Name)
	replies, err := bus.SubscribeReplies(nc, 1)
	must.Succeed(t, err)
	defer replies.Close()
	ctx := testkit.Context(t)
	for range 100 {
		must.Succeed(t, nc.Publish(replies.Inbox, []byte("x")))
		must.Succeed(t, nc.FlushWithContext(ctx))
		if m, err := replies.Next(ctx, 0); err != nil || string(m.Data) != "x" {
			t.Fatalf("got %v, %v", m, err)
		}
	}
}
