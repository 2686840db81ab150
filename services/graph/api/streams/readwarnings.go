package streams

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// The number of warnings that are read at once, and the interval at which a following reader reads.
const (
	warningChunk    = 256
	warningInterval = 500 * time.Millisecond
)

// ReadWarnings replies with the stored warnings and, if asked, with later ones.
func (s *Server) ReadWarnings(q *serve.Request, at bus.API) *lifecycle.Error {
	r := &warningReading{s: s, now: q.RulesNow}
	if err := q.Read(&r.ReadWarningsRequest); err != nil {
		return err
	}
	if _, err := uid.Parse(r.GetUid()); r.GetUid() != "" && err != nil {
		return lifecycle.ErrBadRequest("uid: %v", err)
	}
	leave, err := s.warningReaders.enter(at.Actor)
	if err != nil {
		return err
	}
	group, plural, namespace := bus.GroupToken(at.Group), at.Plural, at.Namespace
	if plural == "" {
		group, plural = "*", "*"
	}
	if namespace == "" {
		namespace = "*"
	}
	r.filter = bus.WarningsOf(s.Realm, group, plural, namespace, r.GetUid())
	s.stream(q, leave, r.serve, func(why *coppicev1.Status) proto.Message {
		return &coppicev1.WarningBatch{Next: r.next, End: true, Error: why}
	})
	return nil
}

// warningReading is one reply to readwarnings.
type warningReading struct {
	coppicev1.ReadWarningsRequest
	s      *Server
	out    *sender
	filter string
	rules  *access.Rules // nil for no restriction
	now    func() *access.Rules

	next     uint64
	warnings []*coppicev1.Warning
	leftOut  uint64 // since the last batch
	size     int
}

func (r *warningReading) serve(ctx context.Context, out *sender) error {
	r.out, r.next = out, max(r.GetFromSequence(), 1)
	if r.GetNewOnly() && r.GetFromSequence() == 0 {
		stream, err := r.s.c.JS.Stream(ctx, bus.WarningStream(r.s.Realm))
		if err != nil {
			return err
		}
		r.next = stream.CachedInfo().State.LastSeq + 1
	}
	if err := r.flush(false); err != nil { // shows the client that it is served, and the start position
		return err
	}
	until := r.s.until(readerTime)
	for {
		pending, err := r.chunk(ctx)
		switch {
		case err != nil:
			return err
		case r.GetFollow() && time.Now().After(until):
			return r.flush(true)
		case pending > 0:
			continue
		case !r.GetFollow():
			return r.flush(true)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(warningInterval):
		}
		if err := r.beat(); err != nil {
			return err
		}
	}
}

// namesOthers reports whether the text of a warning names objects that it is not about.
func namesOthers(reason string) bool {
	switch reason {
	case lifecycle.WarnStuck, lifecycle.WarnUnpublished, lifecycle.WarnExpiry, lifecycle.WarnPodDrain, lifecycle.WarnUnresolvable, lifecycle.WarnBraked:
		return false
	}
	return true
}

// beat sends a batch without warnings if none was sent for a while.
func (r *warningReading) beat() error {
	if time.Since(r.out.sent) < r.s.c.Heartbeat {
		return nil
	}
	return r.flush(false)
}

// chunk reads and sends some warnings, and returns how many follow.
func (r *warningReading) chunk(ctx context.Context) (pending uint64, err error) {
	leave, err := r.s.placeToRead(ctx, r.beat)
	if err != nil {
		return 0, err
	}
	defer leave()
	r.rules = r.now()
	read := bus.DirectRead{Stream: bus.WarningStream(r.s.Realm), From: r.next, Filter: r.filter, Batch: warningChunk, MaxBytes: maxStreamed}
	pending, err = bus.ReadDirect(ctx, r.s.c.JS.Conn(), read, r.visit)
	if len(r.warnings) > 0 {
		err = errors.Join(err, r.flush(false))
	}
	return pending, err
}

func (r *warningReading) visit(m bus.DirectMessage) error {
	var w coppicev1.Warning
	switch of, ok := bus.ParseWarning(m.Subject); {
	case r.rules != nil && (!ok || !r.rules.Sees(lifecycle.ResourceName(of.Group, of.Plural), of.Namespace)):
		r.leftOut++
	case manifest.UnmarshalMessage(m.Data, &w) == nil: // messages that are no warnings are left out
		if !r.rules.SeesAll() && namesOthers(w.GetReason()) {
			w.Message = "the text of this warning names other objects: a user who may get all objects can read it"
		}
		if r.size+len(m.Data) > r.out.room() && len(r.warnings) > 0 {
			if err := r.flush(false); err != nil {
				return err
			}
		}
		r.warnings, r.size = append(r.warnings, &w), r.size+len(m.Data)
	}
	r.next = m.Sequence + 1
	return nil
}

func (r *warningReading) flush(end bool) error {
	b := &coppicev1.WarningBatch{Warnings: r.warnings, Next: r.next, End: end, LeftOut: r.leftOut}
	r.warnings, r.size, r.leftOut = nil, 0, 0
	return r.out.send(b)
}
