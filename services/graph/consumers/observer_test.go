package consumers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/callstate"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

var durable = bus.FinalizerDurable(bus.ExampleFinalizer)

// What the observer says follows a worker through its life: it appears, fails, tries again,
// works, is done, and is gone.
func TestWorkerIsObserved(t *testing.T) {
	t.Parallel()
	server, ctx := testkit.NATS(t), testkit.Context(t)
	js := testkit.JetStream(t, server, bus.RoleGraph)
	must.Succeed(t, bus.EnsureStreams(ctx, js, realm, 1))
	var time testkit.Clock
	o := New(js, realm, time.Now)
	stop, err := o.Observe(js.Conn())
	must.Succeed(t, err)
	defer stop()
	state := func() State {
		t.Helper()
		is, _, err := o.Of(ctx, durable)
		must.Succeed(t, err)
		return is
	}
	becomes := func(want coppicev1.ConsumerStatus) State {
		t.Helper()
		var is State
		testkit.WaitFor(t, ctx, want.String(), func() bool {
			is = state()
			return is.Status == want
		})
		return is
	}
	call := bus.Finalize{Realm: realm, Plural: "pods", UID: "some-uid", Finalizer: bus.ExampleFinalizer}.Subject()
	status := func() *coppicev1.CallStatus {
		t.Helper()
		of, _, err := o.Of(ctx, durable)
		must.Succeed(t, err)
		s, err := o.Status(ctx, call, &of)
		must.Succeed(t, err)
		return s
	}
	saidIs := func(state coppicev1.CallState, words string) {
		t.Helper()
		s := status()
		if got := callstate.Words(s, func(timeTime) string { return "T" }); s.GetState() != state || got != words {
			t.Errorf("the call: %v, %q; want %v, %q", s, got, state, words)
		}
	}
	if is := becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE); is.Live || is.Answered {
		t.Errorf("without a consumer: %+v", is)
	}
	saidIs(coppicev1.CallState_CALL_STATE_NO_CONSUMER, "no consumer")

	fail, work := make(chan struct{}), make(chan struct{})
	attempts := atomic.Int32{}
	working, end := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = worker.Run(working, worker.Config{
			Conn: testkit.Conn(t, server, bus.RoleFinalizer), Realm: realm, Stream: bus.FinalizeStream(realm), Durable: durable, Backoff: 15_000_000_000, Concurrency: 1,
			Ensure: func(ctx context.Context) (d timeDuration, err error) {
				_, err = js.CreateOrUpdateConsumer(ctx, bus.FinalizeStream(realm), bus.FinalizerConsumer(realm, bus.ExampleFinalizer))
				return bus.CallAckWait, err
			},
			Handle: func(ctx context.Context, _ *worker.Message) error {
				if attempts.Add(1) == 1 {
					select {
					case <-fail:
					case <-ctx.Done():
					}
					return errors.New("the bucket is not empty\nand \x1b[31mred")
				}
				select {
				case <-work:
				case <-ctx.Done():
				}
				return nil
			},
		})
	})
	defer ended.Wait()
	defer end()
	if is := becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE); !is.Live || !is.Answered || is.Error != "" {
		t.Errorf("a worker that waits: %+v", is)
	}
	saidIs(coppicev1.CallState_CALL_STATE_QUEUED, "waiting in the queue")

	if _, err := js.Publish(ctx, call, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if is := becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING); !is.Live || is.Working.IsZero() {
		t.Errorf("a worker with a call: %+v", is)
	}
	testkit.WaitFor(t, ctx, "the first report", func() bool { return status().GetWorkingSince() != 0 })
	saidIs(coppicev1.CallState_CALL_STATE_WORKING, "working since T")
	close(fail)
	is := becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING)
	if !is.Live || !strings.HasPrefix(is.Error, "the bucket is not empty") || strings.Contains(is.Error, "\n") || !is.Retry.After(time.Now()) || is.Failed.IsZero() {
		t.Errorf("after a failure: %+v", is)
	}
	failed := status()
	if s := failed; !s.GetDelivered() || s.GetCall() == 0 || s.GetAttempts() == 0 || s.GetNextRetry() == 0 || s.GetLastError() != is.Error {
		t.Errorf("the call after a failure: %v", s)
	}
	saidIs(coppicev1.CallState_CALL_STATE_FAILED, "failed 1 time: the bucket is not empty and \x1b[31mred; next retry at T")
	is = becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING)
	testkit.WaitFor(t, ctx, "the first report", func() bool { return status().GetAttempts() > failed.GetAttempts() })
	if s := status(); s.GetWorkingSince() == 0 || s.GetNextRetry() != 0 || s.GetLastError() == "" {
		t.Errorf("the call at the second attempt: %v; consumer %+v", s, is)
	}
	saidIs(coppicev1.CallState_CALL_STATE_WORKING, "working since T; failed 1 time: the bucket is not empty and \x1b[31mred")
	close(work)
	if is := becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE); is.Error != "" || !is.Live {
		t.Errorf("after the call: %+v", is)
	}
	if s := status(); s.GetCall() != 0 || s.GetDelivered() {
		t.Errorf("the call that is done: %v", s)
	}

	// A call that a worker parks, and one that nothing receives.
	parked := &coppicev1.Parked{Subject: call, Error: strings.Repeat("no bucket ", 100), Attempts: 5, Time: 1}
	data, err := proto.Marshal(parked)
	must.Succeed(t, err)
	if _, err := testkit.Conn(t, server, bus.RoleFinalizer).RequestWithContext(ctx, bus.ParkedSubject(realm, call, 0), data); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.GetState() != coppicev1.CallState_CALL_STATE_PARKED || s.GetParked() != 1 || s.GetAttempts() != 5 || len(s.GetLastError()) != maxError {
		t.Errorf("a parked call: %v", s)
	}

	end()
	ended.Wait()
	time.Set(LiveFor + 1_000_000_000)
	if is := becomes(coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT); is.Live || is.Silent.IsZero() || !is.Answered {
		t.Errorf("a minute after the worker has ended: %+v", is)
	}
	call = bus.Finalize{Realm: realm, Plural: "pods", UID: "other-uid", Finalizer: bus.ExampleFinalizer}.Subject()
	saidIs(coppicev1.CallState_CALL_STATE_SILENT, "consumer silent since T")
}

