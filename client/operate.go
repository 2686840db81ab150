package client

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ConsumerState is the state of the consumer of an external finalizer, of an
// agent, or of Coppice's own services.
type ConsumerState = coppicev1.ConsumerState

// Consumers are the consumers of finalizers and agents, in this order; of all, and of
// Coppice's own services, if none is named. It also returns how many messages are
// queued, as work of Coppice's services and as calls. The actor needs the verb listconsumers.
func (c *Client) Consumers(ctx context.Context, finalizers []string, agents []Resource) (*coppicev1.ListConsumersReply, error) {
	q := &coppicev1.ListConsumersRequest{Finalizers: finalizers}
	for _, a := range agents {
		q.Agents = append(q.Agents, a.String())
	}
	var reply coppicev1.ListConsumersReply
	err := c.call(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbListConsumers), false, q, &reply)
	return &reply, err
}

// Parked is a page of parked work. The actor needs the verb listparked.
func (c *Client) Parked(ctx context.Context, q *coppicev1.ListParkedRequest) (*coppicev1.ListParkedReply, error) {
	var reply coppicev1.ListParkedReply
	err := c.call(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbListParked), false, q, &reply)
	return &reply, err
}

// RetryParked publishes parked work again where it came from. The errors are in the
// order of the ids, nil where it was done. The actor needs the verb retryparked.
func (c *Client) RetryParked(ctx context.Context, ids ...uint64) ([]error, error) {
	return c.eachParked(ctx, bus.VerbRetryParked, ids)
}

// DropParked forgets parked work, as RetryParked. The actor needs the verb dropparked.
func (c *Client) DropParked(ctx context.Context, ids ...uint64) ([]error, error) {
	return c.eachParked(ctx, bus.VerbDropParked, ids)
}

func (c *Client) eachParked(ctx context.Context, verb string, ids []uint64) ([]error, error) {
	var reply coppicev1.ParkedReply
	if err := c.call(ctx, bus.RealmAPI(c.realm, c.actor, verb), false, &coppicev1.ParkedRequest{Ids: ids}, &reply); err != nil {
		return nil, err
	}
	if n := len(reply.GetResults()); n != len(ids) {
		return nil, &Error{Reason: InternalError, Message: fmt.Sprintf("%d results for %d ids", n, len(ids))}
	}
	failed := make([]error, len(ids))
	for i, r := range reply.GetResults() {
		if r.GetError() != nil {
			failed[i] = lifecycle.ErrorOf(r.GetError())
		}
	}
	return failed, nil
}

// Verify has a replica compare its state with a fold of the whole log. It takes as
// long as a rebuild; progress, if not nil, is called every few seconds with how far
// it is. The actor needs the verb verify.
func (c *Client) Verify(ctx context.Context, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error) {
	var result *coppicev1.VerifyReply
	request := func() proto.Message { return &coppicev1.VerifyRequest{} }
	err := c.streamed(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbVerify), request, func(data []byte) (enough bool, err error) {
		var b coppicev1.VerifyBatch
		if err := proto.Unmarshal(data, &b); err != nil {
			return false, fmt.Errorf("not a VerifyBatch: %w", err)
		}
		if progress != nil {
			progress(b.GetSequence(), b.GetLast())
		}
		if b.GetError() != nil {
			return false, lifecycle.ErrorOf(b.GetError())
		}
		result = b.GetResult()
		return result != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return result, nil
}
