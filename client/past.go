package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Moment is a point of a realm's past: a revision or, if that is zero, a time. The zero Moment is
// the last commit.
//
// A Moment stands for the state after a commit: the last one whose first revision is not greater than
// Revision or, if Revision is zero, the last one that is not later than Time.
type Moment struct {
	Revision uint64
	Time     time.Time
}

func (m Moment) String() string {
	switch {
	case m.Revision > 0:
		return fmt.Sprintf("revision %d", m.Revision)
	case m.Time.IsZero():
		return "the last commit"
	}
	return m.Time.UTC().Format(time.RFC3339Nano)
}

// Past is a commit, after which a client reads the realm.
type Past struct {
	// Revision is the last revision of the commit.
	Revision uint64
	// Sequence is the position of the commit in the log: see LogCommit.
	Sequence uint64
	Time     time.Time
}

// At returns a client that reads the realm as it was at a moment. All its reads show the state
// after one commit, which Past names. Get, List, ListPage, Resolve, ResolveUIDs, Plan and Kinds read
// that state, and evaluate it at the time of the commit; MinRevision has no effect. Log reads up to the
// commit. All other methods fail with ErrMethodNotAllowed.
//
// The first read may take as long as a fold of the log from the last snapshot before the moment. It is
// tried again until the state is built, or ctx ends.
//
// The actor needs the verb readpast, and readlog for Log. ErrExpired says that neither the log nor the
// archive goes back to the moment, and names the oldest revision that can be shown; ErrBadRequest
// that the moment is in the future.
func (c *Client) At(ctx context.Context, m Moment, opts ...CallOption) (*Client, error) {
	past := *c
	past.past, past.batches = nil, nil // otherwise this client could send a batch for callers of c, and refuse it
	var reply coppicev1.ReadPastReply
	if err := past.call(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbReadPast), m.request(), &reply); err != nil {
		return nil, err
	}
	collect(opts, CallOption.ApplyToCall).replied(&reply)
	past.past = &Past{Revision: reply.GetRevision(), Sequence: reply.GetPosition(), Time: time.UnixMicro(reply.GetTime()).UTC()}
	return &past, nil
}

// Past returns the commit after which the client reads the realm, nil for the present.
func (c *Client) Past() *Past { return c.past }

func (m Moment) request() *coppicev1.ReadPastRequest {
	switch {
	case m.Revision > 0:
		return &coppicev1.ReadPastRequest{At: &coppicev1.ReadPastRequest_Revision{Revision: m.Revision}}
	case !m.Time.IsZero():
		return &coppicev1.ReadPastRequest{At: &coppicev1.ReadPastRequest_Time{Time: m.Time.UnixMicro()}}
	}
	return &coppicev1.ReadPastRequest{}
}

// IsBuilding reports whether a read of the past has failed because the state is still being
// built. The graph service goes on, and the same read succeeds later.
func IsBuilding(err error) bool {
	return HasCause(err, CauseStateBeingBuilt)
}

// errPast returns the error of a verb that a client of the past does not support.
func (c *Client) errPast(verb string) error {
	return &Error{Reason: ErrMethodNotAllowed, Message: fmt.Sprintf("%s: this client reads realm %s at revision %d, where nothing can be changed, watched or waited for", verb, c.realm, c.past.Revision)}
}

// read sends a read of objects: of the present or, if the client reads the past, of that. request and
// reply are those of get, list, resolve or plan.
func (c *Client) read(ctx context.Context, a bus.API, request, reply proto.Message) error {
	if c.past == nil {
		return c.call(ctx, a, request, reply)
	}
	q := Moment{Revision: c.past.Revision}.request()
	switch r := request.(type) {
	case *coppicev1.GetRequest:
		q.Read = &coppicev1.ReadPastRequest_Get{Get: r}
	case *coppicev1.ListRequest:
		q.Read = &coppicev1.ReadPastRequest_List{List: r}
	case *coppicev1.ResolveObjectsRequest:
		q.Read = &coppicev1.ReadPastRequest_Resolve{Resolve: r}
	case *coppicev1.PlanRequest:
		q.Read = &coppicev1.ReadPastRequest_Plan{Plan: r}
	default:
		return c.errPast(a.Verb)
	}
	a.Verb = bus.VerbReadPast
	var shown coppicev1.ReadPastReply
	present := *c
	present.past = nil
	data, err := encode(q)
	if err != nil {
		return err
	}
	var building error // why the read is tried again
	if err := present.send(ctx, a, data, &shown, func(err error) {
		if IsBuilding(err) {
			building = err
		}
	}); err != nil {
		if building != nil && errors.Is(err, ErrTimeout) {
			return building // the last attempt has only waited
		}
		return err
	}
	var got proto.Message
	switch r := shown.GetRead().(type) {
	case *coppicev1.ReadPastReply_Objects:
		got = r.Objects
	case *coppicev1.ReadPastReply_List:
		got = r.List
	case *coppicev1.ReadPastReply_Resolved:
		got = r.Resolved
	case *coppicev1.ReadPastReply_Plan:
		got = r.Plan
	}
	if got == nil || got.ProtoReflect().Descriptor() != reply.ProtoReflect().Descriptor() {
		return errors.New("readpast: the reply has another type than the request; use the same version of the client and the graph service")
	}
	proto.Merge(reply, got)
	return nil
}
