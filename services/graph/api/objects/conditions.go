package objects

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/callstate"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/consumers"
)

// ConditionFinalizers is the type of the condition that says whether the programs that an object
// waits for do their part.
const ConditionFinalizers = "FinalizersAnswered"

// conditionTime is the maximum time in which NATS says which consumers there are.
const conditionTime = 2 * time.Second

// maxConditionCalls is the number of calls of which a reply has the state in its conditions. For further ones, a
// condition says what is known of all calls of the finalizer.
const maxConditionCalls = 32

// maxConditionNames is the number of finalizers that the message of a condition names.
const maxConditionNames = 8

// conditions sets the conditions of requested objects.
func (s *Replica) conditions(ctx context.Context, reply *coppicev1.ResolveObjectsReply) {
	if s.c.Consumers == nil { // a recorded log
		return
	}
	calls := maxConditionCalls
	limited, cancel := context.WithTimeout(ctx, conditionTime)
	defer cancel()
	for _, g := range reply.GetNodes() {
		m := g.GetObject().GetMetadata()
		if !g.GetRequested() || m.GetDeletionTimestamp() == nil || !slices.ContainsFunc(m.GetFinalizers(), external) {
			continue
		}
		list, err := s.c.Consumers.List(limited)
		if err != nil {
			return // there is no condition; the next reply has it again
		}
		c := &coppicev1.Condition{Type: ConditionFinalizers, Status: "True", Reason: "Answered"}
		names := slices.DeleteFunc(slices.Clone(m.GetFinalizers()), lifecycle.IsBuiltinFinalizer)
		for i, f := range names {
			subject, durable := consumers.NamesOf(s.Realm, &coppicev1.CallOf{Resource: g.GetResource(), Uid: m.GetUid(), Finalizer: f})
			of := s.c.Consumers.State(durable, list[durable])
			is := of.AnyCall()
			if calls > 0 {
				calls--
				if is, err = s.c.Consumers.Status(limited, subject, &of); err != nil {
					return
				}
			}
			extend(c, f, is, i < maxConditionNames)
		}
		if more := len(names) - maxConditionNames; more > 0 {
			c.Message += fmt.Sprintf("; and %d more finalizers", more)
		}
		g.Conditions = append(g.Conditions, c)
	}
}

func external(finalizer string) bool { return !lifecycle.IsBuiltinFinalizer(finalizer) }

// extend adds what is known of the call of one finalizer to a condition, and to its message if named is set.
// The first one that is not answered decides the reason.
func extend(c *coppicev1.Condition, finalizer string, is *coppicev1.CallStatus, named bool) {
	reason, since := "Answered", is.GetWorkingSince()
	switch {
	case is.GetState() == coppicev1.CallState_CALL_STATE_NO_CONSUMER:
		reason, since = "NoConsumer", is.GetSilentSince()
	case is.GetState() == coppicev1.CallState_CALL_STATE_SILENT:
		reason, since = "ConsumerSilent", is.GetSilentSince()
	case is.GetState() == coppicev1.CallState_CALL_STATE_PARKED:
		reason, since = "CallParked", is.GetLastErrorTime()
	case is.GetFailures() > 0:
		reason, since = "CallsFail", is.GetLastErrorTime()
	}
	if c.GetReason() == "Answered" {
		c.Reason, c.Since = reason, since
		if reason != "Answered" {
			c.Status = "False"
		}
	}
	if !named {
		return
	}
	if c.GetMessage() != "" {
		c.Message += "; "
	}
	c.Message += finalizer
	if words := callstate.Words(is, func(t time.Time) string { return t.UTC().Format(time.RFC3339) }); words != "" {
		c.Message += ": " + words
	}
}
