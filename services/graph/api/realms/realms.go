// Package realms handles the verbs about the list of realms. All graph services share them.
package realms

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
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// Config is what a Server needs in addition to a serve.Server. Errors of type *lifecycle.Error are refusals.
type Config struct {
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

// Server serves requests about the list of realms.
type Server struct {
	*serve.Server
	c Config
}

// New returns the verbs about the list of realms.
func New(s *serve.Server, c Config) *Server { return &Server{s, c} }

// readAbout reads a request about one realm, which its subject names.
func readAbout(q *serve.Request, at bus.API, m serve.Versioned) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	if err := q.Read(m); err != nil {
		return err
	}
	if err := bus.CheckRealm(at.Realm); err != nil {
		return &lifecycle.Error{Reason: api.ErrInvalid, Message: err.Error()}
	}
	return nil
}

// maxRequestID is the maximum number of bytes of the id of a request that creates a realm.
const maxRequestID = 64

// Create handles the verb createrealm.
func (s *Server) Create(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.CreateRealmRequest
	if err := readAbout(q, at, &r); err != nil {
		return err
	}
	if n := len(r.GetId()); n > maxRequestID {
		return lifecycle.ErrBadRequest("id: it has %d bytes; the id of a request has at most %d", n, maxRequestID)
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		r, err := s.c.Create(ctx, at.Realm, at.Actor, r.GetId())
		return &coppicev1.CreateRealmReply{Realm: r}, s.refusal(err)
	})
	return nil
}

// Delete handles the verb deleterealm.
func (s *Server) Delete(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.DeleteRealmRequest
	if err := readAbout(q, at, &r); err != nil {
		return err
	}
	if r.GetConfirm() != at.Realm {
		return lifecycle.ErrBadRequest("confirm: %q; to delete realm %q with its log, name it here", r.GetConfirm(), at.Realm)
	}
	if !r.GetWithoutArchive() && !s.c.Archives {
		return lifecycle.ErrBadRequest("realm %q has no archive, so that its log would be lost: set without_archive (--without-archive) to delete it nevertheless, or start the graph services with --archive", at.Realm)
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		deleted, err := s.c.Delete(ctx, at.Realm, at.Actor, r.GetWithoutArchive())
		return &coppicev1.DeleteRealmReply{Realm: deleted}, s.refusal(err)
	})
	return nil
}

// maxRealmNames is the maximum number of names in a request for a list of realms.
const maxRealmNames = 1_000

// List handles the verb listrealms.
func (s *Server) List(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.ListRealmsRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if n := len(r.GetNames()); n > maxRealmNames {
		return lifecycle.ErrBadRequest("names: %d names, and a request has at most %d; send several requests, or leave out names to list all realms", n, maxRealmNames)
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		realms, _, err := s.c.List(ctx)
		if err != nil {
			return nil, s.refusal(err)
		}
		writers := s.c.Writers()
		reply := &coppicev1.ListRealmsReply{}
		for _, listed := range realms {
			if of, named := s.Access.Table().Of(at.Actor, listed.GetName()); named && !of.MayAnything() {
				continue
			}
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
	return nil
}

// Names replies with the names of the realms that are served.
func (s *Server) Names(q *serve.Request) *lifecycle.Error {
	var r coppicev1.RealmsRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		realms, version, err := s.c.List(ctx)
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
	return nil
}

// refusal returns the error for a request that has failed; nil if it has not.
func (s *Server) refusal(err error) *lifecycle.Error {
	var e *lifecycle.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case s.Context.Err() != nil:
		return s.ErrStopping()
	}
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("the list of realms cannot be read or changed now: %v; try again", err),
	}
}
