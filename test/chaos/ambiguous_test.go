package chaos_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Whatever becomes of an unacknowledged append, and whichever process is the writer
// afterwards: each command has one outcome, is in the log at most once, and gets the same
// outcome when it is repeated.
func TestAmbiguous(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		direction testkit.Direction
		mode      testkit.Mode
		takeOver  bool // another process becomes the writer before the first reaches the log again
		epoch     uint64
	}{
		"lost acknowledgement":                   {testkit.ToClient, testkit.Discard, false, 1},
		"lost acknowledgement and a take-over":   {testkit.ToClient, testkit.Discard, true, 1},
		"late append":                            {testkit.ToServer, testkit.Hold, false, 1},
		"late append, later than the next epoch": {testkit.ToServer, testkit.Hold, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			d := newDoubt(t)
			ttl := 10 * testkit.Timeout
			if c.takeOver {
				ttl = 15 * time.Second
			}
			nc := testkit.Dial(t, d.server, d.proxy.URL(), bus.RoleGraph)
			one := d.serve(first, nc, ttl)
			testkit.WaitFor(t, ctx, "the first writer", one.Writing)
			var two *graph.Service
			if c.takeOver {
				two = d.serve("second", testkit.Conn(t, d.server, bus.RoleGraph), ttl)
				testkit.WaitFor(t, ctx, "the other to stand by", func() bool { return two.Ready() == nil })
			}

			commands := contenders()
			var sent atomic.Uint64 // bytes, before the append
			disturb := func() {
				sent.Store(nc.Stats().OutBytes)
				d.proxy.Set(c.direction, c.mode)
			}
			d.next.Store(&disturb)
			// The first command is alone in its commit, so that the test knows the size of
			// each attempt of the append. The other commands are sent meanwhile.
			leader := d.send(ctx, commands[:1])
			testkit.WaitFor(t, ctx, "the append", func() bool { return d.next.Load() == nil })
			others := d.send(ctx, commands[1:])
			answers := func() [][]outcome { return append(leader(), others()...) }
			if c.takeOver {
				testkit.WaitFor(t, ctx, "the other to be the writer", two.Writing)
			} else {
				testkit.WaitFor(t, ctx, "a second attempt of the append", func() bool { return nc.Stats().OutBytes >= sent.Load()+2*large })
			}
			if c.mode == testkit.Hold {
				d.proxy.Set(c.direction, testkit.Pass)
				testkit.WaitFor(t, ctx, "a refusal of what was held up", func() bool { return d.refusals.Load() > 0 })
			} else {
				if d.proxy.Lost(c.direction) == 0 {
					t.Error("nothing was lost")
				}
				d.proxy.Heal()
			}
			outcomes := answers()
			again := d.send(ctx, commands)()

			log := newAuditor(t)
			log.mustRead(ctx, testkit.Conn(t, d.server, bus.RoleGraph))
			log.checkOutcomes(t, commands, outcomes, again)
			if epoch := log.firstEpoch(commands); epoch != c.epoch {
				t.Errorf("the first command is in epoch %d of the log, want %d", epoch, c.epoch)
			}
		})
	}
}

// first is the name of the graph service behind the proxy.
const first = "first"

// doubt is a realm whose first writer reaches the log through a proxy.
type doubt struct {
	t      *testing.T
	server *natsd.Server
	proxy  *testkit.Proxy
	nc     *nats.Conn // the connection of the clients, not through the proxy
	// refusals counts the replies to appends that say that the log has another last
	// sequence.
	refusals atomic.Int32
	// next is called once, before the first writer's next append.
	next atomic.Pointer[func()]
}

