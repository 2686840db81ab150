package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
)

// Limits of what is under way at once, in all and for one actor. Beyond maxReads
// requests are refused as retryable; of those that are under way, maxPages at once
// hold objects, and maxPlans compute a plan: the others wait for their turn.
const (
	maxReads, actorReads = 128, 64
	maxPages, actorPages = 16, 8
	maxPlans, actorPlans = 2, 1

	// placeTime is how long a read waits for its turn: not so long that its client,
	// which waits 5 s by default, sends it again meanwhile.
	placeTime = 3 * time.Second
	// readTime is how long a read may take in all.
	readTime = 30 * time.Second
	// maxReadRequest is how large the request of a read is at the most, in bytes.
	maxReadRequest = 4 << 20
)

// Limits of what an endpoint has received and not handled yet. What comes beyond
// them is dropped by the NATS client, and repeated by the SDK.
const (
	pendingMessages   = 1 << 15
	pendingBytes      = 128 << 20 // of verbs whose requests carry objects
	pendingSmallBytes = 16 << 20  // of the others
)

// pendingOf is the limit in bytes of an endpoint.
func pendingOf(name string) int {
	switch name {
	case bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbApply, bus.VerbPatch, bus.VerbImport,
		"internal-" + bus.OpPropose, "internal-" + bus.OpOrphan, "internal-" + bus.OpFinish, "internal-" + bus.OpDrain:
		return pendingBytes
	}
	return pendingSmallBytes
}

// Limits of a label selector: each object of a list is held against all of it.
const (
	maxSelector     = 64 << 10 // bytes
	maxRequirements = 256
)

// labelsOf reads a label selector.
func labelsOf(text string) (selector.Selector, *lifecycle.Error) {
	if len(text) > maxSelector {
		return nil, &lifecycle.Error{Reason: lifecycle.ReasonRequestEntityTooLarge, Message: fmt.Sprintf(
			"label_selector: %d bytes; at most %d: select by fewer values, or in several requests", len(text), maxSelector)}
	}
	labels, err := selector.Parse(text)
	if err != nil {
		return nil, lifecycle.ErrBadRequest("label_selector: %v", err)
	}
	if len(labels) > maxRequirements {
		return nil, &lifecycle.Error{Reason: lifecycle.ReasonRequestEntityTooLarge, Message: fmt.Sprintf(
			"label_selector: %d requirements; at most %d", len(labels), maxRequirements)}
	}
	return labels, nil
}

// user is on whose account a request is counted: the actor, or the operation of an
// internal request, of which one role alone sends each.
func (q *request) user() string {
	t := strings.SplitN(q.Subject(), ".", 5)
	if len(t) < 4 {
		return ""
	}
	return t[3]
}

// background lets a read or another long request run alongside the others.
func (s *server) background(q *request, answer func(ctx context.Context) (proto.Message, *lifecycle.Error)) {
	s.within(nil, q, answer)
}

// within is background for a request that also needs a place of a limiter, for
// which it waits; nil for none.
func (s *server) within(places *admission.Limiter, q *request, answer func(ctx context.Context) (proto.Message, *lifecycle.Error)) {
	if n := len(q.Data()); n > maxReadRequest {
		q.answer(nil, &lifecycle.Error{Reason: lifecycle.ReasonRequestEntityTooLarge, Message: fmt.Sprintf("the request has %d bytes; this one may have %d: ask for less at once", n, maxReadRequest)})
		return
	}
	user := q.user()
	if !s.reads.Try(user) {
		q.answer(nil, s.overloaded(s.ctx))
		return
	}
	if !s.start(func() {
		defer s.reads.Release(user)
		ctx, cancel := context.WithTimeout(s.ctx, readTime)
		defer cancel()
		waiting, cancelWaiting := context.WithTimeout(ctx, placeTime)
		defer cancelWaiting()
		if err := places.Acquire(waiting, user); err != nil {
			q.answer(nil, s.overloaded(ctx))
			return
		}
		defer places.Release(user)
		q.answer(answer(ctx))
	}) {
		s.reads.Release(user)
		q.answer(nil, s.stopping())
	}
}

// overloaded is the refusal of a read for which there is no place.
func (s *server) overloaded(ctx context.Context) *lifecycle.Error {
	if ctx.Err() != nil {
		return s.stopping()
	}
	return &lifecycle.Error{
		Reason: lifecycle.ReasonTooManyRequests, RetryAfter: 50 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: too many reads are under way; try again later", s.Realm),
	}
}