type (
	timeDuration = time.Duration
	timeTime     = time.Time
)

// The memory of an observer is bounded, whatever is published to it, and it recovers.
func TestObserverIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	o := New(nil, realm, func() time.Time { return now })
	long := strings.Repeat("x", 100_000)
	send := func(durable string, sequence int, body string) {
		o.receive(&nats.Msg{
			Subject: fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.1.1", bus.FinalizeStream(realm), durable, sequence), Data: []byte(body),
			Header: nats.Header{bus.HeaderError: {long}},
		})
	}
	for i := range 3 * maxCallsEach {
		send(durable, i+1, `-NAK {"delay": 1000}`)
	}
	if o.calls != maxCallsEach || len(o.seen[durable].calls) != maxCallsEach {
		t.Errorf("%d calls are remembered, %d of the consumer; at most %d", o.calls, len(o.seen[durable].calls), maxCallsEach)
	}
	switch c := o.Call(durable, 1); {
	case len(c.Error) != maxError || c.Attempts != 1:
		t.Errorf("an error of %d bytes is remembered, attempt %d", len(c.Error), c.Attempts)
	case unsafe.StringData(c.Error) == unsafe.StringData(long):
		t.Errorf("the error keeps the %d bytes of its header in memory", len(long))
	}
	for i := range 2 * maxCalls {
		send(fmt.Sprint("other-", i%100), i+1, `-NAK {"delay": 1000}`)
	}
	if o.calls != maxCalls {
		t.Errorf("%d calls are remembered; at most %d", o.calls, maxCalls)
	}
	for i := range 3 * maxConsumers {
		send(fmt.Sprint("f-", i), 1, "+WPI")
	}
	if len(o.seen) > maxConsumers {
		t.Errorf("%d consumers are remembered, at most %d", len(o.seen), maxConsumers)
	}
	for _, odd := range []string{"$JS.ACK", "$JS.ACK.s.c.x.y.1.1.1", "$JS.ACK.s.c.1.1", "$JS.ACK.s.c.1.18446744073709551616.1.1.1"} {
		o.receive(&nats.Msg{Subject: odd, Data: []byte("+WPI")})
	}
	// Calls of which nothing is heard any more give their places up.
	now = now.Add(2 * keptCall)
	send(durable, 1_000_000, "+WPI")
	if o.calls != 1 {
		t.Errorf("%d calls are remembered, of which nothing was heard for long", o.calls-1)
	}
	send(durable, 1_000_000, "+ACK")
	if o.calls != 0 || o.Call(durable, 1_000_000).Attempts != 0 {
		t.Errorf("%d calls are remembered, although the last was acknowledged", o.calls)
	}
}

