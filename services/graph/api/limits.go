package api

import (
	"context"
	"fmt"
	"strings"
	"time"

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

	// placeTime is the time for which a read waits for a place. It is shorter than the
	// default timeout of clients, 5 s, so that they do not repeat the request meanwhile.
	placeTime = 3 * time.Second
	// readTime is the maximum duration of a read, with the wait.
	readTime = 30 * time.Second
	// maxReadRequest is the maximum size of a read's request in bytes.
	maxReadRequest = 4 << 20
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
func (q *request) user() string {
	t := strings.SplitN(q.Subject(), ".", 5)
	if len(t) < 4 {
		return ""
	}
	return t[3]
}

// background runs a read or another long request in a goroutine of its own, and refuses it
// if too many run.
func (s *server) background(q *request, answer func(ctx context.Context) (proto.Message, *lifecycle.Error)) {
	s.within(nil, q, answer)
}

// within is background for a request that also waits for a place of a limiter; nil for
// none.
func (s *server) within(places *admission.Limiter, q *request, answer func(ctx context.Context) (proto.Message, *lifecycle.Error)) {
	s.occupying(places, q, func(ctx context.Context) { q.answer(answer(ctx)) })
}

// occupying is within for a function that answers itself.
func (s *server) occupying(places *admission.Limiter, q *request, handle func(ctx context.Context)) {
	if n := len(q.Data()); n > maxReadRequest {
		q.answer(nil, &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf("the request has %d bytes; this one may have %d: ask for less at once", n, maxReadRequest)})
		return
	}
	user := q.user()
	if err := s.reads.Try(user); err != nil {
		q.answer(nil, s.overloaded(s.ctx, err))
		return
	}
	if !s.start(func() {
		defer s.reads.Release(user)
		ctx, cancel := context.WithTimeout(s.ctx, readTime)
		defer cancel()
		waiting, cancelWaiting := context.WithTimeout(ctx, placeTime)
		defer cancelWaiting()
		if err := places.Acquire(waiting, user); err != nil {
			q.answer(nil, s.overloaded(ctx, err))
			return
		}
		defer places.Release(user)
		handle(ctx)
	}) {
		s.reads.Release(user)
		q.answer(nil, s.stopping())
	}
}
