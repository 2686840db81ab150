package api

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Limits of the clients that wait for a verification. They share one run.
const (
	maxVerifiers      = 64
	maxVerifiersActor = 16
)

// verify compares the state with its log, and reports progress until it has the result,
// which can take hours.
//
// A replica carries out one verification at a time. Requests that arrive meanwhile share
// it and its result. If a client in another account goes away, the replica does not notice
// (see watchTime) and the run continues; it delays no other client, because others share
// it. A run ends early when all its clients are known to be gone.
func (s *replicaServer) verify(q *request) {
	at, err := s.target(q)
	if err == nil {
		err = realmWide(at)
	}
	if err == nil {
		err = q.read(&coppicev1.VerifyRequest{})
	}
	var leave func()
	if err == nil {
		leave, err = s.verifiers.enter(at.Actor)
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.stream(q, leave, s.serveVerify, func(why *coppicev1.Status) proto.Message { return &coppicev1.VerifyBatch{Error: why} })
}

func (s *replicaServer) serveVerify(ctx context.Context, out *sender) error {
	v, leave, stopping := s.verification()
	if stopping != nil {
		return stopping
	}
	defer leave()
	progress := func() error {
		return out.send(&coppicev1.VerifyBatch{Sequence: v.sequence.Load(), Last: v.last.Load()})
	}
	if err := progress(); err != nil { // tells the client that it is served
		return err
	}
	beat := time.NewTicker(s.r.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-v.done:
			if v.err != nil {
				return v.err
			}
			return out.send(&coppicev1.VerifyBatch{Sequence: v.reply.GetSequence(), Last: v.reply.GetSequence(), Result: v.reply})
		case <-beat.C:
			if err := progress(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verification is one run, which several clients can share.
type verification struct {
	sequence, last atomic.Uint64 // the progress
	clients        int           // under replicaServer.verifying
	cancel         context.CancelFunc

	done  chan struct{} // closed when reply and err are set
	reply *coppicev1.VerifyReply
	err   error
}

// verification returns the run that is under way, or begins one. The caller must call
// leave once: the run is canceled when its last client has left.
func (s *replicaServer) verification() (v *verification, leave func(), stopping *lifecycle.Error) {
	s.verifying.Lock()
	defer s.verifying.Unlock()
	v = s.running
	if v == nil || v.clients == 0 {
		previous := v // is canceled and ends soon
		v = &verification{done: make(chan struct{})}
		var ctx context.Context
		ctx, v.cancel = context.WithCancel(s.ctx)
		if !s.start(func() { s.run(ctx, v, previous) }) {
			v.cancel()
			return nil, nil, s.stopping()
		}
		v.last.Store(max(s.State.Checkpoint().GetPosition(), 1))
		s.running = v
	}
	v.clients++
	return v, func() {
		s.verifying.Lock()
		defer s.verifying.Unlock()
		if v.clients--; v.clients == 0 {
			v.cancel()
		}
	}, nil
}

// run carries out a verification, after the previous one unless that is nil.
func (s *replicaServer) run(ctx context.Context, v, previous *verification) {
	if previous != nil {
		<-previous.done
	}
	v.reply, v.err = s.r.Verify(ctx, func(at, of uint64) {
		v.sequence.Store(at)
		v.last.Store(of)
	})
	v.cancel()
	s.verifying.Lock()
	if s.running == v {
		s.running = nil
	}
	s.verifying.Unlock()
	close(v.done)
}
