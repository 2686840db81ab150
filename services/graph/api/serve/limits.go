package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Limits of concurrent requests to a realm, in all and for one actor; Process bounds those of all
// realms. Requests beyond maxReads are refused as retryable. Of the running requests at most maxPages have objects in memory,
// and at most maxPlans compute a plan; the others wait.
const (
	maxReads, actorReads = 128, 64
	maxPages, actorPages = 16, 8
	maxPlans, actorPlans = 2, 1

	// PlaceTime is the time for which a read waits for a place. It is shorter than the
	// default timeout of clients, 5 s, so that they do not repeat the request meanwhile.
	PlaceTime = 3 * time.Second
	// ReadTime is the maximum duration of a read, with the wait.
	ReadTime = 30 * time.Second
	// maxReadRequest is the maximum size of a read's request in bytes.
	maxReadRequest = 4 << 20
	// MaxResolve is the maximum number of objects that one request resolves.
	MaxResolve = 10000
)

// Limits of the replies of a realm that are streams and open at the same time, in all and for one actor.
const (
	// Readers of the log use memory only while they read and send a chunk, and MaxLogReading do so at the same time.
	MaxLogReaders   = 256
	ActorLogReaders = 16
	MaxLogReading   = 8

	MaxWarningReaders   = 256
	ActorWarningReaders = 16

	// Clients that wait for a verification share one run.
	MaxVerifiers   = 64
	ActorVerifiers = 16
)

// Limits of the requests that an endpoint has received and not handled yet. The NATS client
// drops further requests, and the SDK repeats them.
const (
	pendingMessages   = 1 << 15
	pendingBytes      = 128 << 20 // of verbs whose requests carry objects
	pendingSmallBytes = 16 << 20  // of the others
)

// pendingOf returns the limit of an endpoint in bytes.
func pendingOf(name string) int {
	switch name {
	case bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbApply, bus.VerbApplyAcross, bus.VerbPatch, bus.VerbImport, bus.VerbRestore,
		"internal-" + bus.OpPropose, "internal-" + bus.OpOrphan, "internal-" + bus.OpFinish, "internal-" + bus.OpDrain:
		return pendingBytes
	}
	return pendingSmallBytes
}

// user returns the name under which a request counts for limits: the actor or, for an
// internal request, the operation, because each operation is sent by one role only.
func (q *Request) user() string {
	t := strings.SplitN(q.Subject(), ".", 5)
	if len(t) < 4 {
		return ""
	}
	return t[3]
}

// Background runs a read or another long request in a goroutine of its own, and refuses it
// if too many run.
func (s *Server) Background(q *Request, answer func(ctx context.Context) (proto.Message, *lifecycle.Error)) {
	s.Within(nil, q, answer)
}

// Within is Background for a request that also waits for a place of a limiter; nil for
// none.
func (s *Server) Within(places *admission.Limiter, q *Request, answer func(ctx context.Context) (proto.Message, *lifecycle.Error)) {
	s.Occupying(places, q, func(ctx context.Context) { q.Answer(answer(ctx)) })
}

// Occupying is Within for a function that answers itself.
func (s *Server) Occupying(places *admission.Limiter, q *Request, handle func(ctx context.Context)) {
	if n := len(q.Data()); n > maxReadRequest {
		q.Answer(nil, &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf("the request has %d bytes; this one may have %d: ask for less at once", n, maxReadRequest)})
		return
	}
	user := q.user()
	if err := s.reads.Try(user); err != nil {
		q.Answer(nil, s.ErrOverloaded(s.Context, err))
		return
	}
	if !s.Start(func() {
		defer s.reads.Release(user)
		ctx, cancel := context.WithTimeout(trace.ContextWithSpan(s.Context, q.Span), ReadTime)
		defer cancel()
		waiting, cancelWaiting := context.WithTimeout(ctx, PlaceTime)
		defer cancelWaiting()
		if err := places.Acquire(waiting, user); err != nil {
			q.Answer(nil, s.ErrOverloaded(ctx, err))
			return
		}
		defer places.Release(user)
		handle(ctx)
	}) {
		s.reads.Release(user)
		q.Answer(nil, s.ErrStopping())
	}
}
