package operations

import (
	"context"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// maxDue is the maximum number of objects that one request looks at or deletes because they
// have expired.
const maxDue = 4096

// Due replies with objects that have expired. It warns of those that are protected.
func (s *Replica) Due(q *serve.Request) *lifecycle.Error {
	var r coppicev1.DueRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	after, err := dueCursor(r.GetCursor())
	if err != nil {
		return err
	}
	s.AtLeast(nil, q, 0, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply := &coppicev1.DueReply{}
		if snap.Realm().Paused {
			return reply, nil
		}
		var found []state.ExpiryCursor
		limit, more := min(max(int(r.GetLimit()), 1), maxDue), false
		snap.EachExpired(lifecycle.Time(r.GetNow()), after, func(c state.ExpiryCursor) bool {
			if more = len(found) == limit; !more {
				found = append(found, c)
			}
			return !more
		})
		for _, c := range found {
			switch n := snap.Node(c.UID); {
			case n == nil:
			case n.Protected():
				if s.Warn != nil {
					s.Warn(snap, n, nil, lifecycle.Classification{}, lifecycle.WarnProtected)
				}
			case lifecycle.Braked(snap, n):
			default:
				reply.Objects = append(reply.Objects, &coppicev1.DueObject{Uid: []byte(c.UID), At: int64(c.At)})
			}
		}
		if more {
			last := found[len(found)-1]
			reply.Cursor = append(binary.BigEndian.AppendUint64(nil, uint64(last.At)), last.UID...)
		}
		return reply, nil
	})
	return nil
}

// dueCursor decodes DueReply.cursor.
func dueCursor(b []byte) (c state.ExpiryCursor, _ *lifecycle.Error) {
	if len(b) == 0 {
		return c, nil
	}
	if len(b) > 8 {
		u, rest, err := uid.CutBytes(b[8:])
		if err == nil && len(rest) == 0 {
			return state.ExpiryCursor{At: lifecycle.Time(binary.BigEndian.Uint64(b)), UID: u}, nil
		}
	}
	return c, lifecycle.ErrBadRequest("cursor: it is not what a reply gave")
}

// Expire handles the request to delete what has expired. In the log it is a DELETE by an actor of
// its own (B6.3).
func (s *Writer) Expire(q *serve.Request) *lifecycle.Error {
	var r coppicev1.ExpireRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if n := len(r.GetObjects()); n > maxDue {
		return lifecycle.ErrBadRequest("objects: %d, at most %d", n, maxDue)
	}
	work, err := command.NewExpire(&r)
	if err != nil {
		return err
	}
	to := q.Replier
	s.Commands.Submit(&writer.Request{
		Actor: lifecycle.ActorExpiry, Verb: bus.VerbDelete, Note: noteExpired, Size: len(q.Data()) + 256, Expires: q.Expires, Work: work, Done: to.Answer, Span: q.Span,
	})
	return nil
}

// noteExpired is the note of the deletion of objects that have expired.
const noteExpired = "metadata.expiresAt has passed"
