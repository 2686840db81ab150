package bus_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// A message that has come when the time is over is returned.
func TestReplyAtTheEnd(t *testing.T) {
	t.Parallel()
	all := bus.Role{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}}
	nc := testkit.Conn(t, testkit.StartNATS(t, natsd.Config{Roles: []bus.Role{all}}), all.Name)
	replies, err := bus.SubscribeReplies(nc, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer replies.Close()
	ctx := testkit.Context(t)
	for range 100 {
		if err := nc.Publish(replies.Inbox, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		if m, err := replies.Next(ctx, 0); err != nil || string(m.Data) != "x" {
			t.Fatalf("got %v, %v", m, err)
		}
	}
}
