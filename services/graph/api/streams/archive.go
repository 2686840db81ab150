package streams

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// Archive puts the log of a realm into the archive.
type Archive struct {
	// Answers reports whether this process answers: of the processes of a realm the one that archives it, or
	// else the writer.
	Answers func() bool
	// Until puts the log into the archive, up to a commit or, for zero, to its end. When ctx ends, the reply says how far it is.
	Until func(ctx context.Context, until uint64) (*coppicev1.ArchiveReply, *lifecycle.Error)
}

// archiveTime is for how long a request waits for the archive. It is less than a client waits for a reply.
const archiveTime = 2 * time.Second

// Archive replies what of the log the archive has, and has the rest archived. Every process of the realm gets the request.
func (s *Server) Archive(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.ArchiveRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if !s.c.Archive.Answers() {
		return nil // another process answers
	}
	s.Occupying(nil, q, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, archiveTime)
		defer cancel()
		reply, err := s.c.Archive.Until(ctx, r.GetUntil())
		if err != nil && !s.c.Archive.Answers() {
			return // another process has begun to archive the realm, and answers
		}
		q.Answer(reply, err)
	})
	return nil
}
