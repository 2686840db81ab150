package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Realms is what ServeRealms needs in addition to Config, of which Realm is
// bus.SystemRealm and State is nil. Errors of type *lifecycle.Error are refusals.
type Realms struct {
	// List returns the list of realms, ordered by name, and its version. Its realms must
	// not be changed.
	List func(ctx context.Context) (realms []*coppicev1.Realm, version string, err error)
	// Writers returns the names of the graph services that write, by realm.
	Writers func() map[string]string
	// Create adds a realm to the list. id identifies the request, empty for none.
	Create func(ctx context.Context, name, actor, id string) (*coppicev1.Realm, error)
	// Archives reports whether the log of a realm is archived before it is deleted. If not, a deletion
	// must confirm that.
	Archives bool
	// Delete records that a realm is to be deleted.
	Delete func(ctx context.Context, name, actor string, withoutArchive bool) (*coppicev1.Realm, error)
}

// realmsServer serves requests about the list of realms. All graph services share them.
type realmsServer struct {
	*server
	r Realms
}

// queueRealms is the queue group in which graph services share requests about the list.
const queueRealms = "realms"

// ServeRealms serves requests about the list of realms until it is stopped.
func ServeRealms(c Config, r Realms) (Stopper, error) {
	s, err := newServer(c, shares{}, "coppice-realms", "Coppice's list of realms", queueRealms)
	if err != nil {
		return nil, err
	}
	rs := &realmsServer{server: s, r: r}
	for _, e := range []struct {
		*endpoint
		handle func(*request)
	}{
		{&endpoint{name: bus.VerbCreateRealm, subject: bus.APIPattern(bus.AnyRealm, bus.VerbCreateRealm)}, rs.create},
		{&endpoint{name: bus.VerbDeleteRealm, subject: bus.APIPattern(bus.AnyRealm, bus.VerbDeleteRealm)}, rs.delete},
		{s.verb(bus.VerbListRealms), rs.list},
		{s.operation(bus.OpRealms, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner), rs.names},
	} {
		if err := s.add(e.endpoint, e.handle); err != nil {
			_ = s.Stop()
			return nil, err
		}
	}
	s.subscribed()
	return rs, nil
}

// about reads a request about one realm, which its subject names.
func (s *realmsServer) about(q *request, m versioned) (bus.API, *lifecycle.Error) {
	at, err := s.target(q)
	if err == nil {
		err = realmWide(at)
	}
	if err == nil {
		err = q.read(m)
	}
	if err != nil {
		return at, err
	}
	if fail := bus.CheckRealm(at.Realm); fail != nil {
		return at, &lifecycle.Error{Reason: api.ErrInvalid, Message: fail.Error()}
	}
	return at, nil
}

// maxRequestID is the maximum number of bytes of the id of a request that creates a realm.
const maxRequestID = 64

func (s *realmsServer) create(q *request) {
	var r coppicev1.CreateRealmRequest
	at, err := s.about(q, &r)
	if n := len(r.GetId()); err == nil && n > maxRequestID {
		err = lifecycle.ErrBadRequest("id: it has %d bytes; the id of a request has at most %d", n, maxRequestID)
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		r, err := s.r.Create(ctx, at.Realm, at.Actor, r.GetId())
		return &coppicev1.CreateRealmReply{Realm: r}, s.refusal(err)
	})
}

func (s *realmsServer) delete(q *request) {
	var r coppicev1.DeleteRealmRequest
	at, err := s.about(q, &r)
	if err == nil && r.GetConfirm() != at.Realm {
		err = lifecycle.ErrBadRequest("confirm: %q; to delete realm %q with its log, name it here", r.GetConfirm(), at.Realm)
	}
	if err == nil && !r.GetWithoutArchive() && !s.r.Archives {
		err = lifecycle.ErrBadRequest("realm %q has no archive, so that its log would be lost: set without_archive (--without-archive) to delete it nevertheless, or start the graph services with --archive", at.Realm)
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		deleted, err := s.r.Delete(ctx, at.Realm, at.Actor, r.GetWithoutArchive())
		return &coppicev1.DeleteRealmReply{Realm: deleted}, s.refusal(err)
	})
}

// maxRealmNames is the maximum number of names in a request for a list of realms.
const maxRealmNames = 1_000

func (s *realmsServer) list(q *request) {
	at, err := s.target(q)
	var r coppicev1.ListRealmsRequest
	if err == nil {
		err = realmWide(at)
	}
	if err == nil {
		err = q.read(&r)
	}
	if n := len(r.GetNames()); err == nil && n > maxRealmNames {
		err = lifecycle.ErrBadRequest("names: %d names, and a request has at most %d; send several requests, or leave out names to list all realms", n, maxRealmNames)
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		realms, _, err := s.r.List(ctx)
		if err != nil {
			return nil, s.refusal(err)
		}
		writers := s.r.Writers()
		reply := &coppicev1.ListRealmsReply{}
		for _, listed := range realms {
			if len(r.GetNames()) > 0 && !slices.Contains(r.GetNames(), listed.GetName()) || listed.GetState() == coppicev1.RealmState_REALM_STATE_DELETED && !r.GetDeleted() {
				continue
			}
			shown := proto.CloneOf(listed)
			shown.CreateId = ""
			shown.Writer = writers[listed.GetName()]
			reply.Realms = append(reply.Realms, shown)
		}
		return reply, nil
	})
}

// names replies with the names of the realms that are served.
func (s *realmsServer) names(q *request) {
	var r coppicev1.RealmsRequest
	if err := q.read(&r); err != nil {
		q.answer(nil, err)
		return
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		realms, version, err := s.r.List(ctx)
		if err != nil {
			return nil, s.refusal(err)
		}
		reply := &coppicev1.RealmsReply{Version: version}
		if version == r.GetVersion() {
			return reply, nil
		}
		for _, listed := range realms {
			if listed.GetState() == coppicev1.RealmState_REALM_STATE_ACTIVE {
				reply.Names = append(reply.Names, listed.GetName())
			}
		}
		return reply, nil
	})
}

// refusal returns the error for a request that has failed; nil if it has not.
func (s *realmsServer) refusal(err error) *lifecycle.Error {
	var e *lifecycle.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case s.ctx.Err() != nil:
		return s.stopping()
	}
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("the list of realms cannot be read or changed now: %v; try again", err),
	}
}
