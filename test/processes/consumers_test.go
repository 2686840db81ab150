//go:build unix

package processes_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// If the log's stream has as many consumers as the NATS server allows, a standby still
// follows the log, and takes over as soon as the lease has expired. Meanwhile `coppice
// explain` reads the log for a removed object, and succeeds each time.
func TestProcessesTakeOverWithoutConsumers(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.nats()
	const lease = 10 * time.Second
	writer := d.instance("writer", bus.RoleGraph, "--data", filepath.Join(d.dir, "writer"), "--lease", lease.String())
	writer.ready()
	objects := d.application().Resource(configMaps, "shop")
	create := func(name string) {
		t.Helper()
		if _, err := objects.Create(d.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		create(fmt.Sprint("cm-", i))
	}
	create("gone")
	if _, err := objects.Delete(d.ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	d.useUpConsumers()

	standby := d.instance("standby", bus.RoleGraph, "--data", filepath.Join(d.dir, "standby"), "--lease", lease.String())
	phase := func(of string) func() bool {
		name := fmt.Sprintf("coppice_graph_phase{phase=%q,realm=%q}", of, bus.DefaultRealm)
		return func() bool { return standby.metrics()[name] == 1 }
	}
	testkit.WaitFor(t, d.ctx, "the standby to have caught up", phase("standing by"))
	standby.says("maximum consumers limit reached") // therefore it polls

	reading, stop := context.WithCancel(d.ctx)
	defer stop()
	g, reading := errgroup.WithContext(reading)
	explained := make(chan struct{}, 1000)
	for range 3 {
		g.Go(func() error {
			for reading.Err() == nil {
				if err := d.explain(reading, "gone"); err != nil {
					return err
				}
				explained <- struct{}{}
			}
			return nil
		})
	}
	testkit.Receive(t, d.ctx, "an explanation", explained)
	writer.kill()
	prompt, cancel := context.WithTimeout(d.ctx, min(testkit.Timeout, 4*time.Minute)) // for a busy machine; the error that this test found took five minutes
	defer cancel()
	testkit.WaitFor(t, prompt, "the standby to have taken over", phase("writer"))
	for len(explained) > 0 {
		<-explained
	}
	for range 3 {
		testkit.Receive(t, d.ctx, "an explanation by the new writer", explained)
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := objects.Delete(d.ctx, "cm-0"); err != nil {
		t.Errorf("the new writer: %v", err)
	}
}

// useUpConsumers creates as many consumers on the log's stream as the server allows.
func (d *deployment) useUpConsumers() {
	d.t.Helper()
	js, err := jetstream.New(d.conn(bus.RoleAdmin, nil))
	must.Succeed(d.t, err)
	for i := range 2000 {
		_, err := js.CreateConsumer(d.ctx, bus.LogStream(bus.DefaultRealm), jetstream.ConsumerConfig{
			Name: fmt.Sprint("reader-", i), MemoryStorage: true, InactiveThreshold: 10 * time.Minute,
		})
		var refused *jetstream.APIError
		switch {
		case errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeMaximumConsumersLimit && i >= 900:
			return
		case err != nil:
			d.t.Fatalf("consumer %d: %v", i, err)
		}
	}
	d.t.Fatal("the server allows more than 2,000 consumers for a stream")
}

// explain runs `coppice explain` with the user of a reader.
func (d *deployment) explain(ctx context.Context, name string) error {
	c := exec.CommandContext(ctx, program("coppice"), "explain", "cm/"+name, "-n", "shop", "--timeout", testkit.Timeout.String(), "--server", d.url(), "--user", bus.RoleReader)
	c.Env = []string{"HOME=" + d.dir, "NATS_PASSWORD=" + password(bus.RoleReader), "NATS_TIMEOUT=" + testkit.Timeout.String()}
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was interrupted
	}
	if err != nil || !strings.Contains(string(out), "configmaps/gone was removed") {
		return fmt.Errorf("explain: %w: %s", err, out)
	}
	return nil
}