// A program that reports calls which do not exist, or asks for delays without end, takes no places of other consumers.
func TestObserverSharesPlaces(t *testing.T) {
	t.Parallel()
	o := New(nil, realm, time.Now)
	for i := range maxCalls {
		o.receive(&nats.Msg{
			Subject: fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.1.1", bus.FinalizeStream(realm), durable, i+1), Data: []byte(`-NAK {"delay": 9000000000000000000}`),
		})
	}
	other := bus.FinalizerDurable("example.com/other")
	o.receive(&nats.Msg{
		Subject: fmt.Sprintf("$JS.ACK.%s.%s.1.7.1.1.1", bus.FinalizeStream(realm), other), Data: []byte("-NAK"), Header: nats.Header{bus.HeaderError: {"denied"}},
	})
	if c := o.Call(other, 7); c.Error != "denied" {
		t.Errorf("of the failed call of another consumer is remembered %+v", c)
	}
}

// Consumers of which nothing is heard any more give their places up, however few calls there are.
func TestObserverForgetsConsumers(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	o := New(nil, realm, func() time.Time { return now })
	for i := range 2 * maxConsumers {
		o.receive(&nats.Msg{Subject: fmt.Sprintf("$JS.ACK.%s.f-%d.1.1.1.1.1", bus.FinalizeStream(realm), i), Data: []byte("+WPI")})
	}
	now = now.Add(2 * keptCall)
	o.receive(&nats.Msg{
		Subject: fmt.Sprintf("$JS.ACK.%s.%s.1.7.1.1.1", bus.FinalizeStream(realm), durable), Data: []byte("-NAK"), Header: nats.Header{bus.HeaderError: {"denied"}},
	})
	if c := o.Call(durable, 7); c.Error != "denied" {
		t.Errorf("of a failed call after %d other consumers is remembered %+v", maxConsumers, c)
	}
}

// An acknowledgement can be late, or lost: what the NATS server counts as done is done.
func TestDoneCallsAreNotShown(t *testing.T) {
	t.Parallel()
	o := New(nil, realm, time.Now)
	for sequence := 3; sequence <= 4; sequence++ {
		o.receive(&nats.Msg{
			Subject: fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.1.1", bus.FinalizeStream(realm), durable, sequence), Data: []byte("-NAK 1m"),
			Header: nats.Header{bus.HeaderError: {fmt.Sprint("error of ", sequence)}},
		})
	}
	info := func(done uint64, pending int) *jetstream.ConsumerInfo {
		return &jetstream.ConsumerInfo{NumWaiting: 1, NumAckPending: pending, AckFloor: jetstream.SequenceInfo{Stream: done}, Delivered: jetstream.SequenceInfo{Stream: 4}}
	}
	if is := o.State(durable, info(3, 1)); is.Status != coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING || is.Error != "error of 4" {
		t.Errorf("with one call that is not done: %+v", is)
	}
	if is := o.State(durable, info(4, 0)); is.Status != coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE || is.Error != "" || !is.Retry.IsZero() {
		t.Errorf("with all calls done: %+v", is)
	}
}

// A call that a program hands back when it stops has not failed, and one that fails after that has failed once.
func TestReturnedCall(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := New(nil, realm, func() time.Time { return now })
	attempt := 0
	send := func(body string, h nats.Header) *coppicev1.CallStatus {
		now = now.Add(time.Second)
		o.receive(&nats.Msg{Subject: fmt.Sprintf("$JS.ACK.%s.%s.%d.3.1.1.1", bus.FinalizeStream(realm), durable, attempt), Data: []byte(body), Header: h})
		is := &coppicev1.CallStatus{Call: 3, Delivered: true}
		o.setCall(is, durable)
		return is
	}
	for _, step := range []struct {
		body   string
		header nats.Header
		want   string
	}{
		{"+WPI", nil, "working since T"},
		{"-NAK", nats.Header{bus.HeaderReturned: {"yes"}}, "waiting in the queue"},
		{"+WPI", nil, "working since T"},
		{"-NAK", nats.Header{bus.HeaderReturned: {""}}, "waiting in the queue"}, // any value
		{"+WPI", nil, "working since T"},
		{"-NAK 1m", nil, "failed 1 time: the attempt failed, and the program gave no reason; next retry at T"},
		{"+WPI", nil, "working since T; failed 1 time: the attempt failed, and the program gave no reason"},
		{"-NAK", nats.Header{bus.HeaderReturned: {"yes"}}, "waiting in the queue; failed 1 time: the attempt failed, and the program gave no reason"},
		{"+WPI", nil, "working since T; failed 1 time: the attempt failed, and the program gave no reason"},
		{"-NAK", nats.Header{bus.HeaderError: {"denied"}}, "failed 2 times: denied"},
	} {
		if step.body == "+WPI" {
			attempt++
		}
		if got := callstate.Words(send(step.body, step.header), func(time.Time) string { return "T" }); got != step.want {
			t.Errorf("after attempt %d, %s: %q, want %q", attempt, step.body, got, step.want)
		}
	}
}

