package streams

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// Verify compares the state with its log, and reports progress until it has the result,
// which can take hours.
//
// A replica carries out one verification at a time, which requests share: see Server.verification. A run ends early
// when all its clients are known to be gone. If a client in another account goes away, the replica does not
// notice (see watchTime), and the run continues.
func (s *Server) Verify(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.VerifyRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	leave, err := s.verifiers.enter(at.Actor)
	if err != nil {
		return err
	}
	report := func(ctx context.Context, out *sender) error { return s.serveVerify(ctx, r.GetFull(), out) }
	s.stream(q, leave, report, func(why *coppicev1.Status) proto.Message { return &coppicev1.VerifyBatch{Error: why} })
	return nil
}

func (s *Server) serveVerify(ctx context.Context, full bool, out *sender) error {
	v, leave, stopping := s.verification(full)
	if stopping != nil {
		return stopping
	}
	defer leave()
	progress := func() error {
		return out.send(&coppicev1.VerifyBatch{Sequence: v.sequence.Load(), Last: v.last.Load()})
	}
	if err := progress(); err != nil { // shows the client that it is served
		return err
	}
	beat := time.NewTicker(s.c.Heartbeat)
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
	full           bool          // from the first commit
	sequence, last atomic.Uint64 // the progress
	clients        int           // under Server.verifying
	cancel         context.CancelFunc

	done  chan struct{} // closed when reply and err are set
	reply *coppicev1.VerifyReply
	err   error
}

// verification returns the run that is under way, or begins one. All clients can share a full
// run. A client that asks for a full run does not share one that is not full: its run begins
// when that one has ended. The caller must call leave once: the run is canceled when its last
// client has left.
func (s *Server) verification(full bool) (v *verification, leave func(), stopping *lifecycle.Error) {
	s.verifying.Lock()
	defer s.verifying.Unlock()
	v = s.running
	if v == nil || v.clients == 0 || full && !v.full {
		v = &verification{full: full, done: make(chan struct{})}
		v.last.Store(max(s.State.Checkpoint().GetSequence(), 1)) // until the run reports progress
		var ctx context.Context
		ctx, v.cancel = context.WithCancel(s.Context)
		if !s.Start(func() { s.run(ctx, v) }) {
			v.cancel()
			return nil, nil, s.ErrStopping()
		}
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

// run carries out a verification when the previous one has ended, unless its clients leave before.
func (s *Server) run(ctx context.Context, v *verification) {
	select {
	case s.verifyPlace <- struct{}{}:
		v.reply, v.err = s.c.Verify(ctx, v.full, func(at, of uint64) {
			v.sequence.Store(at)
			v.last.Store(of)
		})
		<-s.verifyPlace
	case <-ctx.Done():
		v.err = ctx.Err()
	}
	v.cancel()
	s.verifying.Lock()
	if s.running == v {
		s.running = nil
	}
	s.verifying.Unlock()
	close(v.done)
}
