package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func apiError(code int, errorCode jetstream.ErrorCode) error {
	return fmt.Errorf("nats: %w", &jetstream.APIError{Code: code, ErrorCode: errorCode, Description: "as the server says it"})
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bus.Outcome
		wait bool // IsNotReady
	}{
		{nil, bus.Stored, false},
		{apiError(400, 10071), bus.Conflict, false}, // wrong last sequence: 7
		{apiError(400, 10164), bus.Conflict, false}, // wrong last sequence, of what is still being proposed
		{apiError(503, 10163), bus.Retry, true},     // expected last sequence not available yet
		{apiError(503, 10077), bus.Full, false},     // the store failed: a limit, or the disk
		{apiError(503, 10008), bus.Retry, true},     // no leader
		{apiError(503, 10023), bus.Retry, true},     // insufficient resources
		{apiError(400, 10002), bus.Retry, true},     // limits of the account
		{apiError(400, 10005), bus.Retry, true},     // no suitable peers
		{apiError(500, 10047), bus.Retry, true},     // insufficient storage
		{apiError(500, 10028), bus.Retry, true},     // insufficient memory
		{apiError(500, 10118), bus.Retry, true},     // stream is offline
		{apiError(500, 1), bus.Retry, true},         // whatever a server says of itself
		{apiError(400, 10060), bus.Refused, false},  // expected stream does not match
		{apiError(400, 10109), bus.Refused, false},  // sealed
		{apiError(400, 10054), bus.Refused, false},  // message too large for the stream
		{nats.ErrMaxPayload, bus.Refused, false},
		{nats.ErrPermissionViolation, bus.Refused, false},
		{nats.ErrAuthorization, bus.Refused, false},
		{nats.ErrReconnectBufExceeded, bus.Retry, true},
		{nats.ErrInvalidConnection, bus.Retry, false},
		{nats.ErrTimeout, bus.Ambiguous, true},
		{context.DeadlineExceeded, bus.Ambiguous, true},
		{context.Canceled, bus.Ambiguous, false},
		{nats.ErrNoResponders, bus.Ambiguous, true},
		{jetstream.ErrNoStreamResponse, bus.Ambiguous, true},
		{nats.ErrConnectionClosed, bus.Ambiguous, false},
		{nats.ErrDisconnected, bus.Ambiguous, true},
		{nats.ErrConnectionReconnecting, bus.Ambiguous, true},
		{errors.New("anything else"), bus.Ambiguous, false},
		{jetstream.ErrStreamNotFound, bus.Refused, true},
		{jetstream.ErrConsumerNotFound, bus.Refused, true},
		{jetstream.ErrJetStreamNotEnabled, bus.Retry, true},
		{jetstream.ErrBucketNotFound, bus.Ambiguous, true},
	} {
		if got := bus.Classify(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
		if got := bus.IsNotReady(c.err); got != c.wait {
			t.Errorf("%v is something to wait for: %t, want %t", c.err, got, c.wait)
		}
	}
}

// TestRealErrors provokes what a server that stands alone says.
func TestRealErrors(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	js := testkit.JetStream(t, server, bus.RoleGraph)
	realm := bus.DefaultRealm
	log, work := bus.LogSubject(realm), bus.WorkSubject(realm, bus.QueueDirty)
	if _, err := bus.EnsureLog(ctx, js, realm, 1); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, bus.EnsureStreams(ctx, js, realm, 1))
	publish := func(subject string, data []byte, opts ...jetstream.PublishOpt) error {
		ctx, cancel := context.WithTimeout(ctx, testkit.Timeout)
		defer cancel()
		_, err := js.Publish(ctx, subject, data, append(opts, jetstream.WithRetryAttempts(0))...)
		return err
	}
	check := func(what string, err error, want bus.Outcome, code jetstream.ErrorCode) {
		t.Helper()
		var api *jetstream.APIError
		if got := bus.Classify(err); got != want {
			t.Errorf("%s: %v is %s, want %s", what, err, got, want)
		}
		if code != 0 && (!errors.As(err, &api) || api.ErrorCode != code) {
			t.Errorf("%s: %v does not have code %d", what, err, code)
		}
	}
	check("stored", publish(log, nil, jetstream.WithExpectLastSequence(0)), bus.Stored, 0)
	check("another last sequence", publish(log, nil, jetstream.WithExpectLastSequence(0)), bus.Conflict, 10071)
	check("a sequence to come", publish(log, nil, jetstream.WithExpectLastSequence(7)), bus.Conflict, 10071)
	check("another stream", publish(log, nil, jetstream.WithExpectStream("other")), bus.Refused, 10060)
	check("too large", publish(log, make([]byte, 64<<20)), bus.Refused, 0)

	call := bus.Finalize{Realm: realm, Plural: "pods", UID: "u", Finalizer: bus.ExampleFinalizer}.Subject()
	check("the first call", publish(call, nil), bus.Stored, 0)
	check("the same call again", publish(call, nil), bus.Full, 10077)
	if err := publish(call, nil); !bus.SubjectTaken(err) {
		t.Errorf("the same call again: %v is not due to its subject", err)
	}

	full := bus.WorkConfigs(realm, 1)[0]
	full.MaxMsgs = 1
	if _, err := js.UpdateStream(ctx, full); err != nil {
		t.Fatal(err)
	}
	check("the last piece of work", publish(work, nil), bus.Stored, 0)
	check("one piece too many", publish(work, nil), bus.Full, 10077)
	if err := publish(work, nil); bus.SubjectTaken(err) {
		t.Errorf("one piece too many: %v is due to its subject", err)
	}

	must.Succeed(t, js.DeleteStream(ctx, full.Name))
	check("no stream", publish(work, nil), bus.Ambiguous, 0)
	_, err := js.Stream(ctx, full.Name)
	if !bus.IsNotReady(err) {
		t.Errorf("a missing stream is nothing to wait for: %v", err)
	}
	must.Succeed(t, server.Shutdown())
	testkit.WaitFor(t, ctx, "the connection to notice", func() bool { return !js.Conn().IsConnected() })
	if got := bus.Classify(publish(log, nil)); got != bus.Retry {
		t.Errorf("without a connection: %s", got)
	}
}
