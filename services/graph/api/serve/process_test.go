package serve

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
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
	b := serveWithin(t, shared, func(s *Server, q *Request) {
		s.Background(q, func(context.Context) (proto.Message, *lifecycle.Error) {
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
	b := serveWithin(t, shared, func(s *Server, q *Request) {
		s.Within(s.Pages, q, func(context.Context) (proto.Message, *lifecycle.Error) { return &coppicev1.ListReply{}, nil })
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
