package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// watchHistory has what a watch of the namespace histories has received. It disconnects again
// and again, and resumes after the last revision that it has received. It speaks the
// protocol itself, since the watch of the SDK corrects what a server does wrong.
type watchHistory struct {
	t    *testing.T
	nc   *nats.Conn
	stop context.CancelFunc
	run  sync.WaitGroup
	// resumed counts the sessions that continued after a revision; listed those that began
	// with all objects; reached is the revision after which the next session begins, and most
	// the highest one that was received.
	resumed, listed atomic.Int64
	// later counts the messages with events that were not the first of their session.
	later         atomic.Int64
	reached, most atomic.Uint64

	mu      sync.Mutex
	batches []watchBatch
}

// watchBatch is a message of a watch.
type watchBatch struct {
	// from is the revision after which the session began; zero if it began with all objects.
	from     uint64
	first    bool   // of the session
	revision uint64 // zero while objects are listed
	events   []watchEvent
}

// watchEvent is an event of a watch.
type watchEvent struct {
	change
	value string
}

// listEvery is how often a session begins with all objects: once in so many sessions.
const listEvery = 4

// startWatch starts a watch that ends each session after a drawn time of up to twice the pause.
func startWatch(t *testing.T, nc *nats.Conn, pause time.Duration) *watchHistory {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watchHistory{t: t, nc: nc, stop: stop}
	t.Cleanup(w.end)
	r := rand.New(rand.NewPCG(*seed, 99))
	w.run.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			if i%listEvery == 0 {
				w.reached.Store(0)
			}
			session, cancel := context.WithTimeout(ctx, pause/10+time.Duration(r.Int64N(int64(2*pause))))
			err := w.session(session)
			cancel()
			if err == nil {
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return w
}

// end ends the watch.
func (w *watchHistory) end() {
	w.stop()
	w.run.Wait()
}

// silence is the time without a message after which a watch resumes. The service sends one every
// 5 s.
const silence = 8 * time.Second

// session watches until ctx ends, or until the watch is interrupted.
func (w *watchHistory) session(ctx context.Context) error {
	sub, err := w.nc.SubscribeSync(w.nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	from := w.reached.Load()
	data, err := rpc.Encode(&coppicev1.WatchRequest{FromRevision: from, MinRevision: w.most.Load()})
	if err != nil {
		return err
	}
	at := bus.API{Realm: realm, Actor: bus.RoleApplication, Verb: bus.VerbWatch, Group: configMaps.Group, Plural: configMaps.Plural, Namespace: histories}
	if err := w.nc.PublishMsg(&nats.Msg{Subject: at.Subject(), Reply: sub.Subject, Header: rpc.Header(at.Subject(), nil), Data: data}); err != nil {
		return err
	}
	last, first := from, true
	var list []watchBatch // the objects that were listed, kept until all of them have come
	for {
		b, err := w.next(ctx, sub)
		switch {
		case errors.Is(err, client.ErrExpired):
			w.reached.Store(0) // begin with all objects
			return err
		case err != nil:
			return err
		case b == nil: // the server ends each watch after a while
			return nil
		case b.GetPreviousRevision() != last:
			return fmt.Errorf("a message was lost between revisions %d and %d", last, b.GetPreviousRevision())
		}
		list = append(list, watchBatch{from: from, first: first, revision: b.GetRevision(), events: eventsOf(b)})
		first = false
		if b.GetRevision() == 0 {
			continue
		}
		if last == from {
			if from == 0 {
				w.listed.Add(1)
			} else {
				w.resumed.Add(1)
			}
		}
		if last != from && len(b.GetEvents()) > 0 {
			w.later.Add(1)
		}
		last = b.GetRevision()
		w.mu.Lock()
		w.batches = append(w.batches, list...)
		w.mu.Unlock()
		list = nil
		w.reached.Store(last)
		w.most.Store(max(last, w.most.Load()))
	}
}

// next returns the next message, nil at the end of the watch.
func (w *watchHistory) next(ctx context.Context, sub *nats.Subscription) (*coppicev1.WatchBatch, error) {
	wait, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	m, err := sub.NextMsgWithContext(wait)
	if err != nil {
		return nil, err
	}
	if err := rpc.Refusal(m); err != nil {
		return nil, err
	}
	if len(m.Data) == 0 && len(m.Header) == 0 {
		return nil, nil //nolint:nilnil // the end
	}
	var b coppicev1.WatchBatch
	if err := proto.Unmarshal(m.Data, &b); err != nil {
		w.t.Errorf("a message of a watch: %v", err)
		return nil, err
	}
	if b.GetError() != nil {
		return nil, api.ErrorOf(b.GetError())
	}
	return &b, nil
}

func eventsOf(b *coppicev1.WatchBatch) (list []watchEvent) {
	for _, e := range b.GetEvents() {
		m := e.GetObject().GetMetadata()
		list = append(list, watchEvent{change{e.GetType(), m.GetResourceVersion(), m.GetUid(), m.GetName()}, valueOf(e.GetObject())})
	}
	return list
}

// recorded returns all batches.
func (w *watchHistory) recorded() []watchBatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.batches
}
