package client

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Warning reports a problem of an object, such as an owner reference that has no
// effect, or a finalizer that no process serves. It is repeated while the problem
// exists, and deleted one hour after the last repetition.
type Warning struct {
	Resource, Namespace, Name, UID string
	// Reason is for programs, Message for people.
	Reason, Message string
	Time            time.Time
}

// Key returns the object as "pods/web-1".
func (w Warning) Key() string { return w.Resource + "/" + w.Name }

// Warnings returns the warnings about the object with a uid, the oldest first; with an
// empty uid those about all objects. The actor needs the verb readwarnings.
func (c *Client) Warnings(ctx context.Context, uid string, _ ...WarningsOption) ([]Warning, error) {
	var all []Warning
	for w, err := range c.warnings(ctx, &coppicev1.ReadWarningsRequest{Uid: uid}, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("warnings of realm %s: %w", c.realm, err)
	}
	slices.SortStableFunc(all, func(a, b Warning) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// FollowWarnings iterates over new warnings until ctx ends. It continues without a
// gap after a lost connection or a change of servers.
func (c *Client) FollowWarnings(ctx context.Context, opts ...FollowWarningsOption) iter.Seq2[Warning, error] {
	return c.warnings(ctx, &coppicev1.ReadWarningsRequest{Follow: true, NewOnly: true}, collect(opts, FollowWarningsOption.ApplyToFollowWarnings).OnError)
}

// warnings reads warnings by the verb readwarnings. onError, if not nil, is called with each
// error that is retried.
func (c *Client) warnings(ctx context.Context, q *coppicev1.ReadWarningsRequest, onError func(error)) iter.Seq2[Warning, error] {
	return func(yield func(Warning, error) bool) {
		err := c.streamed(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbReadWarnings), func() proto.Message { return q }, func(data []byte) (done bool, err error) {
			var b coppicev1.WarningBatch
			if err := proto.Unmarshal(data, &b); err != nil {
				return false, fmt.Errorf("not a WarningBatch: %w", err)
			}
			for _, p := range b.GetWarnings() {
				w := Warning{
					Resource: p.GetResource(), Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUid(),
					Reason: p.GetReason(), Message: p.GetMessage(), Time: time.UnixMicro(p.GetTime()).UTC(),
				}
				if !yield(w, nil) {
					return true, nil
				}
			}
			c.lacks(bus.VerbReadWarnings, &b)
			q.FromSequence = b.GetNext() // where a retry continues
			if b.GetError() != nil {
				return false, api.ErrorOf(b.GetError())
			}
			if b.GetEnd() && q.GetFollow() {
				return false, errRenewed // the server ends each reply after a while
			}
			return b.GetEnd(), nil
		}, onError)
		if err != nil && ctx.Err() == nil {
			yield(Warning{}, fmt.Errorf("warnings of realm %s: %w", c.realm, err))
		}
	}
}
