package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// history has the requests of concurrent clients and the replies.
type history struct {
	t      *testing.T
	nc     *nats.Conn
	use    usage
	begun  time.Time
	stop   context.CancelFunc
	asking sync.WaitGroup
	done   atomic.Int64 // operations with a reply
	late   atomic.Int64 // operations whose client has continued before the reply

	mu      sync.Mutex
	entries []entry
}

// entry is one operation. A reply that says nothing about the object counts as no reply:
// the log then shows whether the command was carried out.
type entry struct {
	id        uuid.UUID
	client    int
	ask       ask
	response  response
	answered  bool
	call, end int64
}

// The number of clients and of objects, and the time after which a client continues with
// the next operation although the reply to the last one is missing.
const (
	askers = 6
	names  = 8
	hurry  = 200 * time.Millisecond
)

// usage is how clients use objects.
type usage struct {
	ns      string // of the objects, which nothing else changes
	clients int
	pace    time.Duration // the pause of a client between two operations
	wait    time.Duration // for a reply; longer than the time for which a process is suspended
}

// newHistory starts clients of the role application on a connection.
func newHistory(t *testing.T, nc *nats.Conn, use usage) *history {
	t.Helper()
	h := &history{t: t, nc: nc, use: use, begun: time.Now()}
	asking, stop := context.WithCancel(t.Context())
	h.stop = stop
	t.Cleanup(h.end)
	for i := range use.clients {
		h.asking.Go(func() { h.client(asking, i) })
	}
	return h
}

// end stops the clients, and waits for the replies of all operations.
func (h *history) end() {
	h.stop()
	h.asking.Wait()
}

// progress waits until the clients have received a number of replies.
func (h *history) progress(ctx context.Context, n int64) {
	h.t.Helper()
	until := h.done.Load() + n
	testkit.WaitFor(h.t, ctx, "answers", func() bool { return h.done.Load() >= until })
}

// client sends one operation after another. If a reply is late, the client continues with
// the next operation, and a goroutine still waits for the reply, because it may be stale.
func (h *history) client(ctx context.Context, i int) {
	r := rand.New(rand.NewPCG(*seed, uint64(i)))
	seen := map[string]uint64{} // resourceVersions for the preconditions of updates
	var mu sync.Mutex
	for n := 0; ctx.Err() == nil; n++ {
		e := entry{
			id: uuid.Must(uuid.NewV7()), client: i,
			ask: ask{name: fmt.Sprintf("n-%d", r.IntN(names)), verb: []string{bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdate, bus.VerbDelete, bus.VerbGet, bus.VerbGet}[r.IntN(6)]},
		}
		switch e.ask.verb {
		case bus.VerbUpdate:
			if r.IntN(2) == 0 {
				mu.Lock()
				e.ask.expected = seen[e.ask.name]
				mu.Unlock()
			}
			fallthrough
		case bus.VerbCreate:
			e.ask.value = fmt.Sprintf("%d.%d", i, n)
		}
		answered := make(chan struct{})
		h.asking.Go(func() {
			defer close(answered)
			e = h.run(e)
			mu.Lock()
			defer mu.Unlock()
			if e.answered && e.response.revision > seen[e.ask.name] {
				seen[e.ask.name] = e.response.revision
			}
		})
		select {
		case <-answered:
		case <-time.After(hurry):
			h.late.Add(1)
		}
		if h.use.pace > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(h.use.pace):
			}
		}
	}
}

