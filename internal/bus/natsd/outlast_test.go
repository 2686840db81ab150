package natsd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// all may do everything.
var all = bus.Role{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}}

// A server whose disk was full is restarted when there is room again, at the same port.
// Connections of this process and others reconnect, what was acknowledged is there, and
// streams take messages again: more than once.
func TestOutlastsFullDisk(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	disk := testkit.NewDisk(t, 64<<20)
	s := testkit.StartNATS(t, natsd.Config{Dir: disk.Dir, Roles: []bus.Role{all}, OutlastFullDisk: true})
	url := s.URL()
	inside, outside := testkit.Conn(t, s, all.Name), testkit.Dial(t, s, url, all.Name)
	js, err := jetstream.New(inside)
	must.Succeed(t, err)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "s", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	var acknowledged []uint64
	publish := func() error {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		ack, err := js.Publish(short, fmt.Sprintf("s.%d", len(acknowledged)), make([]byte, 8<<10))
		if err == nil {
			acknowledged = append(acknowledged, ack.Sequence)
		}
		return err
	}
	for round := range 2 {
		testkit.WaitFor(t, ctx, "a message to be stored", func() bool { return publish() == nil })
		free := disk.Fill()
		full(ctx, t, publish)
		before := [2]uint64{inside.Stats().Reconnects, outside.Stats().Reconnects}
		free()
		testkit.WaitFor(t, ctx, "a message to be stored again", func() bool { return publish() == nil })
		for i, nc := range []*nats.Conn{inside, outside} {
			testkit.WaitFor(t, ctx, "the connections to be made again", func() bool { return nc.IsConnected() && nc.Stats().Reconnects > before[i] })
		}
		stream, err := js.Stream(ctx, "s")
		must.Succeed(t, err)
		for i, sequence := range acknowledged {
			m, err := stream.GetMsg(ctx, sequence)
			if err != nil || m.Subject != fmt.Sprintf("s.%d", i) {
				t.Fatalf("round %d: message %d was acknowledged at sequence %d, where there is %v, %v", round, i, sequence, m, err)
			}
		}
	}
	if s.URL() != url {
		t.Errorf("the server listens at %s, and did at %s", s.URL(), url)
	}
}

// full waits until messages are not stored any more: one may fail because the machine is slow.
func full(ctx context.Context, t *testing.T, publish func() error) {
	t.Helper()
	failures := 0
	testkit.WaitFor(t, ctx, "the disk to be full", func() bool {
		failures++
		if publish() == nil {
			failures = 0
		}
		return failures > 3
	})
}

// Without OutlastFullDisk a server keeps the write error, as an external one does.
func TestFullDiskIsKept(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	disk := testkit.NewDisk(t, 64<<20)
	s := testkit.StartNATS(t, natsd.Config{Dir: disk.Dir, Roles: []bus.Role{all}})
	js := testkit.JetStream(t, s, all.Name)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	publish := func() error {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := js.Publish(short, "s", make([]byte, 8<<10))
		return err
	}
	free := disk.Fill()
	full(ctx, t, publish)
	free()
	if err := publish(); err == nil {
		t.Error("the write error was not kept: docs/operations.md says that the server must be restarted")
	}
}
