package objects

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/kept"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// warnUnansweredAgain is the interval after which the reply to a write warns again of a finalizer
// whose calls no program has asked for.
const warnUnansweredAgain = 10 * time.Minute

// maxFinalizersKnown is the maximum number of finalizers that are remembered. Beyond it all are
// forgotten, and looked up again.
const maxFinalizersKnown = 4096

// knownFinalizers remembers which external finalizers need no lookup: a program has asked for their
// calls, or a reply has warned of them.
type knownFinalizers struct {
	now func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // the zero time is for ever
}

// addsFinalizers reports whether a verb is one by which a client adds finalizers.
func addsFinalizers(verb string) bool {
	switch verb {
	case bus.VerbCreate, bus.VerbUpdate, bus.VerbPatch, bus.VerbApply, bus.VerbApplyAcross:
		return true
	}
	return false
}

// due returns those finalizers of a result that are to be looked up.
func (a *knownFinalizers) due(r *coppicev1.Result) (names []string) {
	m := r.GetObject().GetMetadata()
	if r.GetError() != nil || m.GetDeletionTimestamp() != nil {
		return nil
	}
	left, _ := kept.Finalizers(r.GetWarnings()) // that the client has left out
	for _, f := range m.GetFinalizers() {
		if external(f) && !a.known(f) && !slices.Contains(left, f) && !slices.Contains(names, f) {
			names = append(names, f)
		}
	}
	return names
}

func (a *knownFinalizers) known(finalizer string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[finalizer]
	return ok && (until.IsZero() || a.now().Before(until))
}

// remember records the result of a lookup, and reports whether to warn.
func (a *knownFinalizers) remember(finalizer string, answered bool) (warn bool) {
	if a.known(finalizer) { // another reply has warned meanwhile
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.until) >= maxFinalizersKnown || a.until == nil {
		a.until = map[string]time.Time{}
	}
	a.until[finalizer] = time.Time{}
	if !answered {
		a.until[finalizer] = a.now().Add(warnUnansweredAgain)
	}
	return !answered
}

// warnUnanswered warns in the reply to a write of each external finalizer whose calls no program asks
// for, at the first object that has it. The warning is not in the log: it is about programs, and not
// about the object. If a finalizer has to be looked up, warnUnanswered returns true, and another
// goroutine passes a copy of the reply to send: repetitions of the command share the reply. Otherwise
// the caller sends the reply.
func (s *Writer) warnUnanswered(reply *coppicev1.ObjectsReply, send func(*coppicev1.ObjectsReply)) bool {
	if s.c.Consumers == nil || !slices.ContainsFunc(reply.GetResults(), func(r *coppicev1.Result) bool { return len(s.finalizers.due(r)) > 0 }) {
		return false
	}
	return s.Start(func() {
		reply := proto.CloneOf(reply)
		defer func() { send(reply) }()
		ctx, cancel := context.WithTimeout(s.Context, conditionTime)
		defer cancel()
		list, err := s.c.Consumers.List(ctx)
		if err != nil {
			return // the next reply warns
		}
		for _, r := range reply.GetResults() {
			for _, f := range s.finalizers.due(r) {
				durable := bus.FinalizerDurable(f)
				is := s.c.Consumers.State(durable, list[durable])
				if s.finalizers.remember(f, is.Answered) {
					r.Warnings = slices.Concat(r.GetWarnings(), []string{fmt.Sprintf(
						"metadata.finalizers: no program asks for the calls of %s: the object is not removed until one does and answers", f)})
				}
			}
		}
	})
}
