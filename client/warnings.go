package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Warning is something about an object that somebody should look at: a
// reference that can never be true, a finalizer that nobody answers. It is said
// again while it holds, and forgotten an hour after it was said last.
type Warning struct {
	Resource, Namespace, Name, UID string
	// Reason is for programs, Message for people.
	Reason, Message string
	Time            time.Time
}

// Key is the object as people write it: "pods/web-1".
func (w Warning) Key() string { return w.Resource + "/" + w.Name }

// Warnings are the warnings about the object with a uid, or about all objects,
// the oldest first. The NATS user must be allowed to read the stream.
func (c *Client) Warnings(ctx context.Context, uid string) ([]Warning, error) {
	var all []Warning
	for w, err := range c.warnings(ctx, uid, jetstream.DeliverLastPerSubjectPolicy, true) {
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b Warning) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// FollowWarnings iterates over warnings that are said from now on, until ctx ends.
func (c *Client) FollowWarnings(ctx context.Context) iter.Seq2[Warning, error] {
	return c.warnings(ctx, "", jetstream.DeliverNewPolicy, false)
}

// warnings reads warnings; with end, until those that are there were read.
func (c *Client) warnings(ctx context.Context, uid string, from jetstream.DeliverPolicy, end bool) iter.Seq2[Warning, error] {
	return func(yield func(Warning, error) bool) {
		if err := c.readWarnings(ctx, uid, from, end, yield); err != nil && ctx.Err() == nil {
			yield(Warning{}, fmt.Errorf("warnings of realm %s: %w", c.realm, err))
		}
	}
}

func (c *Client) readWarnings(ctx context.Context, uid string, from jetstream.DeliverPolicy, end bool, yield func(Warning, error) bool) error {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, bus.WarningStream(c.realm), jetstream.OrderedConsumerConfig{
		DeliverPolicy: from, FilterSubjects: []string{bus.WarningFilter(c.realm, uid)},
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // nobody has ever said one
	}
	if err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return err
	}
	left := info.NumPending
	if end && left == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	stop := context.AfterFunc(ctx, messages.Stop)
	defer stop()
	for {
		m, err := messages.Next()
		if err != nil {
			return err
		}
		var p coppicev1.Warning
		if err := manifest.UnmarshalMessage(m.Data(), &p); err != nil {
			return err
		}
		if !yield(Warning{
			Resource: p.GetResource(), Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUid(),
			Reason: p.GetReason(), Message: p.GetMessage(), Time: time.UnixMicro(p.GetTime()).UTC(),
		}, nil) {
			return nil
		}
		delivery, err := m.Metadata()
		if err != nil {
			return err
		}
		if end && delivery.NumPending == 0 {
			return nil
		}
	}
}