// run sends an operation once and records the reply.
func (h *history) run(e entry) entry {
	ctx, cancel := context.WithTimeout(h.t.Context(), h.use.wait)
	defer cancel()
	c := e.command(h.use.ns)
	e.call = int64(time.Since(h.begun))
	reply, err := c.once(ctx, h.nc, bus.RoleApplication)
	e.end = int64(time.Since(h.begun))
	var refusal *client.Error
	switch {
	case err == nil:
		o := reply.GetResults()[0].GetObject()
		e.answered = true
		e.response = response{value: valueOf(o), revision: o.GetMetadata().GetResourceVersion()}
	case errors.As(err, &refusal):
		switch refusal.Reason {
		case client.ErrNotFound, client.ErrAlreadyExists, client.ErrConflict:
			e.answered, e.response.refusal = true, refusal.Reason
		case client.ErrOutcomeUnknown:
		default:
			if !rpc.Retryable(err) {
				h.t.Errorf("%+v: %v", e.ask, err)
			}
		}
	case h.t.Context().Err() == nil: // the test has not ended
		h.t.Errorf("%+v: %v", e.ask, err)
	}
	if e.answered {
		h.done.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(h.entries, e)
	return e
}

func (e entry) command(ns string) command {
	c := command{e.id, e.ask.verb, configMaps, ns, nil}
	switch e.ask.verb {
	case bus.VerbGet:
		c.request = &coppicev1.GetRequest{Names: []string{e.ask.name}}
	case bus.VerbDelete:
		c.request = &coppicev1.DeleteRequest{Names: []string{e.ask.name}}
	default:
		c.request = &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{{
			Metadata: &coppicev1.ObjectMeta{Name: e.ask.name, ResourceVersion: e.ask.expected},
			Spec:     []byte(`"` + e.ask.value + `"`),
		}}}
	}
	return c
}

func valueOf(o *coppicev1.Object) string {
	var v string
	_ = json.Unmarshal(o.GetSpec(), &v)
	return v
}

// operations returns the history for the checker. A command without a reply that is in the
// log was carried out at some time after it was sent. A command without a reply that is not
// in the log, and a read without a reply, are left out. wrong has the operations whose reply
// and log differ.
func (h *history) operations(log *auditor) (list []porcupine.Operation, wrong []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		done, inLog := log.commands[e.id]
		changes := e.ask.verb != bus.VerbGet
		switch {
		case changes && e.answered && inLog != (e.response.refusal == ""):
			wrong = append(wrong, fmt.Sprintf("%+v got %+v; that it is in the log is %t", e.ask, e.response, inLog))
		case changes && inLog:
			if len(done) != 1 {
				wrong = append(wrong, fmt.Sprintf("%+v has %d effects", e.ask, len(done)))
				continue
			}
			// The reply to a deletion has the object before.
			if e.answered && e.ask.verb != bus.VerbDelete && e.response.revision != done[0].revision {
				wrong = append(wrong, fmt.Sprintf("%+v got %+v; in the log it is revision %d", e.ask, e.response, done[0].revision))
			}
			e.response.revision = done[0].revision
		case !e.answered:
			continue
		}
		if !e.answered {
			e.end = math.MaxInt64
		}
		list = append(list, porcupine.Operation{ClientId: e.client, Input: e.ask, Output: e.response, Call: e.call, Return: e.end})
	}
	return list, wrong
}

// check compares the history with the log, and reports whether it is linearizable.
func (h *history) check(log *auditor) (found []violation) {
	operations, wrong := h.operations(log)
	for _, w := range wrong {
		found = append(found, violation{linearizable, w})
	}
	switch result, info := porcupine.CheckOperationsVerbose(registers, operations, testkit.Timeout); result {
	case porcupine.Unknown:
		found = append(found, violation{linearizable, "it could not be checked in time"})
	case porcupine.Illegal:
		found = append(found, violation{linearizable, "no order of the operations explains the replies: " + explain(info)})
	}
	return found
}

// explain names, for each object, the longest prefix of its operations that has a valid
// order.
func explain(info porcupine.LinearizationInfo) string {
	var parts []string
	for _, partial := range info.PartialLinearizations() {
		longest := 0
		for _, l := range partial {
			longest = max(longest, len(l))
		}
		parts = append(parts, fmt.Sprint(longest))
	}
	return "by object, the operations that have an order are " + strings.Join(parts, ", ")
}

// values returns the value that each revision has written.
func (h *history) values(log *auditor) map[uint64]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	values := map[uint64]string{}
	for _, e := range h.entries {
		for _, done := range log.commands[e.id] {
			values[done.revision] = e.ask.value
		}
	}
	return values
}
