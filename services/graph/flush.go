package graph

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
)

// archiveVerb returns what the verb archive needs. Every process of the realm gets its requests, and the one that archives the
// realm answers. While none does, the writer answers: it has its own archiver begin at once, or has no archive.
func (r *following) archiveVerb() streams.Archive {
	return streams.Archive{
		Answers: func() bool {
			if r.archiver != nil && r.archiver.Leased() {
				return true
			}
			return r.phase.Load().(phase) == phaseWriter && !r.member.Claimed(bus.ArchiverClaim(r.name))
		},
		Until: r.archiveUntil,
	}
}

// archiveUntil puts the log into the archive up to a commit, or to its end for zero.
func (r *following) archiveUntil(ctx context.Context, until uint64) (*coppicev1.ArchiveReply, *lifecycle.Error) {
	if r.archiver == nil {
		// Another process may archive the realm, which this one learns a moment later.
		_ = poll.Sleep(ctx, claimTime)
		return nil, &lifecycle.Error{
			Reason:  api.ErrMethodNotAllowed,
			Message: fmt.Sprintf("realm %s: the graph service %s has no archive; start it with --archive URL", r.name, r.c.Instance),
		}
	}
	last, err := r.events.LastCommit(ctx)
	if err != nil {
		return nil, unavailable(r.name, err)
	}
	last = max(last, r.state.Checkpoint().GetSequence())
	if until > last {
		return nil, lifecycle.ErrBadRequest("realm %s: the log ends with commit %d, and commit %d is to be archived; leave until out for the last one", r.name, last, until)
	}
	reply := &coppicev1.ArchiveReply{Archive: r.archive.String(), Until: until}
	if until == 0 {
		reply.Until = last
	}
	done, err := r.archiver.Flush(ctx, reply.Until, until == 0)
	if err != nil {
		return nil, &lifecycle.Error{
			Reason:  api.ErrInternalError,
			Message: fmt.Sprintf("realm %s: the graph service %s cannot put the log into the archive: %v; repair the archive, and send the request again", r.name, r.c.Instance, err),
		}
	}
	reply.RealmId, reply.Paused = r.state.Checkpoint().GetRealmId(), r.state.Realm().Paused
	reply.Sequence, reply.Revision, reply.Done = done.Sequence, done.Revision, done.Sequence >= reply.Until
	return reply, nil
}

// claimTime is the time after which a process knows that another one archives a realm.
const claimTime = time.Second

// unavailable is the refusal of a request that NATS has not let this process answer.
func unavailable(realm string, err error) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: fmt.Sprintf("realm %s: %v", realm, err)}
}
