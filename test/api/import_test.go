package api_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/allinone"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// What an import session has held is judged when it is closed, without the
// scanner (X11).
func TestSessionClosed(t *testing.T) {
	t.Parallel()
	var judged atomic.Int64
	r, stop := startWith(t, allinone.Config{
		Dir:       t.TempDir(),
		Processor: func(c *processor.Config) { c.Before = func(context.Context) { judged.Add(1) } },
		Scanner:   func(c *scanner.Config) { c.Interval, c.RedriveInterval = time.Hour, time.Hour },
	})
	t.Cleanup(stop)
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	work, err := js.Stream(r.ctx, bus.WorkStream(bus.DefaultRealm))
	if err != nil {
		t.Fatal(err)
	}
	web := r.create(deployments, "default", named("web"))
	if _, err := r.Objects(deployments, "default").Delete(r.ctx, "web", nil); err != nil {
		t.Fatal(err)
	}
	pod := named("web-1", web)
	pod.Metadata.Uid = uuid.NewString()
	session := uuid.NewString()
	imports := r.Objects(pods, "default")
	if _, err := imports.ImportAll(r.ctx, session, []*coppicev1.Object{pod}, false, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, r.ctx, "the processor to have judged the dependent", func() bool {
		info, err := work.Info(r.ctx)
		return err == nil && info.State.Msgs == 0 && judged.Load() > 0
	})
	r.get(pods, "default", "web-1")
	if _, err := imports.ImportAll(r.ctx, session, nil, true, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.gone(pods, "default", "web-1")
}
