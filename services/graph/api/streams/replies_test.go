package streams_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// takeAll has other realms take all places that are free, and returns what releases them.
func takeAll(l *admission.Limiter) (release func()) {
	var taken []string
	for i, empty := 0, false; !empty; i++ {
		realm := fmt.Sprint("other-", i)
		empty = true
		for l.Try(realm) == nil {
			taken, empty = append(taken, realm), false
		}
	}
	return func() {
		for _, realm := range taken {
			l.Release(realm)
		}
	}
}

// Open replies beyond what a process may have are refused as retryable.
func TestProcessBoundsReplies(t *testing.T) {
	t.Parallel()
	keys := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm)
	process := serve.NewProcess()
	log := &madeLog{keys: keys, last: 3, message: func(uint64) []byte { return make([]byte, 100) }}
	r := serveReadersWithin(t, process, log, newVerifier().verify)
	for _, c := range []struct {
		places  *admission.Limiter
		verb    string
		request proto.Message
		into    proto.Message
		says    string
	}{
		{process.Replicas().LogReaders, bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1}, &coppicev1.LogBatch{}, "readers of the log open"},
		{process.Replicas().Verifiers, bus.VerbVerify, &coppicev1.VerifyRequest{}, &coppicev1.VerifyBatch{}, "verifications open"},
	} {
		others := takeAll(c.places)
		var refusal *lifecycle.Error
		if _, _, err := r.ask(c.verb, c.request, false).next(c.into); !errors.As(err, &refusal) || refusal.Reason != api.ErrTooManyRequests ||
			!strings.Contains(refusal.Message, "this process has") || !strings.Contains(refusal.Message, c.says) {
			t.Errorf("%s: %v, want a refusal that names the process", c.verb, err)
		}
		others()
		p := r.ask(c.verb, c.request, false)
		if _, _, err := p.next(c.into); err != nil {
			t.Errorf("%s is refused although there are places: %v", c.verb, err)
		}
		must.Succeed(t, p.sub.Unsubscribe())
	}
}

// A reader of the log that waits for a place of the process gets heartbeats, and then the log.
func TestProcessBoundsChunks(t *testing.T) {
	t.Parallel()
	keys := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm)
	process := serve.NewProcess()
	log := &madeLog{keys: keys, last: 3, message: func(uint64) []byte { return make([]byte, 100) }}
	r := serveReadersWithin(t, process, log, nil)
	others := takeAll(process.Replicas().LogChunks)
	p := r.ask(bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1}, false)
	for range 5 {
		var b coppicev1.LogBatch
		if _, more, err := p.next(&b); !more || err != nil || len(b.GetEntries()) > 0 {
			t.Fatalf("without a place: %v, %t, %v", &b, more, err)
		}
	}
	others()
	entries := 0
	for more := true; more; {
		var b coppicev1.LogBatch
		var err error
		if _, more, err = p.next(&b); err != nil {
			t.Fatal(err)
		}
		entries += len(b.GetEntries())
	}
	if entries != 3 {
		t.Errorf("%d entries, want 3", entries)
	}
	testkit.WaitFor(t, r.ctx, "all places to be released", func() bool { return process.Used() == 0 })
}
