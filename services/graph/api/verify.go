package api

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// verify compares the state with its log, for one client at a time, and reports progress
// until it has the result, which can take hours.
func (s *replicaServer) verify(q *request) {
	at, err := s.target(q)
	if err == nil {
		err = realmWide(at)
	}
	if err == nil {
		err = q.read(&coppicev1.VerifyRequest{})
	}
	if err == nil && !s.verifying.TryLock() {
		err = &lifecycle.Error{Reason: lifecycle.ReasonTooManyRequests, Message: "a verification is under way; try again later", RetryAfter: time.Second}
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.stream(q, s.verifying.Unlock, s.serveVerify, func(why *coppicev1.Status) proto.Message { return &coppicev1.VerifyBatch{Error: why} })
}

func (s *replicaServer) serveVerify(ctx context.Context, out *sender) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sequence, last atomic.Uint64
	last.Store(max(s.State.Checkpoint().GetPosition(), 1))
	if err := out.send(&coppicev1.VerifyBatch{Last: last.Load()}); err != nil { // tells the client that it is served
		return err
	}
	type outcome struct {
		reply *coppicev1.VerifyReply
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		reply, err := s.r.Verify(ctx, func(at, of uint64) {
			sequence.Store(at)
			last.Store(of)
		})
		done <- outcome{reply, err}
	}()
	beat := time.NewTicker(s.r.Heartbeat)
	defer beat.Stop()
	var failure error // of sending
	for {
		select {
		case end := <-done:
			switch {
			case failure != nil:
				return failure
			case end.err != nil:
				return end.err
			}
			return out.send(&coppicev1.VerifyBatch{Sequence: end.reply.GetSequence(), Last: end.reply.GetSequence(), Result: end.reply})
		case <-beat.C:
			if failure != nil {
				continue
			}
			if failure = out.send(&coppicev1.VerifyBatch{Sequence: sequence.Load(), Last: last.Load()}); failure != nil {
				cancel()
			}
		}
	}
}