// What a program says about the time at which it began is believed within reason.
func TestOddSince(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := New(nil, realm, func() time.Time { return now })
	for i, q := range []struct {
		since string
		want  time.Time
	}{
		{fmt.Sprint(now.Add(-time.Hour).UnixMilli()), time.UnixMilli(now.Add(-time.Hour).UnixMilli())},
		{"-62135596800000", now}, {"-9000000000000000000", now}, {"9000000000000000000", now}, {"0", now}, {"x", now},
	} {
		o.receive(&nats.Msg{
			Subject: fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.1.1", bus.FinalizeStream(realm), durable, i+1), Data: []byte("+WPI"), Header: nats.Header{bus.HeaderSince: {q.since}},
		})
		if got := o.Call(durable, uint64(i+1)).Since; !got.Equal(q.want) {
			t.Errorf("%s: since %v, want %v", q.since, got, q.want)
		}
	}
}

// A call that a program has left behind when it died is not worked on, and has not failed.
func TestCallLeftBehind(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := New(nil, realm, func() time.Time { return now })
	words := func() string {
		is := &coppicev1.CallStatus{Call: 3, Delivered: true}
		o.setCall(is, durable)
		return callstate.Words(is, func(time.Time) string { return "T" })
	}
	if got := words(); got != "working" {
		t.Errorf("delivered a moment ago: %q", got)
	}
	for attempt, want := range []string{"working since T", "working since T"} {
		o.receive(&nats.Msg{Subject: fmt.Sprintf("$JS.ACK.%s.%s.%d.3.1.1.1", bus.FinalizeStream(realm), durable, attempt+1), Data: []byte("+WPI")})
		if got := words(); got != want {
			t.Errorf("attempt %d: %q, want %q", attempt+1, got, want)
		}
		now = now.Add(bus.CallAckWait)
		if got := words(); got != "waiting in the queue" {
			t.Errorf("after attempt %d was left behind: %q", attempt+1, got)
		}
	}
}

// What is known of all calls of a consumer stands for a call that was not read.
func TestAnyCall(t *testing.T) {
	t.Parallel()
	for want, is := range map[string]State{
		"":                                       {Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING, Live: true},
		"calls fail: denied; next retry at T":    {Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING, Live: true, Error: "denied", Retry: time.Unix(1, 0)},
		"consumer silent; failed 1 time: denied": {Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT, Error: "denied"},
	} {
		if got := callstate.Words(is.AnyCall(), func(time.Time) string { return "T" }); got != want {
			t.Errorf("%+v: %q, want %q", is, got, want)
		}
	}
}

// A program that waits for calls is live also at the moment between two pull requests.
func TestLiveBetweenPulls(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := New(nil, realm, func() time.Time { return now })
	for _, step := range []struct {
		waiting int
		after   time.Duration
		live    bool
	}{{0, 0, false}, {1, 0, true}, {0, betweenPulls - 1, true}, {0, 1, false}, {0, 0, false}, {1, 0, true}} {
		now = now.Add(step.after)
		if is := o.State(durable, &jetstream.ConsumerInfo{NumWaiting: step.waiting}); is.Live != step.live {
			t.Errorf("%+v: live is %t", step, is.Live)
		}
	}
	o.State(durable, nil)
	if len(o.pulled) != 0 {
		t.Error("a consumer that does not exist is remembered")
	}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]time.Duration{
		"": 0, "  ": 0, ` {"delay": 5000000000}`: 5 * time.Second, " 1m": time.Minute, " {": 0, " -5s": 0, ` {"delay": -1}`: 0, " soon": 0,
	} {
		if got := delayOf([]byte(argument)); got != want {
			t.Errorf("-NAK%s: %v, want %v", argument, got, want)
		}
	}
}
