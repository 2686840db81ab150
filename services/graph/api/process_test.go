package api

import (
	"context"
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
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
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

// Reads beyond what a process takes are refused as retryable, also if the realm has few itself.
// Its own limit is named if that is the lower one.
func TestProcessBoundsReads(t *testing.T) {
	t.Parallel()
	shared := newShares()
	release := make(chan struct{})
	b := serveWithin(t, shared, func(s *server, q *request) {
		s.background(q, func(context.Context) (proto.Message, *lifecycle.Error) {
			<-release
			return &coppicev1.ListReply{}, nil
		})
	})
	others := takeAll(shared.reads)
	refused(t, b.request("", nil), bus.ContentProtobuf, "429", api.ErrTooManyRequests, "this process: too many reads")
	others()
	close(release)
	if m := b.request("", nil); m.Header.Get(bus.HeaderReason) != "" {
		t.Errorf("refused although there are places: %v", m.Header)
	}
	testkit.WaitFor(t, b.ctx, "all places to be released", func() bool {
		n, _ := shared.reads.Used("")
		return n == 0
	})
	full := b.server.reads
	var users []string
	for i := range maxReads {
		users = append(users, fmt.Sprint(i))
		if err := full.Try(users[i]); err != nil {
			t.Fatalf("a realm that is alone gets %d places of the process, want %d", i, maxReads)
		}
	}
	refused(t, b.request("", nil), bus.ContentProtobuf, "429", api.ErrTooManyRequests, "realm default: too many reads")
	for _, u := range users {
		full.Release(u)
	}
}

// A read that needs objects waits for a place of the process, and is refused as retryable before
// the client gives up.
func TestProcessBoundsPages(t *testing.T) {
	t.Parallel()
	shared := newShares()
	b := serveWithin(t, shared, func(s *server, q *request) {
		s.within(s.pages, q, func(context.Context) (proto.Message, *lifecycle.Error) { return &coppicev1.ListReply{}, nil })
	})
	others := takeAll(shared.pages)
	refused(t, b.request("", nil), bus.ContentProtobuf, "429", api.ErrTooManyRequests, "this process: too many reads")
	others()
	if m := b.request("", nil); m.Header.Get(bus.HeaderReason) != "" {
		t.Errorf("refused although there are places: %v", m.Header)
	}
	testkit.WaitFor(t, b.ctx, "all places to be released", func() bool {
		n, _ := shared.pages.Used("")
		return n == 0
	})
}

// Open replies beyond what a process may have are refused as retryable.
func TestProcessBoundsReplies(t *testing.T) {
	t.Parallel()
	keys := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm)
	process := NewProcess()
	log := &madeLog{keys: keys, last: 3, message: func(uint64) []byte { return make([]byte, 100) }}
	r := serveReadersWithin(t, process, log, newVerifier().verify)
	for _, c := range []struct {
		places  *admission.Limiter
		verb    string
		request proto.Message
		into    proto.Message
		says    string
	}{
		{process.replicas.logReaders, bus.VerbReadLog, &coppicev1.ReadLogRequest{FromSequence: 1}, &coppicev1.LogBatch{}, "readers of the log open"},
		{process.replicas.verifiers, bus.VerbVerify, &coppicev1.VerifyRequest{}, &coppicev1.VerifyBatch{}, "verifications open"},
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
		if err := p.sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}

// A reader of the log that waits for a place of the process gets heartbeats, and then the log.
func TestProcessBoundsChunks(t *testing.T) {
	t.Parallel()
	keys := eventlog.NewKeys(testkit.Secrets(), bus.DefaultRealm)
	process := NewProcess()
	log := &madeLog{keys: keys, last: 3, message: func(uint64) []byte { return make([]byte, 100) }}
	r := serveReadersWithin(t, process, log, nil)
	others := takeAll(process.replicas.logChunks)
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
