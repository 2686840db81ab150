package processes_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// `make watches` begins 1,000 watches on 16 MiB.
var (
	crowdWatches = flag.Int("watches", 200, "how many watches TestWatchesBeginAtOnce begins")
	crowdMiB     = flag.Int("watched", 8, "how many MiB of objects TestWatchesBeginAtOnce watches")
)

// crowdMemory is the maximum memory of the graph service in MiB: 256 of it are garbage, and
// 256 belong to Pebble. Without limits, 1,000 watches on 16 MiB took 11,800.
const crowdMemory = 768

// Many watches begin at the same time with the present objects. Those beyond the limit are
// refused and begin again. Each receives all objects, and the memory of the graph service
// is bounded.
func TestWatchesBeginAtOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	ctx, cancel := context.WithCancel(d.ctx)
	t.Cleanup(cancel)
	d.nats()
	graph := d.graph()
	graph.ready()
	app := d.application().Resource(configMaps, "shop")
	const size = 8 << 10
	count := *crowdMiB << 20 / size
	for from := 0; from < count; from += 256 {
		batch := make([]*coppicev1.Object, min(256, count-from))
		for i := range batch {
			batch[i] = &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("c-%05d", from+i), Annotations: map[string]string{"text": strings.Repeat("x", size)}}}
		}
		for _, r := range valueOf(app.CreateBatch(ctx, batch))(t) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	before := peakMiB(t, graph.process)
	// The NATS server closes a connection that does not read what waits for it fast enough, beyond
	// 256 MiB, and a watch that was interrupted by that would wait for ever.
	perConn := max(1, 128/(*crowdMiB))
	var conns []*nats.Conn
	roles := []string{bus.RoleApplication, bus.RoleReader, bus.RoleOperator}
	for i := range (*crowdWatches + perConn - 1) / perConn {
		nc := d.conn(roles[i%len(roles)], nil)
		nc.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				t.Errorf("%s is disconnected: %v", roles[i%len(roles)], err)
				cancel()
			}
		})
		conns = append(conns, nc)
	}
	var group sync.WaitGroup
	refused := make(chan int, *crowdWatches)
	begun := time.Now()
	for i := range *crowdWatches {
		group.Go(func() {
			n, err := watchAll(ctx, conns[i%len(conns)], roles[i%len(conns)%len(roles)], count)
			if err != nil {
				t.Errorf("watch %d: %v", i, err)
			}
			refused <- n
		})
	}
	group.Wait()
	refusals := 0
	for range *crowdWatches {
		refusals += <-refused
	}
	peak := peakMiB(t, graph.process)
	t.Logf("%d watches on %d MiB: %.1f s, %d refusals; the graph service has %d MiB resident at peak, and had %d before",
		*crowdWatches, *crowdMiB, time.Since(begun).Seconds(), refusals, peak, before)
	most := crowdMemory
	if testkit.Raced {
		most *= 8 // the race detector takes 5 to 10 times the memory
	}
	if peak > most {
		t.Errorf("the graph service has taken %d MiB, want at most %d", peak, most)
	}
}

// watchAll begins a watch with the present objects. If it is refused as one too many, it
// begins again. It returns when it has received all objects, and leaves the watch open, as
// controllers do.
func watchAll(ctx context.Context, nc *nats.Conn, role string, count int) (refusals int, err error) {
	at := bus.API{Realm: bus.DefaultRealm, Actor: role, Verb: bus.VerbWatch, Plural: configMaps.Plural, Namespace: "shop"}.Subject()
	request, err := rpc.Encode(&coppicev1.WatchRequest{})
	if err != nil {
		return 0, err
	}
	for ; ; refusals++ {
		got, retry, err := watchOnce(ctx, nc, &nats.Msg{Subject: at, Header: rpc.Header(at, nil), Data: request})
		switch {
		case err != nil:
			return refusals, err
		case retry == 0 && got != count:
			return refusals, fmt.Errorf("got %d objects, want %d", got, count)
		case retry == 0:
			return refusals, nil
		}
		select {
		case <-ctx.Done():
			return refusals, ctx.Err()
		case <-time.After(retry):
		}
	}
}

// watchOnce begins a watch, and counts the objects that it sends before the first change.
// If the watch was refused, retry is the time after which to begin again.
func watchOnce(ctx context.Context, nc *nats.Conn, m *nats.Msg) (got int, retry time.Duration, err error) {
	m.Reply = nc.NewInbox()
	sub, err := nc.SubscribeSync(m.Reply)
	if err != nil {
		return 0, 0, err
	}
	if err := nc.PublishMsg(m); err != nil {
		return 0, 0, err
	}
	next := func() (*nats.Msg, error) {
		ctx, cancel := context.WithTimeout(ctx, testkit.Timeout)
		defer cancel()
		return sub.NextMsgWithContext(ctx)
	}
	for {
		reply, err := next()
		if err != nil {
			return got, 0, err
		}
		var b coppicev1.WatchBatch
		refusal := rpc.Refusal(reply)
		if refusal == nil {
			if err := proto.Unmarshal(reply.Data, &b); err != nil {
				return got, 0, err
			}
			if b.GetError() != nil {
				refusal = api.ErrorOf(b.GetError())
			}
		}
		if refusal != nil {
			if err := sub.Unsubscribe(); err != nil || !rpc.Retryable(refusal) {
				return got, 0, errors.Join(refusal, err)
			}
			return got, time.Second, nil
		}
		got += len(b.GetEvents())
		if b.GetRevision() != 0 {
			return got, 0, nil
		}
	}
}

// peakMiB returns the largest resident memory of a process since it began, in MiB.
func peakMiB(t *testing.T, p *process) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must.Succeed(t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			must.Succeed(t, err)
			return kib >> 10
		}
	}
	t.Fatalf("process %d has no VmHWM", p.cmd.Process.Pid)
	return 0
}
