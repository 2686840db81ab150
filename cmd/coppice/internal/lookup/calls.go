package lookup

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/callstate"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Call is a call for an object that is being deleted.
type Call struct {
	// Status is the state of this call; nil if it is not known.
	Status *client.CallStatus

	now time.Time
}

// maxNoteError is the maximum length of an error in a remark, in characters.
const maxNoteError = 80

// Note returns a remark about the state of the call to print behind the name of the finalizer or agent.
func (c Call) Note() string {
	s := proto.CloneOf(c.Status)
	if e := []rune(s.GetLastError()); len(e) > maxNoteError {
		s.LastError = string(e[:maxNoteError]) + "…"
	}
	if words := c.words(s); words != "" {
		return " (" + words + ")"
	}
	return ""
}

// Text describes the state of the call.
func (c Call) Text() string {
	by := ""
	if p := c.Status.GetProcess(); p != "" {
		by = "; program " + terminal.Printable(p)
	}
	words := c.words(c.Status)
	switch c.Status.GetState() {
	case coppicev1.CallState_CALL_STATE_UNSPECIFIED:
		return "unknown: the state of the call could not be read"
	case coppicev1.CallState_CALL_STATE_NO_CONSUMER:
		return words + ": no program asks for its calls"
	case coppicev1.CallState_CALL_STATE_PARKED:
		return words + "; see 'coppice parked'"
	}
	return words + by
}

func (c Call) words(s *client.CallStatus) string {
	return terminal.Printable(callstate.Words(s, func(t time.Time) string { return terminal.Clock(t, c.now) }))
}

// Limits of Read: the calls in one request, and in all.
const (
	callsInRequest = 100
	maxCalls       = 500
)

// Read reads the states of the calls that terminating objects wait for, for Call and BlockedBy: those of the first
// 10 finalizers of an object, and 500 in all. Of others, BlockedBy says what is known of all calls of a finalizer.
func (c *Consumers) Read(ctx context.Context, nodes ...*coppicev1.GraphNode) {
	clear(c.calls)
	c.read(ctx, nodes)
}

// read is Read without forgetting the calls that were read before.
func (c *Consumers) read(ctx context.Context, nodes []*coppicev1.GraphNode) {
	var wanted []*client.CallOf
	for _, n := range nodes {
		m := n.GetObject().GetMetadata()
		if m.GetDeletionTimestamp() == nil {
			continue
		}
		of := func(finalizer string) {
			wanted = append(wanted, &client.CallOf{Resource: n.GetResource(), Uid: m.GetUid(), Finalizer: finalizer})
		}
		for i, f := range m.GetFinalizers() {
			if i < terminal.Listed && !lifecycle.IsBuiltinFinalizer(f) {
				of(f)
			}
		}
		if m.GetDeletionGracePeriodSeconds() > 0 {
			of("")
		}
	}
	for part := range slices.Chunk(wanted[:min(len(wanted), maxCalls-len(c.calls))], callsInRequest) {
		if c.denied {
			return
		}
		ok, err := c.r.Optional(ctx, AboutConsumers, func(ctx context.Context) error {
			reply, err := c.r.client.Operations().Consumers(ctx, client.IncludeCalls(part))
			c.denied = errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrMethodNotAllowed)
			if err == nil && len(reply.GetCalls()) == len(part) {
				for i, of := range part {
					c.calls[callKey(of.GetUid(), of.GetFinalizer())] = Call{Status: reply.GetCalls()[i], now: c.r.now()}
				}
			}
			return err
		})
		if !ok {
			if err != nil && ctx.Err() == nil {
				c.r.Missing(AboutConsumers, err)
			}
			return
		}
	}
}

func callKey(uid, finalizer string) string { return uid + " " + finalizer }

// Call returns the call of an external finalizer of an object, or of the agent that has to end it if finalizer is
// empty, as Read has read it.
func (c *Consumers) Call(n *coppicev1.GraphNode, finalizer string) Call {
	return c.calls[callKey(n.GetObject().GetMetadata().GetUid(), finalizer)]
}

// note returns a remark about a call that Read has read, or about its consumer.
func (c *Consumers) note(n *coppicev1.GraphNode, finalizer string, consumer func() Consumer) string {
	if call := c.Call(n, finalizer); call.Status != nil {
		return call.Note()
	}
	return consumer().Note()
}