func newDoubt(t *testing.T) *doubt {
	t.Helper()
	d := &doubt{t: t, server: testkit.NATS(t)}
	d.proxy = testkit.NewProxy(t, d.server.URL())
	d.nc = testkit.Conn(t, d.server, bus.RoleApplication)
	if _, err := testkit.Conn(t, d.server, bus.RoleGraph).Subscribe(bus.InboxPrefix(bus.RoleGraph)+".>", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(`"err_code":10071`)) {
			d.refusals.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

// serve runs a graph service until the test has ended.
func (d *doubt) serve(name string, nc *nats.Conn, ttl time.Duration) *graph.Service {
	d.t.Helper()
	s, err := graph.New(graph.Config{Secrets: testkit.Secrets(), Conn: nc, Answers: testkit.Conn(d.t, d.server, bus.RoleAnswers), Dir: d.t.TempDir(), Instance: name, LeaseTTL: ttl, Failpoint: func(step string) {
		if name != first || step != writer.FailDecided {
			return
		}
		if next := d.next.Swap(nil); next != nil {
			(*next)()
		}
	}})
	must.Succeed(d.t, err)
	testkit.Run(d.t, s.Run)
	return s
}

// contested is the name under which several commands create an object.
const contested = "contested"

// large is the size in bytes of the object of the first command. Even compressed it is
// larger than everything else that a graph service sends.
const large = 1 << 19

// contenders returns commands that create objects, some of them with the same name.
func contenders() (list []command) {
	for i := range 12 {
		name := fmt.Sprint("n-", i)
		if i%3 == 0 {
			name = contested
		}
		spec := fmt.Sprint(i)
		if i == 0 {
			random := make([]byte, large)
			_, _ = rand.Read(random)
			spec = fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(random))
		}
		list = append(list, creation(configMaps, "a", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(spec)}))
	}
	return list
}

// outcome is the final reply to a command.
type outcome struct {
	result *coppicev1.Result
	err    error
}

func (o outcome) equal(other outcome) bool {
	var a, b *client.Error
	if errors.As(o.err, &a) && errors.As(other.err, &b) {
		return a.Reason == b.Reason
	}
	return o.err == nil && other.err == nil && proto.Equal(o.result, other.result)
}

// copies is the number of times that each command is sent concurrently.
const copies = 2

// send sends each command several times concurrently, and retries until there is a final
// reply. The function that it returns waits for the outcomes and returns them in order.
func (d *doubt) send(ctx context.Context, commands []command) func() [][]outcome {
	outcomes := make([][]outcome, len(commands))
	var wg sync.WaitGroup
	for i, c := range commands {
		outcomes[i] = make([]outcome, copies)
		for j := range copies {
			wg.Go(func() {
				reply, err := c.do(ctx, d.nc, bus.RoleApplication)
				if err == nil {
					outcomes[i][j].result = reply.GetResults()[0]
				}
				outcomes[i][j].err = err
			})
		}
	}
	return func() [][]outcome {
		wg.Wait()
		return outcomes
	}
}

// firstEpoch returns the epoch in which the first command was committed.
func (a *auditor) firstEpoch(commands []command) uint64 {
	epoch := a.epoch
	for _, c := range commands {
		if e, ok := a.epochs[c.id]; ok {
			epoch = min(epoch, e)
		}
	}
	return epoch
}

// checkOutcomes compares all replies to the commands with the log.
func (a *auditor) checkOutcomes(t *testing.T, commands []command, lists ...[][]outcome) {
	t.Helper()
	winners := 0
	for i, c := range commands {
		first := lists[0][i][0]
		for _, outcomes := range lists {
			for _, o := range outcomes[i] {
				if !o.equal(first) {
					t.Errorf("command %d was answered %v, %v and also %v, %v", i, first.result, first.err, o.result, o.err)
				}
			}
		}
		done := a.commands[c.id]
		if first.err != nil {
			if !errors.Is(first.err, client.ErrAlreadyExists) || len(done) > 0 {
				t.Errorf("command %d: %v; in the log it has %d effects", i, first.err, len(done))
			}
			continue
		}
		m := first.result.GetObject().GetMetadata()
		if len(done) != 1 || done[0] != (effect{m.GetUid(), m.GetResourceVersion()}) {
			t.Errorf("command %d has made %s at revision %d, as its reply said; the log has %v", i, m.GetUid(), m.GetResourceVersion(), done)
		}
		if m.GetName() == contested {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("the replies to %d commands say that they have made the same object", winners)
	}
}
