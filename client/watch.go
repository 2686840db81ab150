package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// WatchOptions are options of Watch.
type WatchOptions struct {
	LabelSelector string
	// FromRevision is the revision after which changes are told; zero for
	// the objects as they are now, and then the changes.
	FromRevision uint64
	// Silence is how long nothing may come before the watch is made anew; 15 s.
	Silence time.Duration
}

// WatchEvent is a change, or, without an Object, the news that everything up to
// Revision was told.
type WatchEvent struct {
	Type     coppicev1.WatchEvent_Type
	Object   *coppicev1.Object
	Reason   coppicev1.Reason
	Revision uint64
}

// Watch iterates over what happens to objects. It resumes by itself, without a
// gap, after a lost message, a silence or a change of servers. It ends with
// the context, by the caller's break, or with an error: Expired says that what
// happened since is not remembered any more, and to list again.
func (o *Objects) Watch(ctx context.Context, opts WatchOptions) iter.Seq2[WatchEvent, error] {
	if opts.Silence == 0 {
		opts.Silence = 15 * time.Second
	}
	return func(yield func(WatchEvent, error) bool) {
		w := watcher{o: o, opts: opts, revision: opts.FromRevision, told: opts.FromRevision != 0}
		for ctx.Err() == nil {
			more, err := w.session(ctx, yield)
			if !more {
				return
			}
			var e *Error
			if errors.As(err, &e) && !rpc.Retryable(err) || errors.Is(err, nats.ErrConnectionClosed) {
				yield(WatchEvent{}, err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}

type watcher struct {
	o        *Objects
	opts     WatchOptions
	revision uint64 // everything up to it was told
	told     bool   // the first state was
}

// errGap is a lost message: the watch is made anew from where it was.
var errGap = errors.New("a message was lost")

// session watches until something is lost. more is false when the caller has
// had enough.
func (w *watcher) session(ctx context.Context, yield func(WatchEvent, error) bool) (more bool, err error) {
	inbox := w.o.c.nc.NewInbox()
	sub, err := w.o.c.nc.SubscribeSync(inbox)
	if err != nil {
		return true, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := rpc.Encode(&coppicev1.WatchRequest{
		LabelSelector: w.opts.LabelSelector, FromRevision: w.revision, IncludeUninitialized: w.o.uninitialized,
	})
	if err != nil {
		return true, err
	}
	subject := w.o.api(bus.VerbWatch).Subject()
	if err := w.o.c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Header: rpc.Header(subject, nil), Data: request}); err != nil {
		return true, err
	}
	last := w.revision
	if !w.told {
		last = 0
	}
	for {
		wait, cancel := context.WithTimeout(ctx, w.opts.Silence)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			return ctx.Err() == nil, err
		}
		if m.Header.Get("Status") == "503" {
			return true, &Error{Reason: NotReady, Message: "no graph service serves watches yet"}
		}
		if err := rpc.Refusal(m); err != nil {
			return true, err
		}
		var b coppicev1.WatchBatch
		if err := proto.Unmarshal(m.Data, &b); err != nil {
			return true, fmt.Errorf("watch: %w", err)
		}
		if b.GetError() != nil {
			return true, lifecycle.ErrorOf(b.GetError())
		}
		if b.GetPreviousRevision() != last {
			return true, errGap
		}
		last = b.GetRevision()
		for _, e := range b.GetEvents() {
			revision := e.GetObject().GetMetadata().GetResourceVersion()
			if !yield(WatchEvent{Type: e.GetType(), Object: e.GetObject(), Reason: e.GetReason(), Revision: revision}, nil) {
				return false, nil
			}
			if w.told {
				w.revision = revision // where a session that breaks here goes on
			}
		}
		if last != 0 {
			w.revision, w.told = last, true
		}
		if !yield(WatchEvent{Revision: last}, nil) {
			return false, nil
		}
	}
}
